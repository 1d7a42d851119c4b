"""`gapwatch run --close`: when a trace of spans is whole."""

from __future__ import annotations

import click
import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.commands.otlp_options import close_rules
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from tests.gapwatch_command import gapwatch


def test_causes_that_are_not_named_keep_their_time() -> None:
    assert close_rules([]) == CloseRules()
    assert close_rules(["quiet=20s", "max_open=2h"]) == CloseRules(quiet=20.0, max_open=7_200.0)


@pytest.mark.parametrize("text", ["quiet", "quiet=", "quiet=0s", "quiet=10", "loud=3s", "max_spans=3s", "=3s"])
def test_what_is_no_cause_and_time_is_refused(text: str) -> None:
    with pytest.raises((click.UsageError, UsageError), match=r"quiet|time"):
        close_rules([text])


def test_it_needs_spans(tmp_path) -> None:  # type: ignore[no-untyped-def]
    ran = gapwatch(
        "run", "--brokers", "127.0.0.1:1", "--close", "quiet=3s", "--portfolio", "p", "--store", tmp_path / "s"
    )
    assert ran.status == 2
    assert "--close is for spans" in ran.err
