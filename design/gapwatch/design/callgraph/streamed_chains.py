"""Objects that ask a model and are handed to a response of a library, which runs them and streams what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gapwatch.design.callgraph.frame import Frame
from gapwatch.design.callgraph.values import Kind, Values

#: Last part of the name under which the model is asked that a response is handed.
ASKED_LATER = "astream"
#: Responses that stream what they are handed, and their makers.
_RESPONSE = re.compile(r"(^|\.)(\w*Streaming\w*Response|EventSourceResponse)(\.from_\w+)?$")
#: Libraries whose objects wait to be run.
_CHAIN = re.compile(r"^langchain\w*\.")
#: Methods that run an object: what they give is an answer.
_RUN = re.compile(r"^a?(stream|invoke|run|call|batch|predict|apply|generate|iter)(_\w+)?$")


def ask_streamed(frame: Frame, dotted: str, given: Iterable[Values], line: int) -> None:
    """Record that a response asks the models of the chains that it is handed: `StreamingResponse.from_chain(chain)`.

    Args:
        frame: The function that hands them over.
        dotted: Library function that is called.
        given: Its arguments.
        line: Line of the call.
    """
    if not _RESPONSE.search(dotted):
        return
    table = frame.table
    for values in given:
        for v in sorted(values):
            name = table.a[v] if table.kinds[v] is Kind.OUTSIDE else ""
            if _CHAIN.search(name) and not _RUN.search(name.rpartition(".")[2]):
                frame.edge(f"{name}.{ASKED_LATER}", "call", line)
