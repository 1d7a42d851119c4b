"""Takes keys and passwords out of files as they are read, so that no report, portfolio or store can show one."""

from __future__ import annotations

import re

_MASK = b"[secret]"

#: Words of which a file must hold one before the pattern is tried, for speed; and the pattern. Its group, if it has
#: one, is the secret.
_KNOWN = tuple(
    (words, re.compile(pattern))
    for words, pattern in (
        ((b"sk-", b"k_live_", b"k_test_"), rb"\b(?:sk-|[spr]k_(?:live|test)_)[\w-]{16,}"),  # OpenAI, Anthropic, Stripe
        ((b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_"), rb"\b(?:gh[pousr]|github_pat)_\w{20,}"),
        ((b"glpat-", b"tvly-", b"pplx-", b"xox"), rb"\b(?:glpat|tvly|pplx|xox[abprs])-[\w-]{10,}"),
        ((b"hf_", b"gsk_", b"r8_"), rb"\b(?:hf_|gsk_|r8_)[A-Za-z0-9]{30,}"),
        ((b"AKIA", b"ASIA"), rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        ((b"AIza",), rb"\bAIza[\w-]{30,}"),
        ((b"eyJ",), rb"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),  # JSON web tokens
        ((b"Bearer ", b"bearer "), rb"\b[Bb]earer +([\w.~+/-]{16,}=*)"),
        ((b"PRIVATE KEY-----",), rb"-----BEGIN [A-Z ]*PRIVATE KEY-----((?:\\[nr]|[\sA-Za-z0-9+/=]){16,})"),
        ((b"://",), rb"://[^\s/:@'\"{}]{1,64}:([^\s/@'\"{}]{3,})@"),  # passwords in addresses
    )
)
#: A text in quotes without a gap, and what stands before one that is a secret.
_QUOTED = re.compile(rb"[\"']([\w+/=.~-]{16,})[\"']")
_NAMED = re.compile(
    rb"(?i:(?:api|access|auth)_?(?:key|token)|secret(?:_?key)?|passw(?:or)?d)"
    rb"[\"']?\]?\s*(?::[^=\n\"']{1,40})?[:=]\s*[bru]?$"
)
#: Bytes before a quote that are searched for a name.
_BEFORE = 80
#: What words do not have: digits beside letters, or small and capital letters in one long run. `sk-your-key` is words.
_RANDOM = re.compile(rb"(?=.*[A-Za-z])(?=.*\d)|(?=[A-Za-z]*[a-z])(?=[A-Za-z]*[A-Z][a-z]*[A-Z])[A-Za-z]{20}", re.DOTALL)


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
