"""Each option of `gapwatch run` has a variable of the environment, and a wrong value names the variable."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.core import ParameterSource

from gapwatch.streams.commands.run import run_command
from tests.gapwatch_command import gapwatch
from tests.streams.run_process import portfolio

OPTIONS = [one for one in run_command.params if isinstance(one, click.Option)]
VARIABLES = {str(one.envvar): one for one in OPTIONS}


def example_of(option: click.Option, folder: Path) -> str:
    if isinstance(option.type, click.Choice):
        return str(option.type.choices[-1])
    if option.is_flag:
        return "yes"
    if isinstance(option.type, click.Path):
        return str(folder / "file")
    return "7"


def test_each_option_has_a_variable_of_its_own_name() -> None:
    assert len(VARIABLES) == len(OPTIONS)
    for variable, option in VARIABLES.items():
        flag = option.opts[0].removeprefix("--").replace("-", "_").upper()
        assert variable in (f"GAPWATCH_{flag}", f"GAPWATCH_KAFKA_{flag}")


def test_each_variable_is_read_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, option in VARIABLES.items():
        monkeypatch.setenv(variable, example_of(option, tmp_path))
    context = run_command.make_context("run", [])
    shown = " ".join(run_command.get_help(context).split())

    for variable, option in VARIABLES.items():
        assert context.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT, variable
        assert f"env var: {variable}" in shown


def test_an_option_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPWATCH_TOPIC", "other")
    monkeypatch.setenv("GAPWATCH_PORTFOLIO", "a.yaml:b.yaml")
    context = run_command.make_context("run", ["--topic", "mine"])
    assert context.params["topic"] == "mine"
    assert context.params["portfolios"] == (Path("a.yaml"), Path("b.yaml"))


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Variables with which a run could start, if there were a broker."""
    (tmp_path / "p.yaml").write_text(portfolio())
    monkeypatch.setenv("GAPWATCH_KAFKA_BROKERS", "127.0.0.1:1")
    monkeypatch.setenv("GAPWATCH_PORTFOLIO", str(tmp_path / "p.yaml"))
    monkeypatch.setenv("GAPWATCH_STORE", str(tmp_path / "s.duckdb"))
    return tmp_path


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GAPWATCH_LISTEN", "nonsense"),
        ("GAPWATCH_SHED_AFTER", "soon"),
        ("GAPWATCH_KEEP", "-1d"),
        ("GAPWATCH_WEBHOOK", "ftp://x"),
        ("GAPWATCH_ROLE", "everything"),
        ("GAPWATCH_THIN_ROWS", "-1"),
        ("GAPWATCH_SCORER_TIMEOUT", "0"),
        ("GAPWATCH_QUIET", "perhaps"),
        ("GAPWATCH_LOG_FORMAT", "xml"),
        ("GAPWATCH_KEEPER", "http://127.0.0.1:1"),
        ("GAPWATCH_KAFKA_BROKERS", "nonsense"),
        ("GAPWATCH_KAFKA_SECURITY_PROTOCOL", "PLAIN"),
    ],
)
def test_a_wrong_value_names_its_variable(
    ready: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    ran = gapwatch("run")
    assert ran.status == 2
    assert variable in ran.err, ran.err


def test_a_wrong_option_is_named_as_it_was_typed(ready: Path) -> None:
    ran = gapwatch("run", "--listen", "nonsense")
    assert (ran.status, "--listen 'nonsense'" in ran.err, "GAPWATCH_LISTEN" in ran.err) == (2, True, False)


def test_a_token_file_is_named_when_it_holds_none(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ready / "token").write_text("two words\n")
    for variable in ("GAPWATCH_READ_TOKEN_FILE", "GAPWATCH_WRITE_TOKEN_FILE"):
        with monkeypatch.context() as patched:
            patched.setenv(variable, str(ready / "token"))
            ran = gapwatch("run")
        assert (ran.status, f"the token file {ready / 'token'} does not hold a token" in ran.err) == (2, True)
        assert "two words" not in ran.err


def test_with_json_the_error_that_ends_a_run_is_a_line_of_json(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPWATCH_LOG_FORMAT", "json")
    monkeypatch.setenv("GAPWATCH_LISTEN", "nonsense")
    ran = gapwatch("run")
    (line,) = ran.err.splitlines()
    said = json.loads(line)
    assert (ran.status, said["level"], said["logger"]) == (2, "error", "gapwatch.run")
    assert said["message"].startswith("GAPWATCH_LISTEN 'nonsense' is not an address and port")
