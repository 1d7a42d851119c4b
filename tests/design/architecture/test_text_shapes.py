"""Which texts of a program may be prompts."""

from __future__ import annotations

import pytest

from gapwatch.design.architecture.text_shapes import is_prompt


@pytest.mark.parametrize(
    "text",
    [
        "\n    e.uuid AS uuid,\n    startNode(e).uuid AS source,\n    e.name AS name, e.fact AS fact",
        "RETURN n.uuid AS uuid, n.name AS name, n.summary AS summary",
        "MATCH (n:Entity {uuid: $uuid}) RETURN n.name AS name LIMIT 3",
        "OPTIONAL MATCH path = (a)-[:KNOWS]->(b) RETURN length(path) AS hops",
        "UNWIND $rows AS row MERGE (n:Entity {uuid: row.uuid}) SET n += row",
        "CALL db.index.fulltext.queryNodes('names', $query) YIELD node RETURN node",
    ],
)
def test_a_query_of_a_graph_database_is_no_prompt(text: str) -> None:
    assert not is_prompt(text)


@pytest.mark.parametrize(
    "text",
    [
        "Match the name of the user to one of the list and answer with it",
        "RETURN only the JSON of the answer, and nothing else beside it",
        "CALL the tool that fits best, then answer the question in one sentence",
    ],
)
def test_an_instruction_that_begins_with_the_word_of_a_query_is_one(text: str) -> None:
    assert is_prompt(text)
