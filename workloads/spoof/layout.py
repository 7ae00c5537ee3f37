"""Where the clips of ASVspoof 2019 LA and of Fake-or-Real lie, and what their lists say."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.mistake import Mistake

SAMPLE_RATE = 16_000
SPOOF, BONAFIDE = 0, 1
KEYS = {"spoof": SPOOF, "bonafide": BONAFIDE}
PROTOCOLS = "LA/ASVspoof2019_LA_cm_protocols"
PROTOCOL = {"train": "ASVspoof2019.LA.cm.train.trn.txt", "dev": "ASVspoof2019.LA.cm.dev.trl.txt"}
COLUMNS = 5  # speaker, utterance, -, system, key
HALVES = {"train": "training", "dev": "validation"}  # as Fake-or-Real calls them
SIDES = {"fake": SPOOF, "real": BONAFIDE}
FEATURES = "features"  # beside both, where the feature cache lies


@dataclass(frozen=True, slots=True)
class Clip:
    """A file below the data folder, and what its list says of it."""

    name: str  # as in the score file
    path: str
    source: str  # the attack's number in ASVspoof, - for bona fide speech
    label: int

    @property
    def key(self) -> str:
        """The label in the words of the protocol."""
        return "bonafide" if self.label == BONAFIDE else "spoof"

    @property
    def cached(self) -> str:
        """Where the clip's features lie, below the data folder."""
        return f"{FEATURES}/{self.path}.npy"


def protocol_path(folder: Path, split: str) -> Path:
    """The list of `train` or `dev` in ASVspoof's tree."""
    return folder / PROTOCOLS / PROTOCOL[split]


def write_protocol(folder: Path, split: str, rows: Iterable[tuple[str, Clip]]) -> None:
    """Writes pairs of a speaker and a clip, one a line in five columns."""
    lines = [f"{speaker} {clip.name} - {clip.source} {clip.key}\n" for speaker, clip in rows]
    path = protocol_path(folder, split)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


def asvspoof_clip(split: str, name: str, source: str, label: int) -> Clip:
    """The clip of an utterance."""
    return Clip(name, f"LA/ASVspoof2019_LA_{split}/flac/{name}.flac", source, label)


def fake_or_real_clip(split: str, side: str, file: str) -> Clip:
    """The clip of a WAV file; its score file names it by its path."""
    path = f"{HALVES[split]}/{side}/{file}"
    return Clip(path, path, "-", SIDES[side])


def asvspoof(folder: Path, split: str) -> tuple[Clip, ...]:
    """The clips of a protocol in its order; raises Mistake for a line that is none."""
    path = protocol_path(folder, split)
    if not path.is_file():
        raise Mistake(f"{path} is missing; give the folder that holds LA/ as ASVspoof 2019 unpacks it.")
    return tuple(_rows(path, split))


def fake_or_real(folder: Path, split: str) -> tuple[Clip, ...]:
    """The clips of a half of Fake-or-Real, by path; raises Mistake where there are none of a side."""
    clips = []
    for side in SIDES:
        files = sorted((folder / HALVES[split] / side).glob("*.wav"))
        if not files:
            raise Mistake(f"{folder / HALVES[split] / side} holds no .wav file; put that side of Fake-or-Real there.")
        clips += [fake_or_real_clip(split, side, file.name) for file in files]
    return tuple(clips)


CORPORA = {"asvspoof": asvspoof, "fake_or_real": fake_or_real}


def _rows(path: Path, split: str) -> Iterator[Clip]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fields = line.split()
        if len(fields) != COLUMNS or fields[4] not in KEYS:
            raise Mistake(
                f"Line {number} of {path} is not `speaker utterance - system key` with a key of bonafide or spoof; "
                "use the countermeasure protocol as it was published."
            )
        yield asvspoof_clip(split, fields[1], fields[3], KEYS[fields[4]])
