"""Metrics of agents: how runs end, how many steps they take, what the model is told; nothing is counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.agents.test_agent_loops import COUNTER, GRAPH, STATUS, TOOL_NODE
from tests.design.source_tree import write_tree


def design(root: Path, source: str) -> Design:
    """Return the design of one file."""
    return run_design(scan_repository(write_tree(root, {"worker.py": source})))


def family(made: Design, name: str) -> list[MetricDesign]:
    """Return the chosen metrics of a family."""
    return [m for m in made.metrics if m.family == name]


def test_the_ends_of_a_run_are_one_metric_in_the_words_of_the_code(tmp_path: Path) -> None:
    made = design(tmp_path, STATUS)

    (exits,) = family(made, "agent_exits")
    assert exits.claim == {
        "form": "label",
        "field": "attributes.agent_exit",
        "bad": ["LimitsExceeded"],
    }
    assert (exits.spans, exits.better, exits.direction_verdict) == (["Worker.run"], "lower", "verified")
    (steps,) = family(made, "agent_steps")
    assert (steps.better, steps.severity, steps.per_trace) == ("unknown", "", "sum")
    assert not family(made, "swallowed_errors"), "what a loop raises to go on is no error"
    assert {c.kind for c in made.architecture.components if c.loops} == {"agent"}


@pytest.mark.parametrize(("source", "bad"), [(COUNTER, ["limit"]), (GRAPH, ["limit"])])
def test_limits_are_bad_ends(source: str, bad: list[str], tmp_path: Path) -> None:
    (exits,) = family(design(tmp_path, source), "agent_exits")

    assert exits.claim["bad"] == bad
    assert any("limit: " in line for line in exits.evidence)


def test_the_ends_of_a_graph_are_read_where_its_nodes_leave_it_and_steps_where_its_model_is_asked(
    tmp_path: Path,
) -> None:
    made = design(tmp_path, GRAPH)

    (exits,) = family(made, "agent_exits")
    (steps,) = family(made, "agent_steps")
    (told,) = family(made, "tool_errors")
    assert (exits.spans, exits.claim["optional"]) == (["lead_tools"], True)
    assert steps.spans == ["lead"]
    assert (told.spans, told.claim["limit"]) == (["lead_tools"], {"max": 0})


def test_an_end_that_is_a_fixed_answer_is_counted_once(tmp_path: Path) -> None:
    made = design(tmp_path, TOOL_NODE)

    assert not family(made, "agent_exits")
    assert [m for m in made.metrics if m.family in ("fallback_rate", "failure_answers")]
    assert family(made, "agent_steps")


def test_the_ends_of_several_agents_are_one_metric_of_which_each_way_is_bad_that_is_so_for_one_of_them(
    tmp_path: Path,
) -> None:
    entry = "from one.counter import Worker as A\nfrom two.status import Worker as B\n\n\ndef main(task):\n"
    files = {
        "one/counter.py": COUNTER,
        "two/status.py": STATUS,
        "main.py": entry + "    A(None, None).run(task)\n    return B().run()\n",
    }
    made = run_design(scan_repository(write_tree(tmp_path, files)))

    (exits,) = family(made, "agent_exits")
    assert (exits.group, exits.claim["bad"]) == ("agents", ["LimitsExceeded", "limit"])
    assert len(exits.members) == len(exits.places) == 2
