"""Reads what a prompt asks of a model: whether it sets a task, how much it demands, and whether it wants statements."""

from __future__ import annotations

import math
import re

from gapwatch.design.architecture.prompts import Prompt

#: Words of a text that tells a model what to do, and fewest characters of such texts; Chinese needs half.
_TELLS = re.compile(
    r"\byou(r| are| will| must| should|'re)?\b|\b(never|do not|don't|must|should|please|only)\b|你|请|不要|必须|只能"
    r"|(^|[.!?:,;\n#*>-]\s*|\bto )(answer|write|generate|create|summari[sz]e|extract|translate|classify|identify"
    r"|rewrite|determine|analy[sz]e|rephrase|provide|return|respond|reply|give|list|describe|explain|convert|find|make|plan"
    r"|review|evaluate|decide|select|choose|name|use|take|read|act|compare|suggest|recommend|sum|output|produce"
    r"|revise|improve|complete|continue|transform|format|fix|correct|rate|score|pick|draft|report|propose)\b",
    re.I,
)
_LEAST_TASK = 40
_IDEOGRAM = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_SENTENCES = re.compile(r"\n|(?<=[.!?;])\s")
_FIELD = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{\w*\}", re.S)


def sets_task(prompts: list[Prompt]) -> bool:
    """Return whether some texts tell a model what to do, and are more than a label."""
    texts = [_FIELD.sub("", p.text).strip() for p in prompts]
    size = sum(len(text) + len(_IDEOGRAM.findall(text)) for text in texts)
    return size >= _LEAST_TASK and any(_TELLS.search(text) for text in texts)


#: Heads of sentences that say who a model is, and nothing that it does.
_PERSONA = re.compile(r"^\s*(you('re| are)|act as)\b(?!.*\byou\b)", re.I)


def asks_nothing(prompts: list[Prompt]) -> bool:
    """Return whether texts say only who the model is: "You are a helpful assistant", which every answer fulfils."""
    sentences = [part for p in prompts for part in _SENTENCES.split(_FIELD.sub("", p.text)) if part.strip(" \n.:")]
    return bool(sentences) and all(_PERSONA.search(s) and not _DEMANDS.search(s) for s in sentences)


#: Sentences and lines of a prompt that ask for something which an answer can miss.
_DEMANDS = re.compile(
    r"\b(must|should|shall|need to|have to|never|always|only|not|n't|avoid|ensure|make sure|at (most|least)"
    r"|no more than|exactly|required?|format|if|unless|include|exclude|provide|return|respond|output|write|use|keep"
    r"|follow)\b"
    r"|^\s*([-*•]|\d+[.)])\s",
    re.I,
)
#: Most that the demands of a prompt add to what its judge is worth.
_MAX_DEMAND = 2.5


def demand_of(text: str) -> float:
    """Return how much a prompt asks for: log2(1 + number of its demands) / 2, at most 2.5."""
    count = sum(bool(_DEMANDS.search(part)) for part in _SENTENCES.split(text))
    return min(0.5 * math.log2(1 + count), _MAX_DEMAND)


#: Names of functions whose answers ask and name, and state nothing.
_ASKING = re.compile(
    r"^(?!.*answer).*(quer(y|ies)|questions?(_|$)|keywords?|titles?(_|$)|topics?(_|$)|score|classif|rout(e|ing)|grade)"
)

#: Words of a prompt that wants a question, a query or a grade.
_FOR_NO_STATEMENT = re.compile(
    r"binary score|standalone question|rephrase the|\bclassify\b|\bgrader\b"
    r"|(generate|write|create|come up with)( \S+){0,5} (quer(y|ies)|questions)\b"
)


def is_for_statements(symbol: str, text: str) -> bool:
    """Return whether a function and its prompt want statements, and no question, query or grade."""
    name = symbol.rpartition(".")[2].lower()
    return not _ASKING.search(name) and not _FOR_NO_STATEMENT.search(text.lower())


#: Names of functions that name something for a screen: what is wrong with a title harms few.
_NAMING = re.compile(r"(^|_)(names?|titles?|slugs?|emojis?|icons?|labels?)$")

#: Names of functions that write what people read.
_ANSWERING = re.compile(r"^(generate|write|make|compose)_(\w+_)?(answer|reply|response|report)s?$")
_OF_ANSWERS = 1.0


def worth_of(symbol: str, texts: list[str]) -> float:
    """Return what a judge of a function is worth by the demands of its prompts.

    An answer that people read is worth more than a step before it; a name on a screen is worth nothing.
    """
    name = symbol.rpartition(".")[2].lower()
    if _NAMING.search(name):
        return 0.0
    return max(map(demand_of, texts), default=0.0) + _OF_ANSWERS * bool(_ANSWERING.search(name))
