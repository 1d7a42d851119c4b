"""The status that a loop tells where it is left says how a run ends; a loop around another may have its own."""

from __future__ import annotations

from pathlib import Path

from tests.design.agents.test_agent_loops import loops

_HEAD = "from openai import OpenAI\nclient = OpenAI()\n\n\ndef ask(messages):\n    return client.chat.completions.create(model='m', messages=messages).choices[0].message\n\n\n"  # noqa: E501 - as the others

RETURNED = (
    _HEAD
    + """
def decide(messages, tools):
    for turn in range(4):
        try:
            answer = ask(messages)
        except Exception:
            return ("none", "model_error")
        if not answer.tool_calls:
            return ("answer", answer.content)
        if turn and answer.tool_calls == messages[-1]:
            return ("none", "tool_rounds_exhausted")
        messages.append(tools.execute_tool(answer.tool_calls[0]))
    return ("none", "tool_rounds_exhausted")
"""
)
EVENTS = (
    _HEAD
    + """
def work(messages, tools):
    while True:
        answer = ask(messages)
        if answer.refusal:
            yield {"type": "action", "reason": "model_error", "calls": 1}
            return
        if not answer.tool_calls:
            yield {"type": "action", "reason": "done", "text": answer.content}
            return
        messages.append(tools.execute_tool(answer.tool_calls[0]))
"""
)
#: The status is one of two, of which one is good: the line says nothing.
EITHER = EVENTS.replace('"reason": "done"', '"reason": "done" if answer.content else "exhausted"')
AROUND = (
    _HEAD
    + """
class Analyst:
    def run(self, messages):
        turn = 0
        ceiling = self.max_actions * 3
        while turn < ceiling:
            turn += 1
            action = self.first(messages)
            if action is None:
                yield {"type": "completion", "status": "success"}
                return
            self.made += 1
            if self.made >= self.max_actions:
                yield {"type": "completion", "status": "max_actions"}
                return

    def first(self, messages):
        return self.second(messages)

    def second(self, messages):
        return self.third(messages)

    def third(self, messages):
        return self.inspect(messages)

    def inspect(self, messages):
        for turn in range(12):
            answer = ask(messages)
            if not answer.tool_calls:
                return None
            messages.append(self.execute_tool(answer.tool_calls[0]))
        return None

    def execute_tool(self, call):
        return call.function.arguments
"""
)
#: A loop around an agent without a word about its own end is a part of the program around it.
SILENT = AROUND.replace('yield {"type": "completion", "status": "max_actions"}', "pass").replace(
    'yield {"type": "completion", "status": "success"}', "pass"
)


def ends(root: Path, source: str) -> set[tuple[int, str, bool]]:
    """Return (line, how, whether it is good) of each end of the one loop of a file."""
    (loop,) = loops(root, source)
    return {(e.line, e.how, e.is_good) for e in loop.exits}


def test_a_status_that_is_returned_beside_the_answer_says_how_the_run_ends(tmp_path: Path) -> None:
    assert ends(tmp_path, RETURNED) == {
        (15, "error", False),
        (17, "done", True),
        (19, "limit", False),
    }


def test_a_status_that_is_told_before_a_loop_is_left_says_how_the_run_ends(tmp_path: Path) -> None:
    assert ends(tmp_path / "told", EVENTS) == {(15, "error", False), (18, "done", True)}
    assert (18, "done", True) in ends(tmp_path / "either", EITHER)


def test_a_loop_around_an_agent_that_tells_its_own_limit_is_an_agent_too(tmp_path: Path) -> None:
    outer, inner = loops(tmp_path / "around", AROUND)

    assert (outer.symbol.rpartition(".")[2], outer.default, outer.bad) == ("run", "limit", ("limit",))
    assert {(e.line, e.how) for e in outer.exits} == {(19, "done"), (23, "limit")}
    assert inner.symbol.endswith("inspect")
    assert [loop.symbol.rpartition(".")[2] for loop in loops(tmp_path / "silent", SILENT)] == ["inspect"]


def test_a_walk_over_a_list_by_its_index_has_no_limit_of_its_own(tmp_path: Path) -> None:
    source = (
        _HEAD
        + """
def work(tasks, last, tools):
    i = 0
    while i <= last:
        answer = ask(tasks[i])
        tools.execute_tool(answer.tool_calls[0])
        i += 1
"""
    )

    assert [loop.default for loop in loops(tmp_path, source)] == ["done"]


CHOSEN = (
    _HEAD
    + """
def work(messages, tools):
    while True:
        answer = ask(messages)
        if not answer.tool_calls:
            return answer.content
        found = tools.execute_tool(answer.tool_calls[0])
        if found["status"] == "error":
            content = f"Error: {found['result']}"
        else:
            content = str(found["result"])
        messages.append({"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": content})
"""
)


def test_a_text_of_an_error_that_becomes_the_result_of_a_tool_is_told(tmp_path: Path) -> None:
    (loop,) = loops(tmp_path, CHOSEN)

    line = 1 + CHOSEN.splitlines().index("            content = f\"Error: {found['result']}\"")
    assert [(h.kind, h.line) for h in loop.told] == [("tool error", line)]
