"""What is published: the answers of a folder of results, by machine, setting, workload and table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from re import sub

from harness.analyze.attribution import learns_alike
from harness.analyze.claims import Account
from harness.analyze.collection import TOO_SMALL, StoredRow, StoredRun, answered, surest_among
from harness.analyze.estimate import Estimate
from harness.analyze.grouping import together
from harness.analyze.matrix import Table
from harness.analyze.race import Race
from harness.analyze.sweep import KnownTime, Sweep, sweep_of
from harness.core.configuration import Comparison, Configuration, Option
from harness.core.emulation import is_former, step_named
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.plan import WINNER, is_or_was_baseline
from harness.report.scaling import RANKS

ALL, ORIGINAL = "all", "original"
STACKS = (ALL, ORIGINAL)  # names of stacks whose content depends on the suite and the machine
_PARTS = (Timing.LOADER, Timing.COMPUTE)  # of a step
_SIZES = ("standard", "quick")  # the most telling first; others come after them


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Answers that share a setting, data, reference and timing: one table, its rows perhaps from several runs."""

    name: str  # the reference's, short enough for a title
    data: str  # what the workload's real data are, in words; empty for the suite's own
    entries: tuple[StoredRow, ...]

    @property
    def config(self) -> Configuration:
        """The reference."""
        return self.entries[0].row.comparison.reference

    @property
    def timing(self) -> Timing:
        """What was timed."""
        return self.entries[0].row.comparison.timing

    @property
    def is_plain(self) -> bool:
        """Whether the reference has everything off, or had in a former version."""
        return is_or_was_baseline(self.config)

    @property
    def measured(self) -> tuple[StoredRow, ...]:
        """Entries with an estimate, the fastest first; of isolated arms before shared ones.

        Copies of the reference are noise and not among them; of a stack that meant something else once, the newest is.
        """
        newest_first = sorted(self.estimated, key=lambda one: one.run.began, reverse=True)
        asked = together(((one.row.comparison.treatment, one.row.comparison.copy), one) for one in newest_first)
        named: dict[object, StoredRow] = {}
        for question, answers in reversed(asked.items()):
            one = surest_among(answers)
            label = one.row.comparison.label
            named[label if label in STACKS else question] = one
        return tuple(sorted(named.values(), key=lambda one: (-_estimate(one).ratio, one.row.label)))

    @property
    def estimated(self) -> tuple[StoredRow, ...]:
        """Every entry with an estimate, former contents of a named stack among them."""
        return tuple(one for one in self.entries if one.row.estimate is not None and not one.row.comparison.is_copy)

    @property
    def copies(self) -> tuple[StoredRow, ...]:
        """The reference against itself, where that has an estimate."""
        return tuple(one for one in self.entries if one.row.estimate is not None and one.row.comparison.is_copy)

    @property
    def table(self) -> Table:
        """The measured rows as one table, beside the reference's profile in one run: see `profiled`."""
        profiled = self.profiled
        return Table(
            config=self.config,
            name=self.name,
            timing=self.timing,
            rows=tuple(one.row for one in self.measured),
            profile=profiled.table.profile if profiled else None,
            emulated=self.entries[0].table.emulated,
        )

    @property
    def profiled(self) -> StoredRow | None:
        """The entry whose run tells what holds the reference back: the newest that can, or else the newest."""
        known = sorted((one for one in self.entries if one.table.profile), key=lambda one: one.run.began, reverse=True)
        return next(
            (one for one in known if one.table.profile and one.table.profile.bottleneck), next(iter(known), None)
        )


def is_single(entry: StoredRow) -> bool:
    """Whether a comparison is about one option alone."""
    comparison = entry.row.comparison
    added = set(comparison.treatment.options) ^ set(comparison.reference.options)
    return [str(one) for one in added] == [comparison.label]


def is_stack(entry: StoredRow) -> bool:
    """Whether a comparison is about several options at once."""
    comparison = entry.row.comparison
    return comparison.label in STACKS or len(set(comparison.treatment.options) - set(comparison.reference.options)) > 1


def precedence(entry: StoredRow) -> tuple[object, ...]:
    """Of answers that tell of one option the last tells most: calm, of today's baseline, of whole steps, isolated."""
    comparison = entry.row.comparison
    plain = is_or_was_baseline(comparison.reference), not comparison.reference.options
    calm, isolated = not _estimate(entry).disturbed, not _estimate(entry).shared
    return calm, *plain, comparison.timing is Timing.STEP, isolated, entry.run.began, str(comparison.treatment)


def _estimate(entry: StoredRow) -> Estimate:
    if entry.row.estimate is None:
        raise ValueError("no estimate")
    return entry.row.estimate


def _best_of(kept: Sequence[StoredRow]) -> StoredRow | None:
    first = max(kept, key=_low, default=None)
    # Whoever is the first of many was lucky too. A search's winner was measured afresh for that reason.
    afresh = [one for one in kept if first and one.run.matrix.design == WINNER and _estimate(one).high >= _low(first)]
    return max(afresh, key=_low, default=first)


def _low(entry: StoredRow) -> float:
    return _estimate(entry).low


FOR_SURE = 1.01  # what the low end of a gain must exceed


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One workload in one setting."""

    name: str
    sheets: tuple[Sheet, ...]
    no_results: Mapping[str, str]  # subject -> why it was not compared; only where nothing else is known of it
    batches: tuple[tuple[StoredRun, Table], ...] = ()  # tables of other batches, of each reference the newest

    @property
    def main(self) -> Sheet | None:
        """The training steps against the baseline at the most telling size, of several batches at the newest.

        Against what was plain in a former version, where today's has no ratio.
        """
        found = [
            one for one in self.sheets if one.is_plain and one.timing is Timing.STEP and one.measured and not one.data
        ]
        return max(found, key=_telling, default=None)

    @property
    def is_of_today(self) -> bool:
        """Whether its training has ratios against today's baseline; a former one has options."""
        return self.main is not None and not self.main.config.options

    @property
    def told(self) -> tuple[bool, int]:
        """How much it tells of training: against today's baseline before a former one, then by how many ratios."""
        return self.is_of_today, len(self.main.measured) if self.main else 0

    @property
    def alone(self) -> dict[str, StoredRow]:
        """Every option and level by itself, at the size and batch of `main`: the answer that tells most of training.

        Against the baseline before other references, on whole steps before what a part of a step comes to.
        """
        if self.main is None:
            return {}
        config, found = self.main.config, dict[str, StoredRow]()
        several = (one for sheet in self.sheets if sheet.name != ORIGINAL and not sheet.data for one in sheet.measured)
        for one in sorted(several, key=precedence):
            comparison = one.row.comparison
            alike = (comparison.reference.size, comparison.reference.batch) == (config.size, config.batch)
            of_training = comparison.timing not in _PARTS or one.row.on_steps is not None
            if alike and of_training and is_single(one) and comparison.label.partition("=")[0] != RANKS:
                found[comparison.label] = one  # what comes later counts more
        return found

    @property
    def gains(self) -> dict[str, StoredRow]:
        """What surely makes training steps faster by itself and learns the same, by the low end of its interval.

        What was timed on whole steps comes before what is composed from a part of them.
        """
        config = self.main.config if self.main else None
        found = {
            label: (one.row.on_steps is None, one.row.shown.low, one)
            for label, one in self.alone.items()
            if one.row.comparison.reference == config
            and (one.row.comparison.timing is Timing.STEP or one.row.on_steps is not None)
            and one.row.estimate
            and one.row.estimate.verdict.gains
            and one.row.shown
            and one.row.shown.verdict.gains
            and one.row.shown.low >= FOR_SURE
            and learns_alike(one.row)
        }
        return {label: one for label, (*_, one) in sorted(found.items(), key=lambda item: item[1][:2], reverse=True)}

    @property
    def best(self) -> StoredRow | None:
        """The fastest of `main` that is faster and learns the same, by the low end of its interval.

        A search's winner stands before those whose intervals do not tell them apart from it.
        """
        return _best_of([one for one in self._faster if learns_alike(one.row)])

    @property
    def best_stack(self) -> StoredRow | None:
        """The best where that is a stack, else the same among stacks."""
        best = self.best
        if best is not None and is_stack(best):
            return best
        return _best_of([one for one in self._faster if is_stack(one) and learns_alike(one.row)])

    @property
    def faster_otherwise(self) -> StoredRow | None:
        """What is faster still, but learns otherwise or was not judged."""
        beyond = [one for one in self._faster if self.best is None or _low(one) > _low(self.best)]
        otherwise = (one for one in beyond if not learns_alike(one.row))
        return max(otherwise, key=lambda one: _estimate(one).ratio, default=None)

    @property
    def _faster(self) -> tuple[StoredRow, ...]:
        rows = self.main.measured if self.main else ()
        return tuple(one for one in rows if _estimate(one).verdict.gains)

    def against(self, name: str, like: StoredRow) -> StoredRow | None:
        """The same stack against another reference, on the same size, batch and timing; else what is most like it.

        Of stacks of its name that is the one with fewest other options, of equals the newest.
        """
        wanted = like.row.comparison
        named = []
        for one in (one for sheet in self.sheets if sheet.name == name and not sheet.data for one in sheet.measured):
            found = one.row.comparison
            if (found.treatment, found.timing) == (wanted.treatment, wanted.timing):
                return one
            if (found.label, at(found)) == (wanted.label, at(wanted)):
                named.append(one)
        options = set(wanted.treatment.options)
        newest_first = sorted(named, key=lambda one: one.run.began, reverse=True)
        return min(newest_first, key=lambda one: len(options ^ set(one.row.comparison.treatment.options)), default=None)

    def faster_than(self, found: StoredRow) -> StoredRow | None:
        """The fastest over the same reference that learns the same, where its ratio and its low end are higher."""
        its, low, ratio = found.row.comparison, _low(found), _estimate(found).ratio
        asked = its.reference, its.timing, found.data
        sheets = (one for one in self.sheets if (one.config, one.timing, one.data) == asked)
        gaining = (one for sheet in sheets for one in sheet.measured if _estimate(one).verdict.gains)
        faster = (one for one in gaining if _low(one) > low and _estimate(one).ratio > ratio and learns_alike(one.row))
        return max(faster, key=_low, default=None)


def at(comparison: Comparison) -> tuple[str, int, Timing]:
    """Where a comparison was timed: the size, the batch, and what of a training."""
    return comparison.treatment.size, comparison.treatment.batch, comparison.timing


def _telling(sheet: Sheet) -> tuple[object, ...]:
    newest = max(one.run.began for one in sheet.measured)
    return not sheet.config.options, -telling(sheet), newest, len(sheet.measured)


def telling(sheet: Sheet) -> int:
    """How much the size of a sheet tells: 0 is the real system's."""
    return _SIZES.index(sheet.config.size) if sheet.config.size in _SIZES else len(_SIZES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One environment of a machine; what somebody else measured is a setting of its own, whatever it says it is."""

    environment: Environment
    is_contributed: bool
    runs: tuple[StoredRun, ...]  # the newest first
    topics: tuple[Topic, ...]  # by name

    @property
    def ratios(self) -> int:
        """How many questions have a ratio."""
        return sum(len(sheet.measured) for topic in self.topics for sheet in topic.sheets)

    @property
    def is_former(self) -> bool:
        """Whether its device is emulated by a table that was put right since."""
        return is_former(self.environment.device, self.environment.driver)

    @property
    def key(self) -> str:
        """What its figures are called by."""
        return self.environment.digest + ("-contributed" if self.is_contributed else "")


def _fullness(times: Mapping[float, Setting]) -> tuple[bool, int]:
    """Of several sweeps of a host the last tells most: of today's table of launches, then of most step times."""
    return not any(one.is_former for one in times.values()), len(times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A machine's folder of results."""

    name: str
    settings: tuple[Setting, ...]  # the newest first, our own before contributed ones
    accounts: tuple[Account, ...] = ()
    marks: Mapping[str, Mapping[str, KnownTime]] = field(default_factory=dict)  # workload -> known devices' step times
    races: tuple[Race, ...] = ()

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """Its workloads over the step time of emulated devices, as far as several times were measured.

        A curve joins what was measured in one environment but for the device: of several one of today's table of
        launches, then the one with most step times.
        What somebody else measured joins nothing of ours and never takes its place.
        """
        hosts: dict[tuple[str, bool, str], dict[float, Setting]] = {}
        for setting in self.settings:
            at_s = step_named(setting.environment.device) if setting.environment.emulated else None
            for topic in setting.topics if at_s else ():
                if topic.main and at_s:
                    host = replace(setting.environment, device="", accelerator=None, accelerator_memory_bytes=None)
                    key = topic.name, setting.is_contributed, host.digest
                    hosts.setdefault(key, {}).setdefault(at_s, setting)
        most: dict[tuple[str, bool], dict[float, Setting]] = {}
        newest_last = list(hosts.items())[::-1]
        for (name, theirs, _), times in sorted(newest_last, key=lambda one: _fullness(one[1])):
            most[name, theirs] = times
        found = (
            (at_s, setting.environment, [one.main.table for one in setting.topics if one.name == name and one.main])
            for (name, theirs), times in most.items()
            if not (theirs and (name, False) in most)
            for at_s, setting in times.items()
        )
        return tuple(one for one in sweep_of(found) if any(len(curve.points) > 1 for curve in one.curves))

    @property
    def is_contributed(self) -> bool:
        """Whether somebody else measured any of it."""
        return any(one.is_contributed for one in self.settings)

    @property
    def fullest(self) -> dict[str, tuple[Setting, Topic]]:
        """For each workload the setting with most ratios of training against the baseline, of equals the newest.

        A first look in a new environment does not take the place of a whole matrix, nor somebody else's of our own. Nor
        does what a former table of an emulated device came to, where today's has a ratio.
        """
        found: dict[str, tuple[Setting, Topic]] = {}
        for one in sorted(self.settings, key=lambda one: (one.is_contributed, one.is_former)):
            for topic in one.topics:
                kept = found.get(topic.name)
                is_alike = kept is None or kept[0].is_contributed == one.is_contributed
                is_beaten = one.is_former and kept is not None and not kept[0].is_former and kept[1].main is not None
                if kept is None or (is_alike and not is_beaten and topic.told > kept[1].told):
                    found[topic.name] = one, topic
        return dict(sorted(found.items()))

    @property
    def answers(self) -> tuple[tuple[Setting, Topic], ...]:
        """The same, of the workloads whose training has a ratio against the baseline."""
        return tuple(one for one in self.fullest.values() if one[1].main is not None)

    @property
    def richest(self) -> Setting:
        """The setting with most ratios, of our own and of today's table if there is one; of equals the newest."""
        return max(self.settings, key=lambda one: (not one.is_contributed, not one.is_former, one.ratios))

    @property
    def workloads(self) -> tuple[str, ...]:
        """The names of all workloads that anything is known of."""
        return tuple(sorted({topic.name for setting in self.settings for topic in setting.topics}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """All machines of a folder of results, and what the pages must know beside them."""

    places: tuple[Place, ...]  # by name
    has_claims: bool = False  # whether the folder holds claims.md


def file_name(text: str) -> str:
    """A name that is safe in a folder: foreign names lose what is not a letter or digit and get a digest instead."""
    plain = sub(r"[^A-Za-z0-9_-]", "-", text)[:48]
    if plain == text and text and text.upper() != "README":
        return text
    return f"{plain}-{sha256(text.encode()).hexdigest()[:8]}"


# Grouping: the runs of a machine's folder into settings, topics and sheets.

_TIMINGS = tuple(Timing)
_SHORT = 3  # options of a reference that is called by them all, or by which it differs from the real system's settings
LONGEST_NAME = 60  # of a row, in characters


def published_place(name: str, runs: Iterable[StoredRun], accounts: Iterable[Account] = ()) -> Place:
    """What the runs of a machine's folder say; contributed ones never stand in for our own."""
    runs = tuple(runs)
    ours = _settings([one for one in runs if not one.contributed], is_contributed=False)
    theirs = _settings([one for one in runs if one.contributed], is_contributed=True)
    return Place(name=name, settings=(*ours, *theirs), accounts=tuple(accounts))


def _settings(runs: Iterable[StoredRun], *, is_contributed: bool) -> tuple[Setting, ...]:
    newest_first = sorted(runs, key=lambda one: (one.began, one.name), reverse=True)
    by_digest = together((one.environment.digest, one) for one in newest_first)
    return tuple(
        Setting(
            environment=group[0].environment, is_contributed=is_contributed, runs=tuple(group), topics=_topics(group)
        )
        for group in by_digest.values()
    )


def _topics(runs: Iterable[StoredRun]) -> tuple[Topic, ...]:
    runs = tuple(runs)
    by_workload = together((one.row.comparison.treatment.workload, one) for one in answered(runs))
    batches = together((table.config.workload, (kept, table)) for kept, table in _batches(runs))
    return tuple(
        Topic(
            name=name,
            sheets=_sheets(by_workload.get(name, ())),
            no_results=_no_results(name, runs, by_workload.get(name, ())),
            batches=tuple(batches.get(name, ())),
        )
        for name in sorted({*by_workload, *batches})
    )


def _batches(runs: Iterable[StoredRun]) -> Iterator[tuple[StoredRun, Table]]:
    """The newest table of other batches for each reference; the runs come newest first."""
    seen = set()
    for kept in runs:
        for table in kept.matrix.batch_tables:
            asked = table.config, table.timing, kept.matrix.data.get(table.config.workload, "")
            if table.config.size != TOO_SMALL and asked not in seen and any(row.estimate for row in table.rows):
                seen.add(asked)
                yield kept, table


def _sheets(entries: Iterable[StoredRow]) -> tuple[Sheet, ...]:
    entries = tuple(entries)
    compared = [(one.row.comparison, one) for one in entries]
    stacks = {its.treatment: its.label for its, _ in compared if its.label in STACKS and not its.is_copy}
    originals = {frozenset(one.options) for one, label in stacks.items() if label == ORIGINAL}
    originals |= {frozenset(one.table.config.options) for one in entries if one.table.name == ORIGINAL}
    grouped = together(((its.reference, its.timing, one.data), one) for its, one in compared)
    sheets = [
        Sheet(name=_name(config, group, stacks, originals), data=data, entries=tuple(group))
        for (config, _, data), group in grouped.items()
    ]
    return tuple(sorted(sheets, key=_order))


_Options = frozenset[Option]


def _name(
    config: Configuration,
    entries: Iterable[StoredRow],
    stacks: Mapping[Configuration, str],
    originals: Iterable[_Options],
) -> str:
    """What its runs call a reference, unless that is a long row of options."""
    called = next(entry.table.name for entry in entries)
    if len(config.options) <= _SHORT or called in STACKS:
        return called
    count = f"a stack of {len(config.options)}"
    return stacks.get(config) or _like_original(frozenset(config.options), originals) or count


def _like_original(options: _Options, originals: Iterable[_Options]) -> str | None:
    """A stack as the real system's settings with few options more or less; None where it is too unlike them."""
    nearest = min(originals, key=lambda one: (len(one ^ options), sorted(map(str, one))), default=None)
    if nearest is None or len(nearest ^ options) > _SHORT:
        return None
    less, more = (sorted(map(str, some)) for some in (nearest - options, options - nearest))
    without = f"{ORIGINAL} without {', '.join(less)}" + (f", with {', '.join(more)}" if more else "")
    name = without if less else "+".join((ORIGINAL, *more))
    return name if len(name) <= LONGEST_NAME else None


def _order(sheet: Sheet) -> tuple[object, ...]:
    """The baseline's training first, then what has most to tell."""
    return (
        sheet.data,
        telling(sheet),
        not sheet.is_plain,
        _TIMINGS.index(sheet.timing),
        -len(sheet.measured),
        str(sheet.config),
    )


def _no_results(workload: str, runs: Iterable[StoredRun], entries: Iterable[StoredRow]) -> dict[str, str]:
    """What newer runs first say cannot be compared; what a claim lacks stands among the claims."""
    known = {entry.row.comparison.label for entry in entries}
    found: dict[str, str] = {}
    for kept in runs:
        for no_result in kept.matrix.no_results if kept.matrix.design != "claims" else ():
            if no_result.workload == workload and no_result.label not in known:
                found.setdefault(no_result.label, no_result.reason)
    return found
