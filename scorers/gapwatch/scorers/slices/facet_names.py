"""The names of environments, releases, models, tiers and probabilities that a partition counts apart.

Each name is a series or a row of ticks of its own, and records may bring a new one with each trace. So a partition
counts 200 of them a pipeline, day and facet, and some frequent ones that come later; the spans of all others count
under `other`, and other probabilities count as the nearest of a grid. Sums stay exact.

    1st to 200th name of a day    counted apart at once
    up to 50 later ones           counted apart once two sampled records had the name: one record in 16 is sampled, and
                                  half as many after each further 100 names

A later name that comes often is sampled soon, and one that comes once is never counted apart. Only the names of
earlier records of the partition decide, in the order of their offsets, so that any slicing, a restart and a second run
count the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from gapwatch.scorers.slices.columns import BUCKET_SECONDS, NO_BUCKET, IntArray
from gapwatch.scorers.slices.tables import EMPTY_TABLES, FACET_NAMES

AT_ONCE = 200
"""First names of a facet in a day, which a partition counts apart. More: more rows of ticks; fewer: less told apart."""
MOST_NAMES = 250
"""All names that it counts apart in a day; those beyond the first are the frequent ones among the later names."""
_LONGEST_NAME = 200
# Share of records that are sampled for later names. More: names that come a few times fill the last places; fewer: a
# frequent name is counted apart later, after about two divided by the product of the rate and its share of the records.
_FIRST_RATE, _HALVED_AFTER = 1 / 16, 100
# Days behind the newest one of a partition whose names are known. Names of older records count as of no day.
_DAYS = 7
_BUCKETS_OF_DAY = 86_400 // BUCKET_SECONDS
_NO_DAY = -(2**40)
_DAY_MICROS = 86_400_000_000
#: Name that stands for all names of an open set (environments, tiers, releases) beyond those counted apart.
OTHER = "other"
#: Facets, and the state in the ledger of the records of which something counts under another name.
OTHER_STATES = {
    "environment": "other_environment",
    "release": "other_release",
    "tier": "other_tier",
    "model": "other_model",
    "p": "other_p",
}

#: Pipeline, day (days since 1970-01-01; `_NO_DAY` without a time) and facet.
Scope = tuple[str, int, str]


@dataclass(frozen=True)
class FacetNames:
    """Names that a partition has counted so far.

    Attributes:
        known: Whether a name is counted apart (True) or was sampled once (False), by scope and name.
        newest: Newest day of a record, by pipeline.
    """

    known: Mapping[Scope, Mapping[str, bool]] = field(default_factory=dict)
    newest: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def stored(cls, rows: pa.Table) -> FacetNames:
        """Return the names of one partition from its rows of the table `facet_names`, in any order."""
        known: dict[Scope, dict[str, bool]] = {}
        newest: dict[str, int] = {}
        columns = (rows[name].to_pylist() for name in ("pipeline", "facet", "value", "sightings"))
        for day, pipeline, facet, value, sightings in zip(_days(rows["day"]), *columns, strict=True):
            names = known.setdefault((pipeline, day, facet), {})
            names[value] = names.get(value, False) or sightings == 2
            newest[pipeline] = max(newest.get(pipeline, day), day)
        return cls(known, newest)


def _days(column: pa.ChunkedArray) -> list[int]:
    micros = column.cast(pa.int64()).to_pylist()
    return [_NO_DAY if one is None else one // _DAY_MICROS for one in micros]


class NameBook:
    """Chooses the names of one partition, record by record.

    Args:
        names: State before the records.
    """

    def __init__(self, names: FacetNames) -> None:
        self._known: dict[Scope, Mapping[str, bool]] = dict(names.known)
        self._newest = dict(names.newest)
        self._changed: dict[Scope, dict[str, bool]] = {}
        self._rows: list[tuple[Scope, str, int]] = []
        self.others: Counter[tuple[str, str]] = Counter()
        """Number of records by pipeline and state of `OTHER_STATES`."""

    def days(self, pipeline: str, buckets: IntArray) -> IntArray:
        """Return the day under which each record of a pipeline counts; call it once for the records of a slice."""
        days = np.where(buckets == NO_BUCKET, _NO_DAY, buckets // _BUCKETS_OF_DAY)
        newest = np.maximum.accumulate(np.concatenate([[self._newest.get(pipeline, _NO_DAY)], days]))[1:]
        if len(newest) and newest[-1] != _NO_DAY:
            self._newest[pipeline] = int(newest[-1])
        return np.where(days > newest - _DAYS, days, _NO_DAY)

    def named(self, scope: Scope) -> Set[str]:
        """Return the names that are counted apart already."""
        known = self._known.get(scope, {})
        return {OTHER, *(name for name, is_apart in known.items() if is_apart)}

    def rate(self, scope: Scope) -> float:
        """Return the share of records that are sampled for further names; it never grows."""
        later = len(self._known.get(scope, ())) - AT_ONCE
        return 1.0 if later < 0 else _FIRST_RATE * 0.5 ** (later // _HALVED_AFTER)

    def see(self, scope: Scope, name: str, u: float) -> bool:
        """Return whether a record counts apart under a name, and remember the name.

        Args:
            scope: Pipeline, day and facet.
            name: The name that the record gives.
            u: Number of the record from 0 to 1, by which records are sampled.
        """
        known = self._known.get(scope, {})
        if known.get(name, False) or name == OTHER:
            return True
        if len(name) > _LONGEST_NAME:
            return False
        if len(known) < AT_ONCE:
            self._remember(scope, name, 2)
            return True
        if u >= self.rate(scope):
            return False
        if name not in known:
            self._remember(scope, name, 1)
        elif sum(known.values()) < MOST_NAMES:
            self._remember(scope, name, 2)
            return True
        return False

    def _remember(self, scope: Scope, name: str, sightings: int) -> None:
        if scope not in self._changed:
            self._known[scope] = self._changed[scope] = dict(self._known.get(scope, {}))
        self._changed[scope][name] = sightings == 2
        self._rows.append((scope, name, sightings))

    def names(self) -> FacetNames:
        """Return the state after the records, without days that have passed."""
        known = {
            scope: names
            for scope, names in self._known.items()
            if scope[1] == _NO_DAY or scope[1] > self._newest.get(scope[0], _NO_DAY) - _DAYS
        }
        return FacetNames(known, self._newest)

    def table(self, lane: str) -> pa.Table:
        """Return the new names, without topic and partition."""
        if not self._rows:
            return EMPTY_TABLES["facet_names"]
        scopes, names, sightings = zip(*self._rows, strict=True)
        days = [None if day == _NO_DAY else day * _DAY_MICROS for _, day, _ in scopes]
        nothing = [None] * len(names)
        columns = (
            [lane] * len(names), nothing, nothing, [pipeline for pipeline, _, _ in scopes],
            pa.array(days, pa.int64()).cast(pa.timestamp("us")), [facet for _, _, facet in scopes], names, sightings,
        )  # fmt: skip
        return pa.table(dict(zip(FACET_NAMES.names, columns, strict=True)), schema=FACET_NAMES)
