"""A connection of a store to whose store something happens between its queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class MeddledReader:
    """Reader of a store.

    Args:
        con: Connection that answers.
        meddle: What happens to the store.
        at: It happens once, before this query, counted from 1; 0: never.
        every: It happens before each so-manieth query, instead; 0: never.
    """

    def __init__(self, con: Any, meddle: Callable[[], None], at: int = 0, every: int = 0) -> None:
        self._con, self._meddle, self._at, self._every = con, meddle, at, every
        self._queries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)

    def execute(self, *given: Any) -> Any:
        self._count()
        return self._con.execute(*given)

    def sql(self, *given: Any) -> Any:
        self._count()
        return self._con.sql(*given)

    def _count(self) -> None:
        self._queries += 1
        if self._queries == self._at or (self._every and self._queries % self._every == 0):
            self._meddle()
