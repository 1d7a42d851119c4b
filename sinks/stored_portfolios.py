"""Reads the portfolios that a store has recorded, as their YAML."""

from __future__ import annotations

from sinks.store_reader import StoreReader

#: The YAML of one portfolio, by its sha.
PORTFOLIO_BY_SHA = "SELECT yaml FROM portfolios WHERE portfolio_sha = ?"


def portfolio_texts(con: StoreReader) -> list[str]:
    """Return every portfolio by which the store was ever filled."""
    return [text for (text,) in con.execute("SELECT yaml FROM portfolios").fetchall()]


def portfolio_text(con: StoreReader, sha: str) -> str | None:
    """Return one portfolio, or None where the store does not know it."""
    found: list[tuple[str]] = con.execute(PORTFOLIO_BY_SHA, [sha]).fetchall()
    return found[0][0] if found else None
