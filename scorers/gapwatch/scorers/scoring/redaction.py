"""Redacts secrets and personal numbers in every text that Gapwatch stores or sends: rows, samples, judge inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

REDACTED = "[redacted]"

#: RE2, before the patterns of the portfolio. None needs the end of a secret, so a cut-off secret is redacted, too.
BUILT_IN = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9]{16,}",  # OpenAI, Anthropic, Stripe
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # JSON web tokens
    r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*",
    r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b",
    r"\b(?:[0-9]{4}[ -]){3}[0-9]{1,7}\b",  # payment cards in groups
    r"\b3[47][0-9]{2}[ -][0-9]{6}[ -][0-9]{5}\b",
    r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b",  # US social security numbers
    r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b",  # IBAN
)

#: Characters of a long text that are searched for a row; the last of them may be the cut-off beginning of a secret.
_LOOK, _TAIL = 1_200, 200


class Redactor:
    """Redacts columns of texts with the built-in patterns and those of one portfolio.

    Args:
        patterns: RE2 of the portfolio, checked by the loader.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._any_of = "|".join(f"(?:{pattern})" for pattern in (*BUILT_IN, *patterns))

    def redact(self, texts: Iterable[str | None] | pa.Array) -> pa.Array:
        """Return the texts with every secret replaced; nulls stay null."""
        column = texts if isinstance(texts, pa.Array) else pa.array(list(texts), pa.string())
        # Most texts have nothing to redact; searching first costs less than building every text again.
        holds = pc.fill_null(pc.match_substring_regex(column, self._any_of), False)
        if not holds.true_count:
            return column
        places = pc.indices_nonzero(holds)
        replaced = pc.replace_substring_regex(column.take(places), self._any_of, REDACTED)
        return pc.replace_with_mask(column, holds, replaced)

    def shorten(self, texts: Iterable[str | None] | pa.Array, length: int) -> pa.Array:
        """Return the beginnings of the texts: redacted, then cut to `length` characters (at most 1,000).

        Each distinct text is processed once, for many rows show the same text.
        """
        column = texts if isinstance(texts, pa.Array) else pa.array(list(texts), pa.string())
        encoded = column.dictionary_encode()
        shortened = self._shorten(encoded.dictionary, length)
        return shortened.take(encoded.indices)

    def _shorten(self, texts: pa.Array, length: int) -> pa.Array:
        # Counting bytes is faster: a text that is short in bytes is short in characters.
        long = pc.greater(pc.binary_length(texts), _LOOK)
        if not long.true_count:
            return _beginning(self.redact(texts), length)
        begun = self.redact(pc.utf8_slice_codeunits(texts, 0, _LOOK))
        was_cut = pc.greater(pc.utf8_length(texts), _LOOK)
        tailless = pc.utf8_slice_codeunits(begun, 0, -_TAIL)
        return _beginning(pc.if_else(was_cut, tailless, begun), length)


def _beginning(texts: pa.Array, length: int) -> pa.Array:
    long = pc.greater(pc.binary_length(texts), length)
    return pc.utf8_slice_codeunits(texts, 0, length) if long.true_count else texts
