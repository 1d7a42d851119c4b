"""Documents of a retrieval or a rerank, from the forms in which libraries write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gapwatch.streams.otlp.mapping.json_text import listed, parsed


def indexed_documents(members: Sequence[str], values: Sequence[Any]) -> list[dict[str, Any]]:
    """Return documents from the values of keys with numbers, such as `0.document.content`."""
    root: dict[str, dict[str, Any]] = {}
    for path, value in zip(members, values, strict=True):
        number, _, key = path.partition(".")
        root.setdefault(number, {})[key.removeprefix("document.")] = value
    return [_document(document) for document in listed(root)]


def documents_in(value: Any) -> list[dict[str, Any]] | None:
    """Return the documents of a retriever's output; None if it is no list of documents, nothing for an empty one."""
    content = parsed(value)
    if isinstance(content, dict):
        content = next((content[key] for key in ("documents", "output", "matches", "results") if key in content), None)
    if not isinstance(content, list):
        return None
    found = []
    for one in content:
        if isinstance(one, dict):
            found.append(_document(one))
        elif isinstance(one, list) and 2 <= len(one) <= 4 and isinstance(one[0], str | int):
            # (id, content, score), as many programs return.
            texts = [member for member in one[1:] if isinstance(member, str)]
            numbers = [member for member in one[1:] if isinstance(member, float | int)]
            document: dict[str, Any] = {"id": one[0]}
            document |= {"score": numbers[0]} if numbers else {}
            document |= {"content": texts[0]} if texts else {}
            found.append(document)
        elif isinstance(one, str) and not one.startswith("<"):  # the repr of an object is no document
            found.append({"content": one})
    kept = [document for document in found if document]
    return kept if kept or not content else None


def _document(values: dict[str, Any]) -> dict[str, Any]:
    metadata = parsed(values.get("metadata"))
    inner = metadata if isinstance(metadata, dict) else {}
    kwargs = values.get("kwargs")
    if isinstance(kwargs, dict):
        return _document(kwargs)
    id_ = values.get("id") or inner.get("id") or inner.get("doc_id")
    content = next((values[k] for k in ("content", "page_content", "text") if isinstance(values.get(k), str)), None)
    score = next((values[k] for k in ("score", "relevance_score", "similarity") if values.get(k) is not None), None)
    found: dict[str, Any] = {}
    found |= {"id": id_} if id_ is not None else {}
    found |= {"score": score} if score is not None else {}
    found |= {"content": content} if content is not None else {}
    return found
