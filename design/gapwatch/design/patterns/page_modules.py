"""Finds pages: files whose top level a library runs again for each action of a user."""

from __future__ import annotations

import re

from gapwatch.design.callgraph.graph import CallGraph

#: Functions of Streamlit that show or ask something; those that keep values or set the page up do neither.
_SHOWS = re.compile(r"^streamlit\.(?!cache|experimental|set_page_config|secrets|session_state|config|runtime|testing)")


def page_modules(graph: CallGraph) -> frozenset[str]:
    """Return the modules whose top level shows something or asks the user, so that it runs for each request."""
    modules = {s.id for s in graph.symbols if s.kind == "module"}
    return frozenset(e.src for e in graph.externals if e.src in modules and _SHOWS.search(e.dotted))
