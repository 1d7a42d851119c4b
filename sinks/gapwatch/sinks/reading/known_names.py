"""Refuses names of metrics, components and lanes that a store does not have, and names the nearest one.

Without it, a misspelt name looks like a metric without a failure.
"""

from __future__ import annotations

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.problems import nearest
from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader

_NAMES = {
    "metric": "SELECT metric AS name FROM metrics UNION SELECT metric FROM ticks UNION SELECT metric FROM gaps",
    "component": "SELECT component AS name FROM ticks UNION SELECT component FROM gaps",
    "lane": "SELECT lane AS name FROM offsets UNION SELECT lane FROM gaps",
}
#: Most names that are listed where none is near.
_LISTED = 12


def check_names(con: StoreReader, **given: str | None) -> None:
    """Check that a store has the names that were given.

    Args:
        con: The store.
        given: Name by kind: `metric`, `component` or `lane`; None where not given.

    Raises:
        UsageError: The store has no such name.
    """
    for kind, name in given.items():
        if name is not None and (why := unknown_name(con, kind, name)):
            raise UsageError(f"--{kind} {shown(name, 100)}: {why}")


def unknown_name(con: StoreReader, kind: str, name: str) -> str:
    """Return a sentence with the nearest name if the store lacks this one, else an empty text.

    Args:
        con: The store.
        kind: `metric`, `component` or `lane`.
        name: The name that was given.
    """
    known = sorted(row["name"] for row in ask(con, _NAMES[kind], []).objects() if row["name"])
    if name in known:
        return ""
    near = nearest(name, known)
    if near:
        hint = f"did you mean {shown(near, 100)}?"
    elif known:
        more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        hint = f"there are {', '.join(shown(one, 100) for one in known[:_LISTED])}{more}"
    else:
        hint = "it has none yet, because nothing is stored"
    return f"the store has no such {kind}; {hint}"
