"""Generates records: valid, unusual and hostile traces, and some records that are not traces.

They are made from a seed and not drawn value by value: a slice holds thousands of values, more than Hypothesis likes
to draw. It still drops records and metrics one by one when it shrinks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.reference.spelled_json import Pairs, Shape, Spelled, Style, spell

T = TypeVar("T")

WORDS = ["Acme", "ACME", "Rome", "berlin", "İstanbul", "istanbul", "ΟΣ", "ος", "straße", "😀", "10%", "a.c", "i"]
#: Keys that differ from others by case only, or by what one or the other takes for case.
_CASED = ["X", "Text", "LABEL", "É😀", "k", "K", "i", "İ", "ß", "ẞ"]
ODD_ATTRIBUTES = ["a.b", "q\"o't", "gen_ai/x y", "*", "$.x", "[0]", "x\\", "é😀", "x\n", *_CASED]
LABELS = ["good", "fair", "poor"]
TIERS = ["primary", "fallback", "cache"]
MODELS = ["gpt-4.1", "gpt-4.1-mini"]

_NUMBERS = ["0", "1", "2", "2.5", "3", "5", "6", "7.50", "10", "11", "20", "-1", "-2.5", "0.25", "0.1"]
_ODD_NUMBERS = [
    *("-0.0", "-0", "1e1", "1E3", "1.0", "1e-400", "1e400", "-1e999"),
    *("9007199254740993", "100000000000000000001", "-9223372036854775809", "18446744073709551616"),
]
#: Numbers whose text the contract leaves open; they stand only where numbers are read.
_FAR_NUMBERS = ["5e-324", "1e-7", "1e20", "1e21", "1e150", "-1e150", "0.00000001", "12345678901234567890.5"]
_NUMBER_TEXTS = [
    *("12", "1e1", "+3", "0012", ".5", "5.", "1.2E+1", "1e-400", "-0"),
    *(" 12", "12\n", "1_000", "inf", "nan", "0x10", "١٢", "1e400", "", "1.2.3", "-", "1e", "n/a", "true"),
]
_ODD_TEXTS: list[Shape] = ["", "null", " ", "\ud83d", "a\x00b", "\udc00\ud800", "[1, 2]"]
_ODD_STRUCTURES: list[Shape] = [[], Pairs(()), [None, "a"], Pairs((("a", Spelled("1")),))]
_ODD: list[Shape] = [None, None, None, True, False, Spelled("1e400"), Spelled("5"), *_ODD_TEXTS, *_ODD_STRUCTURES]
_FORMATTED = [
    *("https://example.org/a?b=c", "http://localhost:8080", "javascript:alert(1)", "https://example.org\n"),
    *("a.b+c@example.org", "a@b", "2026-03-22", "2026-03-22T08:00:01.25Z", "2026-13-01"),
    *("123E4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "7", "-12", "1.5", "١", "1e5"),
]
_PROSE = ["yes", "no", "error: none", "An Error.", "hello\nworld", "aab", "café", "xxxxxxxxxxxx", "PING", "'); DROP --"]
_BROKEN = [
    *('{"a": 1,}', "[1,,2]", "[1, 2", '{"a": NaN}', "{a: 1}", "01", "{} {}", "\ufeff{}", "```json\n{}\n```"),
    *('{"a": "\t"}', '{"a": 1}x', "Infinity", "[1]\x00", '"\\x"', "+1", "\xa0{}", "{'a': 1}"),
]
#: Keys that a path language could take for something else.
_ODD_KEYS = ["a/b", "", "é", "a.b", "~", "*", "$", "[0]", "q\"o't", "a\\b", "#-1", "😀", "\n", "\x00", "�", "\ud83d"]
_WILD = "aZé\u0130ß٣😀\x00\x01\x1f\x7f\u2028\ud83d\udc00'\"\\/%_#~$ \t\n"


class Maker:
    """Generates values from a seed.

    Attributes:
        oddness: Share of values that are not what a reader would hope for; some records have none.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.oddness = self.pick([0.0, 0.0, 0.1, 0.3])

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.random.randrange(len(items))]

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < share

    def some(self, make: Callable[[], T], most: int) -> list[T]:
        """Return 0 to `most` values."""
        return [make() for _ in range(self.random.randint(0, most))]

    def odd(self) -> Shape:
        """Return a value that no field expects."""
        return self.pick(_ODD)

    def or_odd(self, make: Callable[[], Shape]) -> Shape:
        """Return the value, or an unexpected one with this record's probability of odd values."""
        return self.odd() if self.chance(self.oddness) else make()

    def members(self, **makers: Callable[[], Shape]) -> list[tuple[str, Shape]]:
        """Return the members of an object; some are missing with this record's probability of odd values."""
        return [(key, make()) for key, make in makers.items() if not self.chance(self.oddness)]

    def style(self) -> Style:
        """Return a style in which a document is written."""
        spaces = ["", "", " ", "\n\t"]
        return Style(self.chance(0.5), self.pick(spaces), self.pick(spaces), self.chance(0.1))

    def number(self) -> Shape:
        """Return a number, or a text similar to one."""
        if self.chance(self.oddness):
            return self.pick([self.odd(), self.pick(_NUMBER_TEXTS), Spelled(self.pick(_ODD_NUMBERS))])
        if self.chance(0.1):
            return repr(self.random.uniform(-5, 15))
        return Spelled(self.pick(_NUMBERS) if self.chance(0.7) else repr(self.random.uniform(-5, 15)))

    def far_number(self) -> Shape:
        """Return a number that may be very large or very small."""
        return Spelled(self.pick(_FAR_NUMBERS)) if self.chance(self.oddness / 2) else self.number()

    def word(self) -> str:
        """Return a word that inputs and outputs share."""
        return self.pick(WORDS)

    def plain_text(self) -> str:
        """Return a text that is mostly not JSON."""
        if self.chance(0.05):
            return "".join(self.pick(_WILD) for _ in range(self.random.randint(0, 8)))
        return self.pick(self.pick([_PROSE, WORDS, _FORMATTED, LABELS, ["yes", "no", "good", "a"]]))

    def word_list(self) -> Shape:
        """Return a JSON list."""
        return self.some(lambda: self.or_odd(self.pick([self.word, self.word, self.number])), 5)

    def leaf(self) -> Shape:
        """Return any value inside a document."""
        return self.or_odd(self.pick([self.number, self.plain_text, self.word_list]))

    def document(self) -> Pairs:
        """Return a JSON object with the members that pointers name."""
        nested = Pairs((("b", self.leaf()),))
        members = self.members(
            a=lambda: self.pick([nested, self.number(), self.leaf()]),
            n=self.number,
            name=lambda: self.or_odd(self.word),
            city=self.word,
            list=self.word_list,
        )
        members += [(key, self.leaf()) for key in _ODD_KEYS if self.chance(0.3)]
        if self.chance(self.oddness):
            members += self.members(a=self.leaf, n=self.number, name=self.word)
        return Pairs(tuple(members))

    def json_value(self) -> Shape:
        """Return an object or a list."""
        return self.word_list() if self.chance(0.2) else self.document()

    def json_text(self) -> str:
        """Return a text that is JSON, or almost."""
        if self.chance(self.oddness):
            return self.pick(_BROKEN)
        return spell(self.json_value(), self.style())

    def text(self) -> Shape:
        """Return a text for a field of any kind."""
        return self.or_odd(self.pick([self.plain_text, self.json_text, self.json_text, self.json_value]))

    def source(self) -> Shape:
        """Return a text that may contain citations."""
        return self.or_odd(lambda: " in ".join([self.word(), *self.some(self.word, 20)]))

    def field_meta(self) -> Shape:
        """Return the sources that a model names for its fields."""
        entries = self.members(name=self._entry, city=self._entry)
        entries += [(key, self._entry()) for key in ("output", "list", "n") if self.chance(self.oddness)]
        meta = Pairs(tuple(entries))
        return self.or_odd(lambda: spell(meta, self.style()) if self.chance(0.2) else meta)

    def _entry(self) -> Shape:
        source = self.pick(["llm", "llm", "llm", "llm", "crawl", "LLM"])
        return self.or_odd(
            lambda: Pairs(tuple(self.members(source=lambda: source, source_span=lambda: self.or_odd(self.word))))
        )

    def attributes(self) -> Shape:
        """Return attributes of a span or a trace."""
        members = self.members(
            x=self.number,
            y=self.number,
            z=self.far_number,
            label=lambda: self.or_odd(lambda: self.pick([*LABELS * 3, "Poor", "great", ""])),
            text=self.text,
            list=lambda: self.pick([self.word_list(), spell(self.word_list()), self.text()]),
            meta=lambda: self.pick([self.json_value(), self.json_text(), self.text()]),
            field_meta=self.field_meta,
        )
        members += [(key, self.leaf()) for key in ODD_ATTRIBUTES if self.chance(0.4)]
        if self.chance(0.05):
            members.insert(self.pick([0, len(members)]), (self.pick(["x", "label", "text", "meta"]), self.odd()))
        return self.or_odd(lambda: Pairs(tuple(members)))

    def usage(self) -> Shape:
        """Return the usage of a span."""
        return self.or_odd(
            lambda: Pairs(
                tuple(
                    self.members(
                        input_tokens=self.far_number,
                        output_tokens=self.far_number,
                        cost_usd=self.far_number,
                        total_tokens=self.far_number,
                    )
                )
            )
        )

    def time(self) -> Shape:
        """Return a point in time."""
        if self.chance(self.oddness / 2):
            return self.pick(_ODD_TIMES)
        seconds = self.pick([*_SECONDS, self.random.uniform(0, 100)])
        return Spelled(repr(1_774_166_400 + seconds))

    def name(self, common: Sequence[str]) -> Shape:
        """Return one of a few names."""
        return self.or_odd(lambda: self.pick(common))


_SECONDS = [0, 0.25, 2.5, 5, 9.75, 12, 29.999999, 30, 31, 59.5, 61, 3600, -5]
_ODD_TIMES: list[Shape] = [
    *map(Spelled, ("0", "-1.5", "99999999999", "253402300799", "253402300800", "-62135596800", "-62135596801")),
    *map(Spelled, ("1e18", "-1e18", "1e400", "1e150", "1774166429.9999999")),
    *("1774166405.5", "2026-03-22T08:00:00Z", "soon", "", None, True, []),
]
_KINDS: list[Shape] = ["llm", "llm", "llm", "llm", "embedding", "rerank", "tool", "agent", "cache"]


def make_span(maker: Maker) -> Pairs:
    """Return one span; its component is mostly one of the portfolio's."""
    members: list[tuple[str, Shape]] = [
        ("span_id", maker.pick(["s0", "s1", "s2", "", "s\x00", Spelled("1")])),
        ("component", maker.pick(["c"] * 8 + ["d"] * 4 + ["zzz", Spelled("3")])),
        *maker.members(
            kind=lambda: maker.or_odd(lambda: maker.pick(_KINDS)),
            started_at=maker.time,
            ended_at=maker.time,
            status=lambda: maker.name(["ok", "ok", "error", "ERROR"]),
            error_type=lambda: maker.name(["Timeout", ""]),
            model=lambda: maker.name(MODELS),
            tier=lambda: maker.name(TIERS),
            name=lambda: maker.name(["chat", "yes"]),
            input=lambda: maker.pick([maker.source(), maker.source(), maker.text()]),
            output=maker.text,
            usage=maker.usage,
            attributes=maker.attributes,
        ),
    ]
    if maker.chance(0.1):
        maker.random.shuffle(members)
    if maker.chance(0.05):
        members.insert(maker.pick([2, len(members)]), (maker.pick(members)[0], maker.odd()))
    return Pairs(tuple(members))


def make_trace(maker: Maker, pipelines: Sequence[str]) -> bytes:
    """Return one valid record of one of these pipelines."""
    usual: list[Shape] = [f"t{maker.random.randrange(10**6)}"] * 8
    trace_id = maker.pick([*usual, "", "t\x00", "\ud800", Spelled("42")])
    required: list[tuple[str, Shape]] = [
        ("trace_id", trace_id),
        ("pipeline", maker.pick(pipelines)),
        ("spans", maker.some(lambda: make_span(maker), 4)),
    ]
    members = required + maker.members(
        environment=lambda: maker.name(["production", "production", "staging"]),
        release=lambda: maker.name(["r1", "r2"]),
        session_id=lambda: maker.name(["s-1", "s-2", ""]),
        started_at=maker.time,
        ended_at=maker.time,
        sampling_probability=lambda: maker.or_odd(lambda: maker.pick(_PROBABILITIES)),
        attributes=maker.attributes,
    )
    if maker.chance(0.1):
        members.insert(maker.pick([0, 3, len(members)]), (maker.pick(members)[0], maker.odd()))
    return spell(Pairs(tuple(members)), maker.style()).encode()


_PROBABILITIES: list[Shape] = [
    *map(Spelled, ("1", "1", "1", "0.5", "0.25", "0", "-1", "2", "1.0000000000000002", "1e-3")),
    *("0.25", "half"),
]
_BAD_RECORDS = [
    *(b"", b"{", b"[]", b"null", b"\xff", b'{"trace_id": "t", "pipeline": "p"}', b"{}", b"\xef\xbb\xbf{}"),
    *(b'{"trace_id": "t", "pipeline": "p", "spans": [7]}', b'{"trace_id": "t", "pipeline": "p", "spans": {}}'),
    *(b'{"trace_id": "t", "pipeline": "other", "spans": []}', b'{"trace_id": "t", "pipeline": null, "spans": []}'),
    *(b'{"trace_id": "t", "pipeline": "p", "spans": [{"span_id": "s"}, 7]}', b'{"trace_id": "", "spans": [7]}'),
    *(b'{"trace_id": "t", "pipeline": "p", "spans": [{"span_id": "s"}]}', b"[" * 300, b'"text"', b"  "),
    b'{"trace_id": "t", "pipeline": "p", "spans": [], "x": NaN}',
]


def _spoilt(maker: Maker, record: bytes) -> bytes:
    """Return a record with one byte lost or overwritten."""
    at = maker.random.randrange(len(record))
    return record[:at] + maker.pick([b"", b"\x00", b"\xff", b",", b"}", b"\\", b'"']) + record[at + 1 :]


def make_record(seed: int, pipelines: Sequence[str]) -> bytes | None:
    """Return one raw record: mostly a valid trace, sometimes a damaged one, sometimes another value."""
    maker = Maker(seed)
    if maker.chance(0.04):
        return maker.pick([*_BAD_RECORDS, None])
    record = make_trace(maker, pipelines)
    return _spoilt(maker, record) if maker.chance(0.04) else record
