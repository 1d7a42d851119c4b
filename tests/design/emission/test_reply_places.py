"""The call of a model is given what the model is sent, or it is not, where a chain or an agent finds more inside."""

from __future__ import annotations

import ast

import pytest

from gapwatch.design.emission.reply_places import hides_prompt


@pytest.mark.parametrize(
    ("call", "is_hidden"),
    [
        ("client.chat.completions.create(model='m', messages=messages)", False),
        ("llm.invoke(question)", False),
        ("chain.invoke({'question': question, 'context': passages})", False),
        ("chain.invoke(messages)", False),
        ("answer_chain.invoke(state_with_context)", False),
        ("rag_chain.invoke(question)", True),
        ("await self.qa_chain.ainvoke(request.query)", True),
        ("query_engine.query(question)", True),
        ("self.chat_engine.stream_chat(user_input)", True),
        ("agent.ainvoke({'messages': messages})", True),
        ("prompty.execute('ask.prompty', inputs=given)", True),
    ],
)
def test_a_run_that_searches_inside_hides_what_the_model_is_sent(call: str, is_hidden: bool) -> None:
    assert hides_prompt(ast.parse(call, mode="eval").body if "await" not in call else _awaited(call)) == is_hidden


def _awaited(call: str) -> ast.expr:
    function = ast.parse(f"async def run():\n    {call}\n").body[0]
    statement = function.body[0]  # type: ignore[attr-defined]
    return statement.value  # type: ignore[no-any-return]
