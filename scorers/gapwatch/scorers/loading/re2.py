"""Checks regular expressions with Arrow, whose RE2 will run them."""

from __future__ import annotations

import re

from gapwatch.scorers.loading.problems import KeyPath, ProblemList

#: Longest expression, in characters; a longer one takes too long to compile.
MAX_PATTERN_LENGTH = 10_000

#: What the design stage looks for in an answer that cites by number, such as `[1]`, or by a link of Markdown.
CITED_BY_NUMBER, CITED_BY_LINK = r"\[[^\]\[]{0,40}\d[^\]\[]{0,40}\]", r"\]\(https?://"
#: Expressions that RE2 takes, as a test says.
_KNOWN = frozenset({CITED_BY_NUMBER, CITED_BY_LINK})
#: Names with any text between their parts, which RE2 takes: `^chat .*$`.
_PLAIN = re.compile(r"\^?([\w :/-]|\\[ .:/-]|\.\*)*\$?", re.ASCII)

_HINTS = (
    ("(?=", "RE2 has no lookahead"),
    ("(?!", "RE2 has no lookahead"),
    ("(?<", "RE2 has no lookbehind"),
    ("\\Z", "write $ or \\z for the very end"),
    ("invalid repetition size", "RE2 repeats at most 1000 times in all"),
)


def pattern_problem(pattern: str) -> str | None:
    """Return what is wrong with a regular expression, or None where RE2 compiles it."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        return f"{len(pattern):,} characters; at most {MAX_PATTERN_LENGTH:,} are allowed"
    if pattern in _KNOWN or _PLAIN.fullmatch(pattern):
        return None
    # Arrow takes longer to load than most portfolios, and many have no expression.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        message = str(error).removeprefix("Invalid regular expression: ")[:200]
        hint = next((hint for part, hint in _HINTS if part in message), None)
        if hint is None and message.startswith("invalid escape sequence: \\") and message[-1:].isdigit():
            hint = "RE2 has no backreference"
        return f"{message}; {hint}" if hint else message
    return None


def note_pattern(pattern: str, path: KeyPath, problems: ProblemList) -> None:
    """Note a problem where a regular expression is not RE2."""
    problem = pattern_problem(pattern)
    if problem is not None:
        problems.add(path, f"not RE2: {problem}")
