"""Abstract values: what a name may refer to.

Each value is one small integer, so that sets of values are cheap and their order does not depend on the hash seed.
"""

from __future__ import annotations

from typing import Any

Values = frozenset[int]
EMPTY: Values = frozenset()


class Kind:
    """Kinds of values; the comments give the meaning of the two parts `a` and `b` of a value.

    Plain integers, because looking up a member of an enumeration takes five times as long and happens everywhere.
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
    METHOD = 12  # a: name, b: value of a box, plain value or class: a method of a builtin type
    GENERATOR = 13  # a: function
    DECORATED = 14  # a: function as written, b: value that the decorators made of it
    TASK = 15  # a: value that `await` returns
    AFFIX = 16  # a, b: beginning and end of a text whose middle is unknown; it may name methods


#: Longest sum of two ends, in characters; longer ones are prose and name no method.
MAX_ENDS = 60

_LIGHT = frozenset({Kind.TEXT, Kind.NUMBER, Kind.OUTSIDE, Kind.METHOD, Kind.PLAIN, Kind.BOX, Kind.AFFIX})

_FUNCTIONS = frozenset({Kind.FUNC, Kind.DECORATED, Kind.PARTIAL})


class ValueTable:
    """Numbers the values.

    Attributes:
        kinds: Kind by number.
        a: First part by number.
        b: Second part by number.
        is_light: Whether a value carries no edges (constants, library values, containers), by number.
        is_function: Whether a value is a function of the repository, by number.
        texts: Cached sets of constant texts.
        members: Cached sets by (value, attribute name).
    """

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.a: list[Any] = []
        self.b: list[Any] = []
        self.is_light: list[bool] = []
        self.is_function: list[bool] = []
        self._numbers: dict[tuple[int, Any, Any], int] = {}
        self._singles: list[Values] = []
        # Caches of sets that are requested often.
        self.texts: dict[str, Values] = {}
        self.members: dict[tuple[int, str], Values] = {}

    def value(self, kind: int, a: Any, b: Any = -1) -> int:
        """Return the number of a value; equal parts give the same number."""
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
        """Return the set of one value; equal calls return the same object."""
        return self._singles[self.value(kind, a, b)]

    def single(self, number: int) -> Values:
        """Return the set of one value by its number."""
        return self._singles[number]


def text_with_gap(table: ValueTable, prefix: str, suffix: str) -> Values:
    """Return a text of which only the ends are known; ends that cannot be part of a name give a plain `str`."""
    ends = prefix + suffix
    if 3 <= len(ends) <= MAX_ENDS and ends.replace(".", "_").isidentifier():
        return table.one(Kind.AFFIX, prefix, suffix)
    return table.one(Kind.PLAIN, "str")
