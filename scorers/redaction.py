"""Takes secrets and personal numbers out of every text that leaves a trace: rows, samples, judge inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb
import pyarrow as pa

from scorers.engine import Inbox, arrow
from scorers.sql_text import literal

REDACTED = "[redacted]"

#: RE2, before those of the portfolio. None needs an end to match, so a text cut short is redacted as well.
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

#: Characters of a long text that are looked at for a row; of those, the tail may hold the cut beginning of a secret.
_LOOK, _TAIL = 1_200, 200


class Redactor:
    """Redacts columns of texts with the built-in patterns and those of one portfolio."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, patterns: Sequence[str]) -> None:
        self._connection = connection
        self._texts = Inbox(_as_table([]))
        self._name = f"redact_{name}"
        connection.register(self._name, self._texts)
        any_of = literal("|".join(f"(?:{pattern})" for pattern in (*BUILT_IN, *patterns)))
        # Most texts hold nothing to redact; to look first costs less than to build each text anew.
        replaced = f"regexp_replace(x, {any_of}, '{REDACTED}', 'g')"
        redacted = f"CASE WHEN regexp_matches(x, {any_of}) THEN {replaced} ELSE x END"
        connection.execute(f"PREPARE {self._name} AS SELECT {redacted} AS x FROM {self._name}")
        # strlen counts bytes: a text that is short in bytes is short in characters, and left() is dear.
        cut = f"CASE WHEN strlen(x) > {_LOOK} THEN left(x, {_LOOK}) ELSE x END"
        tailless = f"CASE WHEN length > {_LOOK} THEN left(x, greatest(length(x) - {_TAIL}, 0)) ELSE x END"
        connection.execute(
            f"PREPARE {self._name}_short AS SELECT CASE WHEN strlen(x) > $1 THEN left(x, $1::BIGINT) ELSE x END AS x "
            f"FROM (SELECT {tailless} AS x FROM (SELECT length, {redacted} AS x FROM (SELECT {cut} AS x, "
            f"CASE WHEN strlen(x) > {_LOOK} THEN length(x) ELSE 0 END AS length FROM {self._name})))"
        )

    def redact(self, texts: Iterable[str | None] | pa.Array) -> pa.Array:
        """Return the texts with every secret replaced, nulls as they are."""
        return self._run(texts, f"EXECUTE {self._name}")

    def shorten(self, texts: Iterable[str | None] | pa.Array, length: int) -> pa.Array:
        """Return the beginnings of the texts, redacted first and cut to `length` characters (at most 1,000) after.

        The same text is looked at once; what rows show is often the same word.
        """
        column = texts if isinstance(texts, pa.Array) else pa.array(list(texts), pa.string())
        encoded = column.dictionary_encode()
        shortened = self._run(encoded.dictionary, f"EXECUTE {self._name}_short({int(length)})")
        return shortened.take(encoded.indices)

    def _run(self, texts: Iterable[str | None] | pa.Array, statement: str) -> pa.Array:
        self._texts.table = _as_table(texts)
        if self._texts.table.num_rows == 0:
            return pa.array([], pa.string())
        return arrow(self._connection, statement).column("x").combine_chunks()


def _as_table(texts: Iterable[str | None] | pa.Array) -> pa.Table:
    return pa.table({"x": texts if isinstance(texts, pa.Array) else pa.array(list(texts), pa.string())})
