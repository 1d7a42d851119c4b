"""The span of a function as it is planned, with the lines at which its fields change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SpanMark:
    """Change of a span at a line that is reached.

    Attributes:
        line: The line.
        action: `set` a value; `add` one to a number; `text`: the first argument of the call at this line; `reply`: its
            result, as a model's reply; `ends`: set how the innermost agent ends; `choose`: the same, by the first local
            name that is true.
        field: Field of the span, without `attributes.`.
        value: The value that is set; of `reply`: last part of the name of what is called; of `choose`:
            (local name, value) of each, the first that is true counts; one without a name is so where none is.
    """

    line: int
    action: str
    field: str
    value: str | int | tuple[tuple[str, str], ...] | None = None


@dataclass
class MarkedFunction:
    """A function whose lines say something of a span.

    Attributes:
        name: Qualified name inside its module.
        line: Its `def`.
        marks: By line.
    """

    name: str
    line: int
    marks: list[SpanMark] = field(default_factory=list)


@dataclass
class PlannedSpan:
    """The span of a function.

    Attributes:
        component: Id of the component.
        span: Name of the span.
        kind: Kind of the step.
        path: File, relative to the root.
        symbol: Dotted name of the function.
        function: The function, with the marks of its own lines.
        inner: Functions inside it, with theirs.
        start: Values of fields before any line is reached.
        is_async: Whether it is an `async def`.
        is_generator: Whether it yields.
        above: Line of the decorator that tries the function again, which the span is to be around; 0 for none.
        is_there: Whether a decorator makes its span already, so that only fields are missing.
        reads_reply: Whether model, tokens and finish reason are read from a model's reply.
        fields: Fields that metrics need and the plan gives.
        by_hand: Fields that metrics need and the plan cannot give, with the reason.
    """

    component: str
    span: str
    kind: str
    path: str
    symbol: str
    function: MarkedFunction
    inner: list[MarkedFunction] = field(default_factory=list)
    start: dict[str, str | int | None] = field(default_factory=dict)
    is_async: bool = False
    is_generator: bool = False
    above: int = 0
    is_there: bool = False
    reads_reply: bool = False
    fields: list[str] = field(default_factory=list)
    by_hand: dict[str, str] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "component": self.component,
            "span": self.span,
            "kind": self.kind,
            "path": self.path,
            "symbol": self.symbol,
            "functions": [
                {"name": f.name, "line": f.line, "marks": [[m.line, m.action, m.field, m.value] for m in f.marks]}
                for f in (self.function, *self.inner)
            ],
            "start": self.start,
            "is_there": self.is_there,
            "reads_reply": self.reads_reply,
            "fields": self.fields,
            "by_hand": self.by_hand,
        }
