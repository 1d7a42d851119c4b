"""Portfolios as the store recorded them."""

from __future__ import annotations

from sinks.store_reader import StoreReader


def portfolio_text(con: StoreReader, sha: str) -> str | None:
    """Return the YAML of a portfolio, or None where the store does not know it.

    Args:
        con: Of a store.
        sha: `portfolio_sha`, in full.
    """
    rows = con.execute("SELECT yaml FROM portfolios WHERE portfolio_sha = ?", [sha]).fetchall()
    return str(rows[0][0]) if rows else None
