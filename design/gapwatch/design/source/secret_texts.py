"""Takes keys and passwords out of files as they are read, so that no report, portfolio or store can show one."""

from __future__ import annotations

import re

from gapwatch.design.source.secret_shapes import RANDOM_TEXT, SECRET_NAMES, SECRET_SHAPES

_MASK = b"[secret]"

_KNOWN = tuple((tuple(word.encode() for word in words), re.compile(shape.encode())) for words, shape in SECRET_SHAPES)
#: A text in quotes without a gap, and what stands before one that is a secret.
_QUOTED = re.compile(rb"[\"']([\w+/=.~-]{16,})[\"']")
_NAMED = re.compile(
    rb"(?i:%b)[\"']?\]?\s*(?::[^=\n\"']{1,40})?[:=]\s*[bru]?$" % SECRET_NAMES.encode(),
)
#: Bytes before a quote that are searched for a name.
_BEFORE = 80
_RANDOM = re.compile(RANDOM_TEXT.encode(), re.DOTALL)


def without_secrets(source: bytes) -> tuple[bytes, tuple[int, ...]]:
    """Return a file with its secrets replaced by `[secret]`, and the lines where they begin; no line moves."""
    found = [match for words, known in _KNOWN if any(w in source for w in words) for match in known.finditer(source)]
    quoted = (m for m in _QUOTED.finditer(source) if _RANDOM.search(m[1]))
    found += [m for m in quoted if _NAMED.search(source, max(0, m.start() - _BEFORE), m.start())]
    spans = sorted(m.span(m.re.groups) for m in found if _RANDOM.search(m[m.re.groups]))
    pieces, end, lines = [], 0, []
    for start, stop in spans:
        if start >= end:
            pieces += [source[end:start], _MASK, b"\n" * source.count(b"\n", start, stop)]
            lines.append(source.count(b"\n", 0, start) + 1)
        end = max(end, stop)
    return b"".join([*pieces, source[end:]]), tuple(dict.fromkeys(lines))
