"""Scale of a rubric: its bands with their scores, and the bands that pass."""

from __future__ import annotations

from dataclasses import dataclass

from gapwatch.scorers.portfolio.claim import Rubric

#: A judgement passes above this position of the scale if the rubric has no `pass_at`; a tie fails.
PASSING_POSITION = 0.5


@dataclass(frozen=True)
class Band:
    """Band of a scale.

    Attributes:
        word: Word that the judge has to write.
        score: Score of the band, shown in rows.
        position: Position from 0 (worst) to 1 (best).
        passes: Whether a verdict with this band passes.
    """

    word: str
    score: float
    position: float
    passes: bool


@dataclass(frozen=True)
class Scale:
    """Scale of a rubric.

    Attributes:
        bands: At least two bands, best first.
    """

    bands: tuple[Band, ...]

    def band(self, word: str) -> Band | None:
        """Return the band with this word, ignoring case and white space at the ends, or None."""
        asked = word.strip().casefold()
        return next((band for band in self.bands if band.word.casefold() == asked), None)

    def number(self, value: float) -> Band | None:
        """Return the band of a number that is on the scale, or None."""
        return next((band for band in self.bands if _as_number(band.word) == value), None)


def scale_of(rubric: Rubric) -> Scale:
    """Return the scale of a rubric.

    Words, best first, have evenly spaced scores from 1 to 0; numbers are their own scores; a map has the score of each
    word. The highest score is the best, in whatever order the bands are written.
    """
    written = rubric.scale
    if isinstance(written, dict):
        words = sorted(written, key=lambda word: -written[word])
        scores = [written[word] for word in words]
    elif all(isinstance(band, str) for band in written):
        words = [str(band) for band in written]
        scores = [1 - i / (len(words) - 1) for i in range(len(words))]
    else:
        scores = sorted((float(band) for band in written), reverse=True)
        words = [f"{score:g}" for score in scores]
    best, worst = scores[0], scores[-1]
    span = best - worst
    positions = [(score - worst) / span if span else 0.0 for score in scores]
    passes = _passes(rubric, words, scores, positions)
    return Scale(tuple(map(Band, words, scores, positions, passes)))


def _passes(rubric: Rubric, words: list[str], scores: list[float], positions: list[float]) -> list[bool]:
    pass_at = rubric.pass_at
    if pass_at is None:
        return [position > PASSING_POSITION for position in positions]
    if isinstance(pass_at, str):
        last = words.index(pass_at)
        return [i <= last for i in range(len(words))]
    return [score >= pass_at for score in scores]


def passing_average(rubric: Rubric) -> float | None:
    """Return the lowest average position, from 0 to 1, at which an ensemble passes: the position of `pass_at`.

    None stands for an average above the middle: without `pass_at`, and on a scale of two bands of which one passes.
    There `pass_at` says only which band passes, so that more than half of the judges must choose it.
    """
    bands = scale_of(rubric).bands
    pass_at = rubric.pass_at
    if pass_at is None or (len(bands) == 2 and not bands[1].passes):
        return None
    if isinstance(pass_at, str):
        return next(band.position for band in bands if band.word == pass_at)
    best, worst = bands[0].score, bands[-1].score
    return (pass_at - worst) / (best - worst) if best > worst else 0.0


def _as_number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
