"""The score file of the countermeasure, its order, and the equal error rate that is read from it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from workloads.spoof.layout import BONAFIDE, Clip

Scores = TypeVar("Scores")
Booleans = npt.NDArray[np.bool_]


class OrderBroken(AssertionError):
    """A score stands beside an utterance that it does not belong to; the message names the first."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """How often the clips are scored when training ends: once for the score file, and again for the plots as found."""

    passes: int

    def __call__(self, once: Callable[[], Scores]) -> Scores:
        """The scores of the last pass."""
        for _ in range(self.passes):
            scores = once()
        return scores


@dataclass(frozen=True, slots=True)
class Scored:
    """An utterance as the loader named it, and its score."""

    name: str
    score: float


def write_scores(path: Path, clips: Sequence[Clip], scored: Sequence[Scored]) -> None:
    """Writes `utterance source key score` a line; raises OrderBroken unless the scores come in the list's order."""
    if len(scored) != len(clips):
        raise OrderBroken(f"{len(scored)} scores for {len(clips)} utterances")
    for clip, one in zip(clips, scored, strict=True):
        if clip.name != one.name:
            raise OrderBroken(f"the score of {one.name} stands where {clip.name} is expected")
    lines = [f"{clip.name} {clip.source} {clip.key} {one.score}\n" for clip, one in zip(clips, scored, strict=True)]
    path.write_text("".join(lines))


def read_scores(path: Path, clips: Sequence[Clip]) -> tuple[float, ...]:
    """The scores in a file; raises OrderBroken unless its lines are those of the list, in the same order."""
    rows = [line.split() for line in path.read_text().splitlines()]
    if len(rows) != len(clips):
        raise OrderBroken(f"{path} has {len(rows)} lines, the list {len(clips)}")
    for (name, source, key, _), clip in zip(rows, clips, strict=True):
        if (name, source, key) != (clip.name, clip.source, clip.key):
            raise OrderBroken(f"{path} has {name} {key} where the list has {clip.name} {clip.key}")
    return tuple(float(row[3]) for row in rows)


def bonafide_mask(clips: Sequence[Clip]) -> Booleans:
    """Which clips are bona fide."""
    return np.array([clip.label == BONAFIDE for clip in clips], dtype=np.bool_)


def equal_error_rate(scores: Sequence[float], bonafide: Booleans) -> tuple[float, float]:
    """The equal error rate, from 0 to 1, and its threshold: bona fide is what scores at least that much.

    It is read where misses and false alarms lie closest over all thresholds, as the mean of the two, which is how the
    ASVspoof 2019 evaluation does it. Scores that are not finite give NaN: sorting would otherwise make a number of
    them.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        return float("nan"), float("nan")
    thresholds = np.append(np.unique(values), np.inf)
    misses = np.searchsorted(np.sort(values[bonafide]), thresholds) / bonafide.sum()
    alarms = 1 - np.searchsorted(np.sort(values[~bonafide]), thresholds) / (~bonafide).sum()
    nearest = int(np.abs(misses - alarms).argmin())
    return float(misses[nearest] + alarms[nearest]) / 2, float(thresholds[nearest])


def accuracy_at(threshold: float, scores: Sequence[float], bonafide: Booleans) -> float:
    """The share judged rightly; at the threshold of the same set's equal error rate, as the original reports it."""
    return float(((np.asarray(scores) >= threshold) == bonafide).mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """The error rates of the speaker verifier that a countermeasure protects, each from 0 to 1.

    Unless they are given: it never errs between speakers, and takes every spoofed utterance for its target. Then all
    that is gained is the countermeasure's.
    """

    miss: float = 0.0  # of targets
    false_accept: float = 0.0  # of other speakers
    spoof_miss: float = 0.0  # of spoofed utterances


# Priors and costs of the ASVspoof 2019 evaluation plan.
SPOOF_SHARE, TARGET_SHARE = 0.05, (1 - 0.05) * 0.99
OTHER_SHARE = (1 - 0.05) * 0.01
VERIFIER_MISS, VERIFIER_FALSE_ACCEPT, MISS, FALSE_ACCEPT = 1.0, 10.0, 1.0, 10.0


def min_tandem_cost(scores: Sequence[float], bonafide: Booleans, verifier: Verifier) -> float:
    """The least tandem detection cost over all thresholds, over that of the better constant answer (Kinnunen 2018).

    C1 P_miss + C2 P_fa over min(C1, C2), with the weights of the 2019 plan. NaN where a score is not finite, and where
    the verifier is so poor that the cost has no meaning.
    """
    values = np.asarray(scores, dtype=np.float64)
    of_misses = TARGET_SHARE * (MISS - VERIFIER_MISS * verifier.miss)
    of_misses -= OTHER_SHARE * VERIFIER_FALSE_ACCEPT * verifier.false_accept
    of_alarms = FALSE_ACCEPT * SPOOF_SHARE * (1 - verifier.spoof_miss)
    if not np.isfinite(values).all() or min(of_misses, of_alarms) <= 0:
        return float("nan")
    thresholds = np.append(np.unique(values), np.inf)
    misses = np.searchsorted(np.sort(values[bonafide]), thresholds) / bonafide.sum()
    alarms = 1 - np.searchsorted(np.sort(values[~bonafide]), thresholds) / (~bonafide).sum()
    return float((of_misses * misses + of_alarms * alarms).min()) / min(of_misses, of_alarms)
