"""Library uses: calls that count as one, and the repository's own search functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.analysis import build
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.patterns.library_uses import find_library_uses
from gapwatch.design.patterns.pattern_search import find_patterns
from gapwatch.design.source.scan import scan_repository
from tests.design.source_tree import write_tree

_ASKS = "from openai import OpenAI\ndef ask(q): return OpenAI().chat.completions.create(model='m', messages=[q])\n"


def _uses(root: Path, files: dict[str, str]) -> set[tuple[str, str]]:
    program, graph = build(scan_repository(write_tree(root, files)))
    sites = CallSites(graph, default_catalog())
    return {(use.capability, use.symbol) for use in find_library_uses(graph, sites, find_patterns(program, sites))}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("m.py", "search_documents"),
        ("m.py", "get_relevant_chunks"),
        ("m.py", "_retrieve_memory_context"),
        ("retriever.py", "retrieve"),
        ("m.py", "query_relevant_documents"),
    ],
)
def test_a_search_that_is_written_in_the_repository_is_known_by_its_name(path: str, name: str, tmp_path: Path) -> None:
    found = _uses(tmp_path, {"asking.py": _ASKS, path: f"def {name}(q): ...\n"})

    assert ("retrieval", f"{path.removesuffix('.py')}.{name}") in found


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("m.py", "retrieve_user"),
        ("m.py", "query_documents"),
        ("m.py", "find_similar_strings"),
        ("m.py", "get_relevant_images"),
        ("passwords.py", "retrieve"),
        ("research.py", "retrieve"),
    ],
)
def test_what_retrieves_no_passages_is_no_search(path: str, name: str, tmp_path: Path) -> None:
    found = _uses(tmp_path, {"asking.py": _ASKS, path: f"def {name}(q): ...\n"})

    assert not {use for use in found if use[0] == "retrieval"}


@pytest.mark.parametrize(
    ("dotted", "capability"),
    [
        ("openai.OpenAI.chat.completions.with_raw_response.create", "llm_chat"),
        ("anthropic.Anthropic.messages.with_streaming_response.create", "llm_chat"),
        ("openai.OpenAI.embeddings.with_raw_response.create", "embedding"),
        ("elasticsearch.Elasticsearch.get", "retrieval"),
        ("elasticsearch.Elasticsearch.get.get.items.get", None),
        ("elasticsearch.Elasticsearch.info.get", None),
        ("chromadb.PersistentClient.get_or_create_collection.get", "retrieval"),
        ("chromadb.PersistentClient.get_or_create_collection.query.get", None),
        ("chromadb.api.types.QueryResult.get", None),
        ("django.db.models.Model.objects.filter.update", "db_write"),
        ("django.db.models.Model.title.replace", "web"),
        ("django.db.models.JSONField.items.update", "web"),
        ("wikipedia.search", "web_search"),
        ("wikipedia.search.strip.ilike", None),
        ("azure.ai.inference.ChatCompletionsClient.complete", "llm_chat"),
    ],
)
def test_reading_what_a_library_gave_is_no_second_call(dotted: str, capability: str | None) -> None:
    assert default_catalog().capability(dotted) == capability


_ENGINE = (
    "from llama_index.core import VectorStoreIndex\n\n\ndef reply(index: VectorStoreIndex, q):\n    return {asked}\n"
)


@pytest.mark.parametrize(
    ("asked", "searches"),
    [
        ("index.as_query_engine(similarity_top_k=3).query(q)", True),
        ("index.as_chat_engine().chat(q)", False),
        ("index.docstore.docs", False),
    ],
)
def test_an_engine_that_searches_for_each_question_is_a_search_and_an_agent_need_not_search(
    asked: str, searches: bool, tmp_path: Path
) -> None:
    found = _uses(tmp_path, {"m.py": _ENGINE.format(asked=asked)})

    assert (("retrieval", "m.reply") in found) == searches
