"""Requests to servers of models, told by method, address and body of an HTTP call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gapwatch.design.patterns.code_walk import constants_in, keyword, text_of, unwrapped
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    callee_of,
    constant_of,
    index_of,
    is_call,
    is_member,
    is_text,
    owner_of,
    pairs_in,
    positional_of,
    targets_of,
)
from gapwatch.design.source.program import last_name

#: Paths that only servers of models have. Services of messages have `…/v1/messages`, too, with parts around it.
_MODEL_PATHS = re.compile(
    r"/chat/completions|(?<!\w)/completions(?![\w/-])|:generateContent|:streamGenerateContent"
    r"|(^|\s|//[^/\s]+|anthropic)/v1/messages(?![\w/-])|/v1/responses|/v1/complete\b|/generate_stream\b"
)
#: Paths that a pipeline's own service may also have; they count together with `_SENT_TO_MODELS`.
_SHARED_PATHS = re.compile(r"(^|[/\s])api/(generate|chat)\b")
_SENT_TO_MODELS = re.compile(r"(^|\W)(messages|model|prompt|num_predict|num_ctx)(\W|$)|ollama|:11434", re.IGNORECASE)
_EMBEDDING_PATHS = re.compile(r"/v1/embeddings|/api/embeddings?\b|/embeddings\b|:embedContent")
#: Ends of addresses that say little alone: a request to one asks a model if its body names a model and what it is told.
_PLAIN_ENDS = re.compile(r"/(messages|responses|generate|chat|invoke|predict)/?(?=$|[\s?])")
#: Paths of the same servers that do other work than to say something.
_OTHER_PATHS = re.compile(
    r"/(images?/\w+|audio/\w+|moderations?|rerank\w*|files|uploads?|tokenize|detokenize|batches|tts|speech|text_to_\w+"
    r"|transcri\w+|fine[_-]?tun\w+|models|threads|assistants|ocr)\b"
)
#: Members of a body that hold what a model is told.
_TOLD = frozenset(["messages", "prompt", "input", "contents", "message"])
#: Members of a body beside `messages` that only a model needs.
_OF_MODELS = frozenset(
    ["model", "max_tokens", "max_completion_tokens", "max_new_tokens", "temperature", "top_p", "top_k", "system"]
)
#: Methods of clients that send nothing but the address.
_READS = frozenset(["get", "head", "options", "delete", "urlretrieve", "ws_connect"])
_READ_VERBS = frozenset(["GET", "HEAD", "OPTIONS", "DELETE"])
#: Methods whose first argument is the verb.
_ANY_VERB = frozenset(["request", "stream", "build_request", "send", "connect_sse", "aconnect_sse"])
_BODIES = ("json", "data", "content", "body")
#: Functions that write a body as text.
_WRITERS = frozenset(["dumps", "encode", "dict", "to_json", "serialize"])


def address_capability(texts: str) -> str | None:
    """Return the capability of a server's address in some texts: llm_chat, embedding or None."""
    if _MODEL_PATHS.search(texts) or (_SHARED_PATHS.search(texts) and _SENT_TO_MODELS.search(texts)):
        return "llm_chat"
    return "embedding" if _EMBEDDING_PATHS.search(texts) else None


def only_reads(call: Expr) -> bool:
    """Return whether a request has a verb without a body: `requests.get(url)`, `client.request("GET", url)`."""
    if last_name(call) in _READS:
        return True
    said = keyword(call, "method") or (positional_of(call)[0] if positional_of(call) else None)
    return said is not None and is_text(said) and constant_of(said).upper() in _READ_VERBS


def address_of(call: Expr) -> Expr | None:
    """Return the argument of a request that holds its address; None if there is none."""
    if (named := keyword(call, "url")) is not None:
        return named
    given = positional_of(call)
    has_verb = last_name(call) in _ANY_VERB and len(given) > 1
    return given[1 if has_verb else 0] if given else None


def bodies_of(call: Expr) -> list[Expr]:
    """Return the arguments of a request that hold what it sends."""
    named = [value for name in _BODIES if (value := keyword(call, name)) is not None]
    return named or (
        [positional_of(call)[1]]
        if last_name(call) in ("post", "put", "Request") and len(positional_of(call)) > 1
        else []
    )


def is_other_work(texts: Iterable[str]) -> bool:
    """Return whether an address leads to other work of a model's server, such as pictures, files or ranking."""
    joined = " ".join(texts)
    return _OTHER_PATHS.search(joined) is not None and _MODEL_PATHS.search(joined) is None


def asks_by_body(address: str, keys: frozenset[str], is_certain: bool) -> bool:
    """Return whether a body asks a model.

    Args:
        address: Texts of the address.
        keys: Members of the body; where they are not known, the constant texts of the function.
        is_certain: Whether `keys` are members of the body.
    """
    if is_certain and "messages" in keys and not keys.isdisjoint(_OF_MODELS):
        return True
    if is_certain and {"message", "chat_history", "model"} <= keys:
        return True
    return _PLAIN_ENDS.search(address) is not None and "model" in keys and not keys.isdisjoint(_TOLD)


def written_in(e: Expr) -> Iterator[Expr]:
    """Yield the dictionaries, names and calls that a body is made of: `json.dumps(payload).encode()` of `payload`."""
    e = unwrapped(e) or e
    if is_call(e) and last_name(e) in _WRITERS:
        inner = [*positional_of(e), *([owner_of(callee_of(e))] if is_member(callee_of(e)) else [])]
        for part in inner:
            yield from written_in(part)
    elif e[0] == "?":
        yield from written_in(e[2])
        yield from written_in(e[3])
    elif e[0] == "o":
        for part in e[2]:
            yield from written_in(part)
    yield e


def keys_of(e: Expr) -> set[str]:
    """Return the constant keys of a dictionary, and the names of the arguments of `dict(...)`."""
    if e[0] == "d":
        return {constant_of(key) for key, _ in pairs_in(e) if key is not None and is_text(key)}
    if is_call(e) and last_name(e) == "dict":
        return {name for name, _ in e[3] if name is not None}
    return set()


def keys_set(statements: Iterable[Stmt], name: str) -> set[str]:
    """Return the constant keys that statements set in a dictionary: `body["model"] = name`."""
    targets = (t for s in statements if s[0] == "assign" for t in targets_of(s) if t[0] == "s")
    return {constant_of(index_of(t)) for t in targets if text_of(owner_of(t)) == name and is_text(index_of(t))}


def served_paths(decorators: Iterable[Expr]) -> set[str]:
    """Return the paths that decorators of endpoints name: `@app.post("/chat")`."""
    made = (d for d in decorators if is_call(d) and positional_of(d) and is_member(callee_of(d)))
    routes = (d for d in made if last_name(d) in ("get", "post", "put", "route", "api_route", "websocket"))
    return {t.rstrip("/") for d in routes for t in constants_in(positional_of(d)[0])[:1] if len(t.strip("/")) > 1}
