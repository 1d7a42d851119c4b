"""Reads and copies slots of containers (lists, tuples, sets, dictionaries)."""

from __future__ import annotations

from gapwatch.design.callgraph.frame import Frame
from gapwatch.design.callgraph.values import Kind, Values


def read_slot(frame: Frame, box: int, keys: Values) -> Values:
    """Return the values of a container at constant keys; all its values if a key is not constant."""
    table = frame.table
    constants = [table.a[v] for v in keys if table.kinds[v] in (Kind.TEXT, Kind.NUMBER)]
    if not constants or len(constants) != len(keys):
        return frame.read(("all", box))
    out = frame.read(("s", box, None))
    known = frame.solver.box_keys.get(box, ())
    for key in constants:
        if isinstance(key, int) and key < 0 and table.a[box] in "tl":
            size = max((k for k in known if isinstance(k, int)), default=-1) + 1
            if not size:
                return frame.read(("all", box))
            key += size
        out |= frame.read(("s", box, key))
    return out


def copy_box(frame: Frame, source: int, target: int) -> None:
    """Add all slots and keys of a container to another one."""
    solver = frame.solver
    for key in list(solver.box_keys.get(source, ())):
        solver.put(target, key, frame.read(("s", source, key)))
    solver.put(target, None, frame.read(("s", source, None)))
    frame.read(("all", source))
    solver.grow(("keys", target), frame.read(("keys", source)))
