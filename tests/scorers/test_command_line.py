from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gapwatch.scorers import command_line
from gapwatch.scorers.command_line import Command, CommandLine, discover_commands, run
from gapwatch.scorers.errors import JobError, UsageError
from tests.gapwatch_command import gapwatch
from tests.paths import ROOT

HEAVY = ("pydantic", "duckdb", "rich", "pyarrow", "numpy", "yaml", "orjson")


def start(
    *arguments: str, code: str = "from gapwatch.scorers.command_line import main; main()"
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_help_lists_every_command_sorted_with_its_summary() -> None:
    ran = gapwatch("--help")

    listed = re.findall(r"^  ([a-z-]+) {2,}(\S.*)$", ran.out.split("Commands:")[1].split("\n\n")[0], re.MULTILINE)
    commands = discover_commands()
    assert ran.status == 0
    assert [name for name, _ in listed] == sorted(commands)
    assert {"history", "gaps", "rates", "ledger", "dead-letters", "replay", "check"} <= set(commands)
    assert all(commands[name].summary.startswith(summary[:30]) for name, summary in listed)


def test_help_answers_in_less_than_300_ms() -> None:
    # Processor time: on a machine that others use, the clock on the wall measures them.
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "gapwatch.scorers.command_line", "--help"], cwd=ROOT, check=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.3


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from gapwatch.scorers.command_line import run; run(['--help'])\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    process = start(code=code)
    _, err = process.communicate()
    assert err.strip() == "[]"


@pytest.mark.parametrize("name", sorted(discover_commands()))
def test_every_command_and_every_option_has_help(name: str) -> None:
    command = discover_commands()[name].load()
    assert command.help
    assert [p.name for p in command.params if isinstance(p, click.Option) and not p.help] == []
    assert gapwatch(name, "--help").status == 0


def test_version_is_that_of_the_source_tree() -> None:
    ran = gapwatch("--version")
    assert (ran.status, ran.out) == (0, "gapwatch 0.1.0\n")


def test_a_name_that_is_off_by_a_little_gets_a_proposal() -> None:
    ran = gapwatch("histroy")
    assert ran.status == 2
    assert "Did you mean `history`?" in ran.err


def command_that(body: str) -> str:
    """Return code that runs one command with this body."""
    return f"""
import sys, click
from gapwatch.scorers import command_line
from gapwatch.scorers.errors import *
@click.command()
def one():
    {body}
class Direct(command_line.Command):
    def load(self): return one
command_line.discover_commands = lambda: {{"one": Direct("", "")}}
sys.argv = ["gapwatch", "one"]
command_line.main()
"""


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("raise UsageError('no such thing')", 2, "gapwatch: no such thing\n"),
        ("raise JobError('disk full')", 1, "gapwatch: disk full\n"),
        ("raise KeyboardInterrupt", 1, "gapwatch: interrupted\n"),
        ("raise click.UsageError('how?')", 2, "Error: how?\n"),
        ("return 1", 1, ""),
        ("sys.exit(3)", 3, ""),
        ("click.get_current_context().exit(2)", 2, ""),
        ("pass", 0, ""),
    ],
)
def test_an_error_becomes_a_text_and_its_exit_status(body: str, status: int, said: str) -> None:
    process = start(code=command_that(body))
    _, err = process.communicate()
    assert process.returncode == status
    assert err.endswith(said)
    assert "Traceback" not in err


def test_an_error_that_nobody_meant_keeps_its_traceback() -> None:
    process = start(code=command_that("1 / 0"))
    _, err = process.communicate()
    assert process.returncode == 1
    assert "ZeroDivisionError" in err


@pytest.mark.parametrize("write", ["print('x' * 1_000_000)", "sys.stdout.buffer.write(b'x' * 1_000_000)", "print('x')"])
def test_a_reader_who_went_away_is_no_news(write: str) -> None:
    process = start(code=command_that(f"{write}"))
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert err == ""


def test_it_works_where_the_packages_are_no_project_at_hand(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "gapwatch.scorers.command_line", "history", "--help"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0
    assert "--store" in process.stdout


def test_a_contribution_that_is_broken_costs_a_warning(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no good')\n")
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[gapwatch.commands]\nbroken = broken:COMMANDS\n")
    process = subprocess.run(
        [sys.executable, "-m", "gapwatch.scorers.command_line", "--help"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0
    assert "history" in process.stdout
    assert "cannot load the commands of broken:COMMANDS: no good" in process.stderr


def test_a_command_of_gapwatch_starts_without_reading_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed() -> list[object]:
        raise AssertionError("it was read")

    monkeypatch.setattr(command_line, "_foreign_contributions", installed)
    assert gapwatch("history", "--help").status == 0
    with pytest.raises(AssertionError):
        gapwatch("no-such-command")


def test_a_target_that_is_no_command_says_so() -> None:
    with pytest.raises(TypeError, match=r"scorers\.errors:JobError is not a click command"):
        Command("", "gapwatch.scorers.errors:JobError").load()


def test_a_group_without_commands_still_helps() -> None:
    assert "Commands" not in CommandLine({}).get_help(click.Context(CommandLine({})))


def test_exit_statuses_are_those_of_the_errors() -> None:
    assert (JobError.exit_status, UsageError.exit_status, run(["history"])) == (1, 2, 2)
