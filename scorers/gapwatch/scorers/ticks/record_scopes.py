"""Records with the pipeline and day under which their names count, and their columns with `other` for further names."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapwatch.scorers.slices.columns import Coded, FloatArray, IntArray
from gapwatch.scorers.slices.facet_names import OTHER, OTHER_STATES, NameBook

# Step of the grid of probabilities: each lies within half a per cent of a point of it.
_GRID = 1.01
# Names and days of a slice that are looked up one by one, before anything is sorted.
_FEW = 256


class RecordScopes:
    """Records of several partitions with the scope of their names.

    Args:
        books: Names of each slice.
        slices: Number of the slice of each of n records.
        pipelines: Pipeline of each.
        own: Positions of the records that are counted.
        buckets: Bucket of each.
        u: Number of each from 0 to 1.
    """

    def __init__(
        self, books: list[NameBook], slices: IntArray, pipelines: Coded, own: IntArray, buckets: IntArray, u: FloatArray
    ) -> None:
        self._books, self._u = books, u
        self._other: dict[str, npt.NDArray[np.bool_]] = {}
        self._contexts: list[tuple[NameBook, str, int]] = []
        self._of_record: IntArray = np.full(len(slices), -1, np.int64)
        key = slices[own] * pipelines.size + pipelines.codes[own]
        for one in np.unique(key).tolist():
            number, code = divmod(one, pipelines.size)
            pipeline, mine = pipelines.values[code - 1].as_py(), own[key == one]
            days, of_day = np.unique(books[number].days(pipeline, buckets[mine]), return_inverse=True)
            self._of_record[mine] = of_day + len(self._contexts)
            self._contexts += [(books[number], pipeline, day) for day in days.tolist()]

    def others(self, record: int, row: int) -> list[str]:
        """Return the facets of a record (environment, release) and of a row (tier, model) that count as `other`."""
        places = {"environment": record, "release": record, "tier": row, "model": row}
        return [facet for facet, place in places.items() if facet in self._other and self._other[facet][place]]

    def bounded(self, facet: str, column: Coded, records: IntArray, spans: IntArray | None = None) -> Coded:
        """Return a column of names in which those that are not counted apart are `other`.

        Args:
            facet: Name of the facet.
            column: Name of each of n items; items without a name stay so.
            records: Record of each item.
            spans: Number of the span of each item in its record; None where the items are the records.
        """
        other = self._others(facet, column, records, spans)
        if other is None:
            return column
        self._other[facet] = other
        values = column.values.cast(pa.string())
        place = values.index(pa.scalar(OTHER)).as_py()
        if place < 0:
            place, values = len(values), pa.concat_arrays([values, pa.array([OTHER])])
        return Coded(np.where(other, place + 1, column.codes), values)

    def bounded_p(self, p: FloatArray) -> FloatArray:
        """Return the probability of each record, on the grid where it is not counted apart; 1 always is."""
        if (p == 1.0).all():
            return p
        found, codes = np.unique(p, return_inverse=True)
        column = Coded(np.where(p == 1.0, 0, codes + 1), pa.array(map(repr, found.tolist()), pa.string()))
        other = self._others("p", column, np.arange(len(p)), None)
        return p if other is None else np.where(other, _GRID ** np.round(np.log(p) / np.log(_GRID)), p)

    def _others(
        self, facet: str, column: Coded, records: IntArray, spans: IntArray | None
    ) -> npt.NDArray[np.bool_] | None:
        """Return which items count under another name; None if none do."""
        names = column.values.to_pylist()
        if len(names) * len(self._contexts) <= _FEW and all(
            set(names) <= book.named((pipeline, day, facet)) for book, pipeline, day in self._contexts
        ):
            return None
        contexts = self._of_record[records]
        has_name = (contexts >= 0) & (column.codes > 0)
        found, of_item = np.unique(np.where(has_name, contexts * column.size + column.codes, -1), return_inverse=True)
        other = self._is_open(facet, found, names)[of_item]
        items = self._undecided(facet, np.flatnonzero(other), of_item, contexts, records)
        if spans is not None:
            items = items[np.lexsort((spans[items], records[items]))]
        apart: dict[tuple[int, int], bool] = {}
        for item, record, code in zip(
            *(part.tolist() for part in (items, records[items], column.codes[items])), strict=True
        ):
            if (record, code) not in apart:
                book, pipeline, day = self._contexts[contexts[item]]
                apart[record, code] = book.see((pipeline, day, facet), names[code - 1], float(self._u[record]))
            other[item] = not apart[record, code]
        self._count(facet, np.unique(records[other]))
        return other if other.any() else None

    def _undecided(
        self, facet: str, items: IntArray, of_item: IntArray, contexts: IntArray, records: IntArray
    ) -> IntArray:
        """Return the items whose name some sampled record has; the names of all others stay `other`."""
        rates = np.array([book.rate((pipeline, day, facet)) for book, pipeline, day in self._contexts])
        sampled = self._u[records[items]] < rates[contexts[items]]
        chosen = np.zeros(int(of_item.max(initial=0)) + 1, bool)
        chosen[of_item[items[sampled]]] = True
        return items[chosen[of_item[items]]]

    def _is_open(self, facet: str, keys: IntArray, names: list[str]) -> npt.NDArray[np.bool_]:
        """Return which pairs of a context and a name, below 0 for none, are not counted apart yet."""
        contexts, codes = np.divmod(keys, len(names) + 1)
        is_open = np.zeros(len(keys), bool)
        for context in np.unique(contexts[keys >= 0]).tolist():
            mine = np.flatnonzero(contexts == context)
            book, pipeline, day = self._contexts[context]
            named = book.named((pipeline, day, facet))
            is_open[mine] = [names[code - 1] not in named for code in codes[mine].tolist()]
        return is_open

    def _count(self, facet: str, records: IntArray) -> None:
        for context, n in zip(
            *(part.tolist() for part in np.unique(self._of_record[records], return_counts=True)), strict=True
        ):
            book, pipeline, _ = self._contexts[context]
            book.others[pipeline, OTHER_STATES[facet]] += n
