"""Archives of campaigns: what is packed comes out again, and nothing else ever does."""

import gzip
import io
import struct
import tarfile
from collections.abc import Callable

import pytest

from harness.exchange import archive
from harness.exchange.archive import STATE, packed_archive, read_archive
from harness.exchange.validation import Unfit
from harness.store import IN_PROGRESS, MEASUREMENTS, RUN

FOLDER = "h200/20261122T015643-1bef8bea"
FILES = {
    f"{FOLDER}/{RUN}": b"{}",
    f"{FOLDER}/{MEASUREMENTS}": b"line\n" * 300,
    f"{FOLDER}/{IN_PROGRESS}": b"",
    f"h200/20261122T025643-1bef8bea/{RUN}": b"{ }",
    f"h200/{STATE}": b'{"schema": 1}',
}


def made(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.USTAR_FORMAT) -> bytes:
    """An archive of whatever entries."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:", format=form) as file:
        for entry, content in entries:
            file.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue())


def entry(
    name: str = f"{FOLDER}/{RUN}", size: int = 2, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.size, found.type, found.linkname = size, kind, link
    return found


def test_what_is_packed_comes_out() -> None:
    ((first, is_first_open), (second, is_second_open)), states = read_archive(packed_archive(FILES))
    assert first.files == {RUN: b"{}", MEASUREMENTS: b"line\n" * 300}
    assert (is_first_open, is_second_open) == (True, False)
    assert second.files == {RUN: b"{ }"}
    assert states == {"h200": b'{"schema": 1}'}


def test_the_same_files_make_the_same_bytes() -> None:
    assert packed_archive(FILES) == packed_archive(dict(reversed(FILES.items())))


def test_an_empty_archive_holds_nothing() -> None:
    assert read_archive(packed_archive({})) == ([], {})


def test_anybody_can_unpack_it() -> None:
    with tarfile.open(fileobj=io.BytesIO(packed_archive(FILES)), mode="r:gz") as file:
        assert {one.name: one.size for one in file} == {name: len(content) for name, content in FILES.items()}
        assert all(one.mode == 0o644 and one.uid == 0 for one in file)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd", "/etc/passwd", f"../{FOLDER}/{RUN}", f"{FOLDER}/../{RUN}", f"./{FOLDER}/{RUN}", RUN,
        f"{FOLDER}/origin.json", f"{FOLDER}/deeper/{RUN}", f"h200/{RUN}", f"H200/20261122T015643-1bef8bea/{RUN}",
        f"h200/20261122T015643-1bef8bea\n/{RUN}", f"{FOLDER}\\{RUN}", f"h200/../{STATE}", STATE, "", "h200/x.py",
        f"-h200/20261122T015643-1bef8bea/{RUN}",
    ],
)  # fmt: skip
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(Unfit, match=r"it has a file '.*', and the archive of a campaign has none of such a name"):
        read_archive(made((entry(name), b"{}")))
    with pytest.raises(Unfit):
        packed_archive({name: b"{}"})


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.CONTTYPE,
     tarfile.GNUTYPE_SPARSE],
)  # fmt: skip
def test_links_devices_and_sparse_files_are_refused(kind: bytes) -> None:
    with pytest.raises(Unfit, match="is no regular file, and an archive has files alone"):
        read_archive(made((entry(kind=kind, size=0, link="/etc/passwd"), b""), form=tarfile.GNU_FORMAT))


def test_extensions_of_the_format_are_refused() -> None:
    long = entry(f"{FOLDER}/{'x' * 200}/{RUN}")
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with pytest.raises(Unfit, match="is no regular file"):
            read_archive(made((long, b"{}"), form=form))


def test_a_file_that_comes_twice_is_refused() -> None:
    with pytest.raises(Unfit, match="twice"):
        read_archive(made((entry(), b"{}"), (entry(), b"{}")))


def test_files_without_their_run_are_refused() -> None:
    with pytest.raises(Unfit, match=f"no {RUN} among them"):
        read_archive(packed_archive({f"{FOLDER}/{MEASUREMENTS}": b""}))


def test_a_file_that_is_too_large_is_refused_by_its_header() -> None:
    most = archive.SIZES[RUN]
    with pytest.raises(Unfit, match=f"has {most + 1:,} bytes, and {most:,} are the most"):
        read_archive(gzip.compress(header(most + 1)))
    with pytest.raises(Unfit, match="has -1 bytes"):
        read_archive(gzip.compress(header(-1)))


def header(size: int) -> bytes:
    """The header of a file of that size, whatever follows; a negative one as only a damaged archive has it."""
    found = bytearray(entry(size=max(0, size)).tobuf(tarfile.USTAR_FORMAT))
    if size < 0:
        found[124:136] = b"\xff" * 8 + struct.pack(">i", size)
    found[148:156] = b" " * 8
    found[148:156] = b"%06o\0 " % sum(found)
    return bytes(found)


def test_bombs_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST_INSIDE", 100_000)
    with pytest.raises(Unfit, match="unpacks to more than"):
        read_archive(gzip.compress(bytes(1_000_000)))
    monkeypatch.setattr(archive, "LARGEST_ARCHIVE", 100)
    with pytest.raises(Unfit, match="it is larger than"):
        read_archive(bytes(101))


def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = packed_archive(FILES)
    monkeypatch.setattr(archive, "MOST_FILES", 3)
    with pytest.raises(Unfit, match="more than 3 files"):
        read_archive(packed)
    with pytest.raises(Unfit, match="are more than an archive holds"):
        packed_archive(FILES)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda _: b"", "it is no whole gzip file|it ends before its end is marked"),
        (lambda good: b"PK\x03\x04" + good, "it is no whole gzip file"),
        (lambda good: good[: len(good) // 2], "it is no whole gzip file"),
        (lambda good: gzip.compress(gzip.decompress(good)[:700]), "ends within|before its end"),
        (lambda good: gzip.compress(gzip.decompress(good)[:1024]), "before its end is marked"),
        (lambda _: gzip.compress(b"x" * 512), "it is no whole tar archive"),
    ],
)  # fmt: skip
def test_what_is_damaged_is_refused(spoil: Callable[[bytes], bytes], words: str) -> None:
    with pytest.raises(Unfit, match=words):
        read_archive(spoil(packed_archive({f"{FOLDER}/{RUN}": b"{}" * 200})))
