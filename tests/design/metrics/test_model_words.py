"""Checks that there is an answer: what a model said is the output of whoever asks it and gives no text of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.analysis import no_progress
from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.rules.empty_outputs import why_never_missing
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import read_code
from tests.design.source_tree import write_tree

_HEAD = """\
from openai import OpenAI

client = OpenAI()


class Reply:
    def __init__(self, text):
        self.text = text


def reply(state, question):
    messages = [{"role": "user", "content": question}]
"""
_ASKED = {
    "in a state": (
        """\
    answer = client.chat.completions.create(model="m", messages=messages)
    return {"answer": answer.choices[0].message.content}
""",
        True,
    ),
    "in an object": (
        """\
    answer = client.chat.completions.create(model="m", messages=messages)
    made = Reply(answer.choices[0].message.content)
    return made
""",
        True,
    ),
    "in what it is given": (
        """\
    answer = client.chat.completions.create(model="m", messages=messages)
    state.answer = answer.choices[0].message.content
""",
        True,
    ),
    "in pieces that are no texts": (
        """\
    for piece in client.chat.completions.create(model="m", messages=messages, stream=True):
        yield Reply(piece.choices[0].delta.content)
""",
        True,
    ),
    "a text around it": (
        """\
    answer = client.chat.completions.create(model="m", messages=messages)
    return f"Answer: {answer.choices[0].message.content}"
""",
        False,
    ),
    "a way around the model": (
        """\
    if not question:
        return
    answer = client.chat.completions.create(model="m", messages=messages)
    state.answer = answer.choices[0].message.content
""",
        False,
    ),
    "a pair of nothing where it fails": (
        """\
    try:
        answer = client.chat.completions.create(model="m", messages=messages)
    except TimeoutError:
        return None, False
    return answer.choices[0].message.content, True
""",
        False,
    ),
    "an object where it fails": (
        """\
    try:
        answer = client.chat.completions.create(model="m", messages=messages)
        return {"answer": answer.choices[0].message.content}
    except Exception as error:
        return {"error": str(error)}
""",
        False,
    ),
}


@pytest.mark.parametrize("name", _ASKED)
def test_the_words_of_the_model_may_be_missing_where_the_function_gives_none_of_its_own(
    name: str, tmp_path: Path
) -> None:
    text, may_be_missing = _ASKED[name]
    tree = write_tree(tmp_path, {"app.py": _HEAD + text})
    code = read_code(scan_repository(tree), (), default_catalog(), no_progress)

    assert (why_never_missing(ClaimedCode(code.material), "app.reply") is None) == may_be_missing
