"""Abstract values: what a name may stand for.

Each is one small integer, so that sets of them are cheap and their order does not depend on the hash seed.
"""

from __future__ import annotations

from typing import Any

Values = frozenset[int]
EMPTY: Values = frozenset()


class Kind:
    """What a value is; `a` and `b` of the value mean what is said here.

    Plain numbers: a member of an enumeration takes five times as long to look up, and this is looked up everywhere.
    """

    FUNC = 0  # a: function, b: receiver value or -1
    CLASS = 1  # a: class
    INST = 2  # a: class
    MODULE = 3  # a: module
    OUTSIDE = 4  # a: dotted name of something that the repository does not define, or of what calling it gives
    BUILTIN = 5  # a: name
    PLAIN = 6  # a: name of a builtin type; an instance with nothing inside that matters
    BOX = 7  # a: "l", "t", "S", "d", "g" (list, tuple, set, dict, anything iterable), b: key of where it was made
    TEXT = 8  # a: a constant text
    NUMBER = 9  # a: a constant integer
    SUPER = 10  # a: class whose bases are asked, b: receiver value
    PARTIAL = 11  # a: function value, b: key of where it was made
    METHOD = 12  # a: name, b: value of a box, plain value or class: a method that the language itself gives it
    GENERATOR = 13  # a: function
    DECORATED = 14  # a: function as written, b: value that the decorators made of it
    TASK = 15  # a: value that waiting for it gives
    AFFIX = 16  # a, b: how a text begins and ends whose middle is not known; it may name methods


#: Longer ends are prose.
MAX_ENDS = 60

_LIGHT = frozenset({Kind.TEXT, Kind.NUMBER, Kind.OUTSIDE, Kind.METHOD, Kind.PLAIN, Kind.BOX, Kind.AFFIX})

_FUNCTIONS = frozenset({Kind.FUNC, Kind.DECORATED, Kind.PARTIAL})


class ValueTable:
    """Gives each value its number."""

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.a: list[Any] = []
        self.b: list[Any] = []
        self.is_light: list[bool] = []
        self.is_function: list[bool] = []
        self._numbers: dict[tuple[int, Any, Any], int] = {}
        self._singles: list[Values] = []
        #: Sets that are asked for again and again, by what they are asked for: constant texts, members of a value.
        self.texts: dict[str, Values] = {}
        self.members: dict[tuple[int, str], Values] = {}

    def value(self, kind: int, a: Any, b: Any = -1) -> int:
        """Return the number of a value, the same for the same parts."""
        key = (kind, a, b)
        found = self._numbers.get(key)
        if found is None:
            found = len(self.kinds)
            self._numbers[key] = found
            self.kinds.append(kind)
            self.a.append(a)
            self.b.append(b)
            self.is_light.append(kind in _LIGHT)
            self.is_function.append(kind in _FUNCTIONS)
            self._singles.append(frozenset((found,)))
        return found

    def one(self, kind: int, a: Any, b: Any = -1) -> Values:
        """Return the set of one value; equal calls give the same object."""
        return self._singles[self.value(kind, a, b)]

    def single(self, number: int) -> Values:
        """Return the set of one numbered value."""
        return self._singles[number]


def text_with_gap(table: ValueTable, prefix: str, suffix: str) -> Values:
    """Return a text of which only the ends are known; ends that no name could have say nothing."""
    ends = prefix + suffix
    if 3 <= len(ends) <= MAX_ENDS and ends.replace(".", "_").isidentifier():
        return table.one(Kind.AFFIX, prefix, suffix)
    return table.one(Kind.PLAIN, "str")
