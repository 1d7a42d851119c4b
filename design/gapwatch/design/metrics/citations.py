"""Reads how a prompt wants sources cited, as the expression that an answer with a citation matches."""

from __future__ import annotations

import re

from gapwatch.scorers.loading.re2 import CITED_BY_LINK, CITED_BY_NUMBER

#: Words of a prompt that ask for sources beside what is said.
_ASKS = re.compile(r"\b(cite|cites|cited|citing|citations?|references? (the|your|each) (sources?|documents?))\b", re.I)
#: Sentences that speak of citations and ask for none.
_ASKS_FOR_NONE = re.compile(r"\b(don't|do not|never|no|without|not)\b[^.\n]{0,40}\bcit(e|ing|ations?)\b", re.I)
#: A number in brackets, as prompts show it: `[1]`, `[27][51]`, `[number]`, `[${{number}}]`, `[doc1]`.
_NUMBERED = re.compile(r"\[\s*(doc_?)?(\$?\{*\s*(number\d?|n|i|index|citation\w*|doc\w*)\s*\}*|\d{1,3})\s*\]", re.I)
_IN_BRACKETS = re.compile(r"\b(numbers?|ids?|index(es)?)\b[^.\n]{0,40}\b(in|inside|within) (square )?brackets", re.I)
#: A link of markdown, as prompts show it: `[title](https://...)`, `[title](URL)`.
_LINKED = re.compile(r"\[[^\]\n]{1,60}\]\((https?:|\{*\s*(url|link|source)\w*)|\bmarkdown(-formatted)? links?\b", re.I)


def citation_pattern(text: str) -> str | None:
    """Return the expression that an answer matches which cites as a prompt asks; None where it shows no form.

    Args:
        text: The prompt.
    """
    asking = [m.start() for m in _ASKS.finditer(text)]
    none = [m.span() for m in _ASKS_FOR_NONE.finditer(text)]
    if not any(not any(start <= at < end for start, end in none) for at in asking):
        return None
    if _NUMBERED.search(text) or _IN_BRACKETS.search(text):
        return CITED_BY_NUMBER
    return CITED_BY_LINK if _LINKED.search(text) else None
