"""Reads what a prompt asks of a model: whether it sets a task, how much it demands, whether it wants statements."""

from __future__ import annotations

import math
import re

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.component_names import snake
from gapwatch.design.architecture.prompt_texts import MIN_TASK
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.patterns.code_walk import names_in, own_expressions
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import Stmt, line_of
from gapwatch.design.source.program import statements

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
    r"^(?!.*answer).*(quer(y|ies)|questions?(_|$)|keywords?|titles?(_|$)|topics?(_|$)|score|classif|rout(e|ing)|grade"
    r"|re_?rank|filter|clarif|deci[ds]|detect|requirements|restyle|suggestion|(^|_)(plan|planner|tasks?|names?|chart|coder?|patcher"
    r"|tests?|brief|schema|feature|fix|action|triage|sort|check|verify|groundedness)(_|$)|reasoning|diagnos|evaluat)"
)

#: Words of a prompt that wants a question, a query or a grade.
_FOR_NO_STATEMENT = re.compile(
    r"binary score|search terms?\b|standalone question|rephrase the|\bclassify\b|\bgrader\b"
    r"|(generate|write|create|come up with)( (?!answers?\b|repl(y|ies)\b|responses?\b)\S+){0,5}"
    r" (quer(y|ies)|questions)\b"
)


def is_for_statements(symbol: str, text: str) -> bool:
    """Return whether a function and its prompt want statements, and no question, query or grade."""
    return not _ASKING.search(_named(symbol)) and not _FOR_NO_STATEMENT.search(text.lower())


#: Names of methods that say nothing of what they do, so that the class says it.
_PLAIN = re.compile(r"^_*(a?run|a?execute|a?call|forward|a?generate|a?invoke|a?predict|process|get_prediction)_*\d*$")


def _named(symbol: str) -> str:
    """Return the name of a function, behind that of its class where it says nothing by itself."""
    owner, _, name = symbol.rpartition(".")
    plain = _PLAIN.search(snake(name))
    return f"{snake(owner.rpartition('.')[2])}_{snake(name)}" if plain else snake(name)


#: What an answer is made from, in the words of prompts.
_MATERIAL = (
    r"(context|documents?|sources?|passages?|snippets?|excerpts?|articles?"
    r"|(search|provided|given|retrieved|this|these|above|below|following|available|the)\W+"
    r"([\w']+\W+)?(results?|information|facts|data|text|findings|content|materials?|objects))\b"
)
#: Words that hold a model to what it is shown, or forbid it to invent; and words by which it answers from that.
_HOLDS_TO = re.compile(
    r"(?<!output )(?<!return )(?<!provide )(?<!respond with )(?<!reply with )(?<!answer with )(?<!write )"
    rf"\b(only|solely|exclusively|strictly)\b(\W+[\w']+){{0,7}}?\W+{_MATERIAL}"
    r"|\b(not|never|n't|without|avoid)\W+(ever\W+)?(invent|fabricat|hallucinat)\w*"
    r"|\b(not|never|n't|without|avoid)\W+(ever\W+)?mak(e|ing)\W+up\W+(any|info|fact|answer|thing|detail|claim|stuff)"
    r"|mak(e|ing) (any ?thing|things|stuff|information|facts|answers?) up"
    r"|(not|n't) (have |find )?(enough|sufficient) (information|context|data)|\bsay (that )?(you|I) (don't|do not) know"
    rf"|\bsummar(y|i[sz]e|i[sz]ing)\s+(of\s+)?([\w-]+\s+){{0,2}}?{_MATERIAL}"
    r"|\banswer\w*\W+(\S+\W+){0,8}?questions?\W+(\S+\W+){0,5}?based on\b|已知信息|不允许.{0,8}编造",
    re.I,
)
_ANSWERS_FROM = re.compile(
    rf"\b(bas(ed|ing)|rel(y|ies|ying)|grounded|according|us(e|es|ing)|with|from|given)\b(\W+[\w']+){{0,4}}?\W+{_MATERIAL}",
    re.I,
)
#: Names of the variable parts that hold what was found for an answer.
_FOUND = re.compile(
    r"^((my|retrieved|search|relevant|docs?|document|knowledge(_base)?|rag|web|source|sql|query)_)*"
    r"(context|content|docs?|documents?|passages?|snippets?|chunks?|sources|results?|findings|evidence|observations?|rows)"
    r"(_(text|texts|str|block|list|section))?$",
    re.I,
)


def is_find(field: str) -> bool:
    """Return whether a variable part has the name of what was found for an answer."""
    return bool(_FOUND.search(field))


def answers_from_found(prompts: list[Prompt]) -> bool:
    """Return whether a model is to answer from what it is shown.

    Its prompt holds it to that or forbids it to invent; or it is to use what a variable part with the name of a find
    holds.
    """
    texts = [p.text for p in prompts]
    if any(map(_HOLDS_TO.search, texts)):
        return True
    has_place = any(is_find(field) for p in prompts for field in p.fields)
    return has_place and any(map(_ANSWERS_FROM.search, texts))


#: Words of a prompt by which a model writes SQL, and names of modules, classes and functions that do.
_OF_SQL = re.compile(
    r"\b(generat|writ|creat|produc|construct|formulat|compos|convert|translat|correct|fix|transform)\w*\b"
    r"[^.\n]{0,80}\bSQL\b|text[- ](to|2)[- ]sql",
    re.I,
)
_WRITES_SQL = re.compile(r"sql(?!\w*(answer|reason|expla|diagnos|summar|intent|question|pairs|recommend))", re.I)


def writes_sql(symbol: str, prompts: list[Prompt]) -> bool:
    """Return whether a function has a model write SQL: by its name, or its class's or module's, and by its prompts."""
    names = symbol.split(".")[-3:]
    is_named = bool(_WRITES_SQL.search(names[-1])) or (
        not _ASKING.search(names[-1].lower()) and any(map(_WRITES_SQL.search, names))
    )
    return is_named and any(_OF_SQL.search(p.text) for p in prompts)


#: Names of functions that name something for a screen: what is wrong with a title harms few.
_NAMING = re.compile(r"(^|_)(names?|titles?|slugs?|emojis?|icons?|labels?)$")

#: Names of functions that write what people read.
_ANSWERING = re.compile(
    r"^(generate|write|make|compose|stream|final)_(\w+_)?(answer|reply|response|report)s?(_|$)"
    r"|(^|_)(answer|reply|response|report|reporter|summari[sz]er|chat|draft|rag|qa)(_|$)"
)


def is_answering(symbol: str) -> bool:
    """Return whether a function has the name of one that writes what people read."""
    return bool(_ANSWERING.search(_named(symbol)))


#: Words of prompts for what a pipeline ends with.
_FINAL = re.compile(r"\bfinal (\w+ ){0,2}(answer|report|decision|response|recommendation|reply|verdict)\b", re.I)
#: Names of steps beside the main one: what is asked again, mended, or offered to a user who asked for none.
_ASIDE = re.compile(
    r"follow_?up|correct|regenerat|retry|repair|fallback|forced|adjust|diagnos|suggest|recommend|related|starter|evaluat|enhanc|preprocess|validat"
)
#: Modules of what runs before anybody asks.
_OFFLINE = re.compile(r"(^|[._])(pre_?process(ing|or)?|ingest(ion|ing)?|index(ing|er))([._]|$)")
#: Names of steps that decide where a run goes: what is searched for, done, refused or taken from a text.
_STEERING = re.compile(
    r"quer(y|ies)|rephras|rout(e|er|ing)|plan(ner|s)?(_|$)|classif|triage|guardrail|reject|refus|extract|deci[ds]|supervis"
)
_OF_ANSWERS = 1.0


def worth_of(symbol: str, texts: list[str]) -> float:
    """Return what a judge of a function is worth by the demands of its prompts.

    An answer that people read, and a step that decides where a run goes, are worth more than other steps; a name on a
    screen is worth nothing.
    """
    if _NAMING.search(symbol.rpartition(".")[2].lower()):
        return 0.0
    if _ASIDE.search(_named(symbol)) or _OFFLINE.search(symbol.lower()):
        return max(map(demand_of, texts), default=0.0) - _OF_ANSWERS
    is_read = is_answering(symbol) or any(_FINAL.search(text) for text in texts)
    is_steering = bool(_STEERING.search(_named(symbol)))
    return max(map(demand_of, texts), default=0.0) + _OF_ANSWERS * (is_read or is_steering)


#: Parameters in which a function is handed what it sends.
_IS_HANDED = frozenset({"messages", "msgs", "chat_messages", "prompt", "prompts", "system", "system_prompt"})
#: Most long texts of one call of which a person can still say which one the model was told.
_MOST_TEXTS = 3


#: Names of texts that fill a prompt: data, hints, examples, forms; and names that say that a text is one.
_IS_MATERIAL = re.compile(
    r"(^|_)(hints?|notes?|examples?|few_?shots?|shots|samples?|data|contexts?|schemas?|memor(y|ies)|docs?|documents?"
    r"|desc(ription)?s?|results?|format|footer|reminders?|warnings?|accounts?|tools?)$"
)
#: Beginnings of texts that say something beside the task.
_BEGINS_BESIDE = re.compile(r"^\W*(\(|\.\.\.|\[\.|(notes?|hints?|tips?|examples?|reminder|warning|e\.g)\b)", re.I)


def is_one_of_many(symbol: str, prompts: list[Prompt], code: ClaimedCode) -> bool:
    """Return whether nobody can say which prompt a reply answers: one of many, or one beside those of callers."""
    places = {p.place for p in prompts if len(p.text) >= MIN_TASK and not p.place.path.endswith(".py")}
    if len(places) > _MOST_TEXTS:
        return True
    subject = code.subject(symbol)
    if subject is None or not any(p.name in _IS_HANDED for p in subject.ir.params):
        return False
    first, path = prompts[0], subject.program.path(subject.info)
    reading = [
        s
        for s in subject.statements
        if (first.name and any(first.name in names_in(e) for e in own_expressions(s)))
        or (first.place.path == path and first.place.line <= line_of(s) <= max(first.place.end, first.place.line))
    ]
    for s in subject.statements:
        inside = list(statements((s,))) if s[0] == "if" else []
        if any(line_of(x) in first.sent_at for x in inside):
            continue
        if reading and all(any(x is r for x in inside) for r in reading):
            return True
    return False


def is_sure_task(symbol: str, prompts: list[Prompt], code: ClaimedCode) -> bool:
    """Return whether the first of some prompts surely holds what a model is told to do, in each call.

    A text that is a hint, data or an example has the name of one or begins as one does, tells nothing to do by itself,
    or is added in some calls alone.

    Args:
        symbol: The function that asks.
        prompts: Its prompts, the one with the task first.
        code: The functions.
    """
    first = prompts[0] if prompts else None
    if first is None or _IS_MATERIAL.search(snake(first.name)) or not sets_task([first]):
        return False
    if _BEGINS_BESIDE.search(first.text):
        return False
    maker = code.function_at(first.place)
    for subject in filter(None, map(code.subject, {symbol, maker or symbol})):
        if _is_added_seldom(subject, first, prompts):
            return False
    return True


def _is_added_seldom(subject: Subject, first: Prompt, prompts: list[Prompt]) -> bool:
    """Return whether a function reads a text below a condition alone, and no other prompt in the other case."""
    reading = _reading(subject, first)
    for s in subject.statements:
        if s[0] != "if" or not reading:
            continue
        inside = list(statements((s,)))[1:]
        if any(line_of(x) in first.sent_at for x in inside) or not all(any(x is r for x in inside) for r in reading):
            continue
        others = [p for p in prompts[1:] if any(any(x is r for x in inside) for r in _reading(subject, p))]
        if not others:
            return True
    return False


def _reading(subject: Subject, prompt: Prompt) -> list[Stmt]:
    """Return the statements of a function that hold the text of a prompt, or that read it by its name."""
    path = subject.program.path(subject.info)
    last = max(prompt.place.end, prompt.place.line)
    own = [s for s in subject.statements if prompt.place.path == path and prompt.place.line <= line_of(s) <= last]
    named = (s for s in subject.statements if any(prompt.name in names_in(e) for e in own_expressions(s)))
    return own or ([*named] if prompt.name else [])
