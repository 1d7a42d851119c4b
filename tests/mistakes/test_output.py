"""Standard output that cannot be written: a full disk, a reader that is gone. Neither ends in a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapwatch.scorers.command_line import run

#: One command for each way in which a command prints: table, JSON, text, Arrow batches, rich, click.
PRINTING = [
    "--help",
    "--version",
    "rates --help",
    "rates --store s.duckdb",
    "rates --store s.duckdb --format json",
    "alerts --store s.duckdb --format json",
    "ledger --store s.duckdb",
    "ledger --store s.duckdb --format json",
    "history --store s.duckdb 'SELECT * FROM gaps'",
    "judge agreement --store s.duckdb",
    "check p.yaml",
    "check p.yaml --against good.jsonl",
]


@contextlib.contextmanager
def printing_to(descriptor: int) -> Iterator[io.StringIO]:
    """Let this process print to a descriptor; gives standard error."""
    err = io.StringIO()
    raw = io.FileIO(descriptor, "wb")
    out = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield err
    with raw, contextlib.suppress(OSError, ValueError):
        out.close()


@pytest.mark.parametrize("command", PRINTING)
@pytest.mark.usefixtures("folder")
def test_a_full_disk_is_named_and_is_no_success(command: str) -> None:
    with printing_to(os.open("/dev/full", os.O_WRONLY)) as err:
        status = run(shlex.split(command))

    said = err.getvalue()
    assert "gapwatch: the output is not complete: standard output cannot be written (No space left on device)" in said
    assert (status, "Traceback" in said) == (1, False)


@pytest.mark.parametrize("command", PRINTING)
@pytest.mark.usefixtures("folder")
def test_a_reader_that_is_gone_ends_a_command_quietly(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with printing_to(writer) as err:
        status = run(shlex.split(command))

    assert status == 1
    assert "Traceback" not in err.getvalue() and "not complete" not in err.getvalue()


@pytest.mark.parametrize("descriptor", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_command_works_without_standard_streams(folder: Path, descriptor: int) -> None:
    code = f"import os, sys; os.close({descriptor}); os.execv(sys.executable, sys.argv[1:])"
    program = "from gapwatch.scorers.command_line import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, sys.executable, "-c", program, "ledger", "--store", str(folder / "s.duckdb")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert ("balanced" in done.stdout) is (descriptor == 0)
