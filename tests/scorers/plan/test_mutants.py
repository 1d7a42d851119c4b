"""Every seeded fault of the compiler makes a contract case fail, or the comparison with the reference."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from tests.contracts.claim_cases import ClaimCase, SeenRow, claim_cases
from tests.paths import FOLDERS
from tests.reference.slice_reading import read_slice
from tests.reference.strategies import DrawnPortfolio, DrawnSlice
from tests.scorers.mutants import MUTANTS, READING, Mutant

#: Modules that hold on to parts of the compiler.
_RELOADED = ("gapwatch.scorers", "tests.scorers.scored_slice", "tests.scorers.scored_view")
_SLICES = 4


class _Patched(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed source."""

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, f"<mutant of {self._name}>", "exec"), module.__dict__)


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """Import the product again with one fault in it, and put everything back afterwards."""
    (path,) = FOLDERS["scorers"].rglob(f"{mutant.module}.py")
    name = f"gapwatch.scorers.{path.parent.name}.{mutant.module}"
    source = path.read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1, f"{name} no longer holds {mutant.old!r} once; rewrite the mutant"
    finder = _Patched(name, source.replace(mutant.old, mutant.new))
    kept = {key: module for key, module in sys.modules.items() if key.startswith(_RELOADED)}
    for key in kept:
        del sys.modules[key]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for key in [key for key in sys.modules if key.startswith(_RELOADED)]:
            del sys.modules[key]
        sys.modules.update(kept)


def case_holds(case: ClaimCase) -> bool:
    """Return whether the imported product passes a case."""
    from tests.scorers.scored_slice import Product, record_slice
    from tests.scorers.scored_view import rows_of, ticks_of

    scored = Product([case.portfolio]).score(record_slice([case.record]))
    seen = [SeenRow(r.trace_id, r.metric, r.span_index, r.outcome, r.score, r.label, r.reason) for r in rows_of(scored)]
    units = Counter(key.outcome for key in ticks_of(scored) if (key.level, key.facet) == ("unit", "all"))
    try:
        case.check_rows(seen)
    except AssertionError:
        return False
    return case.trace_unit is None or units == {case.trace_unit: 1}


def reading_holds(salt: int) -> bool:
    """Return whether the imported product agrees with the reference on one generated slice."""
    from tests.scorers.scored_slice import Product, record_slice
    from tests.scorers.scored_view import differences

    drawn = DrawnSlice(salt, [DrawnPortfolio("p", list(range(24)), list(range(24, 28)))], list(range(28, 68)), None)
    scored = Product(drawn.portfolios).score(record_slice(drawn.values))
    return differences(scored, read_slice(drawn.values, drawn.portfolios), drawn.values) == []


_CASES = {case.id: case for case in claim_cases()}


def is_noticed(mutant: Mutant) -> bool:
    if mutant.killed_by == READING:
        return not all(reading_holds(salt) for salt in range(_SLICES))
    return not case_holds(_CASES[mutant.killed_by])


def first_of_each_module(mutants: Iterable[Mutant]) -> list[Mutant]:
    return list({mutant.module: mutant for mutant in reversed(list(mutants))}.values())


_EVERY_DAY = first_of_each_module(mutant for mutant in MUTANTS if mutant.killed_by != READING)
_MARKED = [
    pytest.param(mutant, id=mutant.id, marks=() if mutant in _EVERY_DAY else pytest.mark.slow) for mutant in MUTANTS
]


@pytest.mark.parametrize("mutant", _MARKED)
def test_a_broken_compiler_is_noticed(mutant: Mutant) -> None:
    with broken(mutant):
        assert is_noticed(mutant)


@pytest.mark.parametrize("case", sorted({mutant.killed_by for mutant in _EVERY_DAY}))
def test_the_sound_compiler_passes_the_same_cases(case: str) -> None:
    assert case_holds(_CASES[case])
