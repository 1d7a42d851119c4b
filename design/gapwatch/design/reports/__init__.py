"""Writes portfolio, store, HTML, Markdown, graph and diff."""
