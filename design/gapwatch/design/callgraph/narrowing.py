"""Narrows a value by `isinstance` in the branch where the test is true."""

from __future__ import annotations

from gapwatch.design.callgraph.annotations import annotated
from gapwatch.design.callgraph.frame import Frame
from gapwatch.design.callgraph.values import EMPTY, Kind, Values
from gapwatch.design.source.ir import Expr


def narrow(frame: Frame, test: Expr, is_alone: bool = True) -> None:
    """Narrow the names of a test in its true branch.

    Args:
        frame: The scope under interpretation.
        test: The condition.
        is_alone: False for an operand of `and` and `or`, which only narrows names without known values.
    """
    if test[0] == "b":
        for operand in test[1]:
            narrow(frame, operand, is_alone=False)
        return
    if test[0] != "c" or test[1] != ("n", "isinstance") or len(test[2]) != 2:
        return
    subject, kind = test[2]
    path = subject[1] if subject[0] == "n" else None
    if path is None:
        return
    narrowed = annotated(frame, kind if kind[0] != "t" else ("o", "|", kind[1], 0))
    known = frame.names.get(path, EMPTY)
    if narrowed and not known:
        frame.names[path] = narrowed
    elif narrowed and is_alone:
        frame.names[path] = _those_of(frame, known, narrowed)


def _those_of(frame: Frame, known: Values, wanted: Values) -> Values:
    """Return the known values of the wanted classes, and the wanted values of narrower classes."""
    kinds, a, mro = frame.table.kinds, frame.table.a, frame.solver.mro
    if any(kinds[v] is not Kind.INST for v in (*known, *wanted)):
        return known
    classes = {a[v] for v in wanted}
    out = frozenset(v for v in known if not classes.isdisjoint(mro(a[v])))
    wider = {a[v] for v in known}
    return out | frozenset(v for v in wanted if not wider.isdisjoint(mro(a[v]))) or wanted
