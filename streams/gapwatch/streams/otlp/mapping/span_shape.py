"""`SpanShape`: which attributes of a span give which fields, worked out once for spans with the same keys.

A program sends spans of few kinds, each with its keys in one order. What the table of conventions says of these keys is
looked up once; for each further span the values are taken by their positions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gapwatch.streams.otlp.decoding.raw_items import UndecodableError
from gapwatch.streams.otlp.mapping.convention_table import GENERAL, ConventionTable, KeyMeaning
from gapwatch.streams.otlp.mapping.messages import IndexedMessages

#: Attributes of the pipeline's own that a step keeps.
MOST_OWN = 32
#: Shapes that are remembered, and keys of one; a stranger's keys must not fill the memory.
_MOST_SHAPES, _MOST_KEYS = 4_096, 400
#: Keys of a library that blanks values that look like secrets, in spans of any instrumentor.
_BLANKS = "logfire."
#: Rank of a field that no key gives.
NO_RANK = 1 << 30


class KeyFamily:
    """Keys with numbers of one family, such as those of the messages of a call.

    Attributes:
        members: Rest of each key behind the family's.
        messages: Writes their values as messages.
    """

    __slots__ = ("members", "messages")

    def __init__(self, members: Sequence[str]) -> None:
        self.members = tuple(members)
        self.messages = IndexedMessages(self.members)


class SpanShape:
    """Meaning of the attributes of spans with the same keys, where none of their values is empty.

    Args:
        keys: Keys of the attributes, in their order.
        table: Meaning of keys.
        picked: Keys that a mapping reads beside the table.

    Attributes:
        indices: Positions of the attributes that are read.
        keys: Their keys.
        is_plain: Whether the meaning depends on the keys alone, if no value is empty.
        fields: Position among the values that are read, and field.
        kinds: Position, key and convention of what may say the kind, by rank.
        families: Field, its family and the positions of its values.
        metadata: Position and member.
        own: Position and key.
        is_infrastructure: Whether a key is a mark of HTTP, a database or the like.
        convention: Convention of the span, if no kind says it.
    """

    __slots__ = (
        "convention", "families", "fields", "indices", "is_infrastructure", "is_plain", "keys", "kinds", "metadata",
        "own",
    )  # fmt: skip

    def __init__(self, keys: Sequence[str], table: ConventionTable, picked: Collection[str]) -> None:
        meanings = table.meanings
        last = {key: index for index, key in enumerate(keys)}  # of a key that comes twice the last counts
        read = [key for key in last if meanings[key].wanted or key in picked]
        self.indices = tuple(last[key] for key in read)
        self.keys = tuple(read)
        self.is_infrastructure = any(meanings[key].is_infrastructure for key in read)
        by_field: dict[str, list[tuple[int, int, KeyMeaning]]] = {}
        self.own, self.metadata = list[tuple[int, str]](), list[tuple[int, str]]()
        kinds = list[tuple[int, int, str, str]]()
        singles = dict[str, tuple[int, int]]()
        first, self.convention = NO_RANK, ""
        for position, key in enumerate(read):
            meaning = meanings[key]
            rank = meaning.rank
            if not meaning.field:
                if meaning.wanted and not meaning.is_infrastructure:
                    self.own.append((position, key))
            elif meaning.field == "metadata_member" and meaning.member is not None:
                self.metadata.append((position, meaning.member))
            elif meaning.member is not None:
                by_field.setdefault(meaning.field, []).append((rank, position, meaning))
                if rank < first:
                    first, self.convention = rank, meaning.convention
            elif meaning.field == "kind":
                kinds.append((rank, position, key, meaning.convention))
            else:
                if rank < singles.get(meaning.field, (NO_RANK, 0))[0]:
                    singles[meaning.field] = (rank, position)
                if rank < first and meaning.names_convention:
                    first, self.convention = rank, meaning.convention
        self.fields = tuple((position, field) for field, (_, position) in singles.items())
        self.kinds = tuple((position, key, convention) for _, position, key, convention in sorted(kinds))
        families = []
        for field, members in by_field.items():
            rank = min(member[0] for member in members)
            if singles.get(field, (NO_RANK, 0))[0] >= rank:
                best = [(position, meaning.member or "") for of, position, meaning in members if of == rank]
                families.append((field, KeyFamily([path for _, path in best]), tuple(at for at, _ in best)))
        self.families = tuple(families)
        self.is_plain = (
            len(self.own) <= MOST_OWN
            and all(convention != GENERAL for _, _, convention in self.kinds)
            and not any(key.startswith(_BLANKS) for key in keys)
        )


class SpanShapes(dict[tuple[str, ...], SpanShape]):
    """Shapes by the keys of a span; works out what it does not have, and forgets everything when it is full.

    Args:
        table: Meaning of keys.
        picked: Keys that a mapping reads beside the table.
    """

    def __init__(self, table: ConventionTable, picked: Collection[str] = ()) -> None:
        super().__init__()
        self._table, self._picked = table, picked

    def __missing__(self, keys: tuple[Any, ...]) -> SpanShape:
        if not all(isinstance(key, str) and key for key in keys):
            raise UndecodableError("an attribute has no key")
        shape = SpanShape(keys, self._table, self._picked)
        if len(keys) <= _MOST_KEYS:
            if len(self) >= _MOST_SHAPES:
                self.clear()
            self[keys] = shape
        return shape
