"""`ConventionTable`: what each attribute key carries, from `conventions.toml`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Any

#: Keys whose meaning is remembered; a stranger's keys with numbers in them must not fill the memory.
_MOST_KEYS = 20_000
#: Fields whose keys several conventions have in common.
_SHARED_FIELDS = ("session_id", "user_id", "tags", "metadata", "environment", "release")
#: Convention of a key that only the general part knows.
GENERAL = "general"


@dataclass(frozen=True, slots=True)
class KeyMeaning:
    """Meaning of an attribute key.

    Attributes:
        wanted: Whether the attribute is read.
        field: Field that it gives; `kind` for the kind; empty for an attribute of the pipeline's own.
        rank: Order of preference within the field; the lowest wins.
        convention: Convention that names it; empty for an attribute of the pipeline's own.
        member: Rest of the key, of a family of keys: `0.content` of `gen_ai.prompt.0.content`, `channel` of
            `langfuse.trace.metadata.channel`; None for a single key.
        is_infrastructure: Whether it marks a call of HTTP, of a database or the like.
    """

    wanted: bool
    field: str = ""
    rank: int = 0
    convention: str = ""
    member: str | None = None
    is_infrastructure: bool = False

    @property
    def names_convention(self) -> bool:
        """True if the key is of one convention, unlike those of a session or a user."""
        return self.convention != GENERAL and self.field not in _SHARED_FIELDS


_UNWANTED = KeyMeaning(False)
_INFRASTRUCTURE = KeyMeaning(True, is_infrastructure=True)
_OWN = KeyMeaning(True)


class ConventionTable:
    """Meaning of attribute keys and of the words in them.

    Args:
        data: Content of `conventions.toml`.

    Attributes:
        conventions: Names of the conventions, in their order.
        meanings: Meaning of a key.
        known_names: Names that `naming` has found, by what they depend on.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.conventions = [one["name"] for one in data["convention"]]
        self._exact: dict[str, KeyMeaning] = {}
        self._families: list[tuple[str, str, int, str]] = []
        self._kinds: dict[str, list[tuple[str, str]]] = {}
        namespaces: list[tuple[str, str]] = []
        for order, one in enumerate(data["convention"]):
            name = one["name"]
            namespaces += [(prefix, name) for prefix in one["namespaces"]]
            for rank, (key, kinds) in enumerate(one.get("kind", {}).items()):
                self._exact[key] = KeyMeaning(True, "kind", 100 * order + rank, name)
                self._kinds[key] = [(value.lower(), kind) for value, kind in kinds.items()]
            for field, keys in one["fields"].items():
                for rank, key in enumerate(keys):
                    self._add(key, field, 100 * order + rank, name)
        self._namespaces = namespaces
        self._families.sort(key=lambda family: -len(family[0]))
        general = data["general"]
        self._general_kinds: list[tuple[str, str]] = [(value.lower(), kind) for value, kind in general["kind"].items()]
        self._known_kinds: dict[tuple[str, str], str] = {}
        self._endings = [(ending, "kind", 10_000) for ending in general["kind_endings"]]
        for field, endings in general["fields"].items():
            self._endings += [(ending, field, 10_000 + rank) for rank, ending in enumerate(endings)]
        self._marks = tuple(data["infrastructure"]["marks"])
        self._infrastructure = tuple(data["infrastructure"]["namespaces"])
        self.meanings: dict[str, KeyMeaning] = _Remembered(self._meaning)
        names = data["names"]
        self.known_names: dict[Any, str | None] = _Bounded()
        self.is_client_name = _glob_test(names["client"])
        self.is_plumbing = _glob_test(names["plumbing"])
        self.is_instrumentor = _glob_test(names["instrumentors"])

    def kind_of(self, key: str, value: Any) -> str | None:
        """Return the kind that the value of a key says, None for a word that is not known."""
        if not isinstance(value, str):
            return None
        known = self._known_kinds.get((key, value))
        if known is None:
            known = self._known_kinds[key, value[:200]] = self._kind_of(key, value) or ""
            if len(self._known_kinds) > _MOST_KEYS:
                self._known_kinds.clear()
        return known or None

    def _kind_of(self, key: str, value: str) -> str | None:
        word = value.strip('"').lower()
        for pattern, kind in self._kinds.get(key, self._general_kinds):
            if word == pattern or ("*" in pattern and fnmatchcase(word, pattern)):
                return kind
        return None

    def _add(self, key: str, field: str, rank: int, convention: str) -> None:
        prefix, star, _ = key.partition("N.*")
        if not star:
            prefix, star, _ = key.partition("*")
        if star:
            self._families.append((prefix, field, rank, convention))
        else:
            self._exact.setdefault(key, KeyMeaning(True, field, rank, convention))

    def _meaning(self, key: str) -> KeyMeaning:
        exact = self._exact.get(key)
        if exact is not None:
            return exact
        for prefix, field, rank, convention in self._families:
            if key.startswith(prefix):
                return KeyMeaning(True, field, rank, convention, key[len(prefix) :])
        for prefix, convention in self._namespaces:
            if key.startswith(prefix):
                return KeyMeaning(False, convention=convention)
        if key.startswith(self._marks):
            return _INFRASTRUCTURE
        if not key or key.startswith(self._infrastructure):
            return _UNWANTED
        for ending, field, rank in self._endings:
            if key == ending or (key.endswith(ending) and key[-len(ending) - 1] in "._:/-"):
                return KeyMeaning(True, field, rank, GENERAL)
        return _OWN


class _Remembered(dict[str, Any]):
    """Mapping that computes what it does not have, and forgets everything when it is full."""

    def __init__(self, compute: Any) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: str) -> Any:
        if len(self) >= _MOST_KEYS:
            self.clear()
        value = self[key] = self._compute(key)
        return value


class _Bounded(dict[Any, Any]):
    """Mapping that forgets everything when it is full."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= _MOST_KEYS:
            self.clear()
        super().__setitem__(key, value)


def _glob_test(patterns: list[str]) -> Any:
    import fnmatch

    test = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)).match
    return lru_cache(4096)(lambda name: test(name) is not None)


@lru_cache(1)
def convention_table() -> ConventionTable:
    """Return the table of the product."""
    text = files(__package__).joinpath("conventions.toml").read_text("utf-8")
    return ConventionTable(tomllib.loads(text))
