"""A stop while `gapwatch run` still starts: it ends at once, with status 0, as at any later moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.streams.run_process import portfolio


def catches(pid: int, number: int) -> bool:
    """Return whether a process has a handler of its own for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(caught >> (number - 1) & 1)


ARGUMENTS = ("run", "--brokers", "127.0.0.1:1", "--portfolio", "p.yaml", "--store", "s.duckdb", "--listen", "none")
#: SIGTERM comes while a library starts, which turns the interrupt into another error, or loses it in a callback.
WHILE_IT_STARTS = """
import signal
from gapwatch.scorers import command_line
{imports}
begin = {function}
def start(*given, **more):
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        {reaction}
    return begin(*given, **more)
{function} = start
command_line.main()
"""


def stopped(folder: Path, function: str, reaction: str, imports: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "p.yaml").write_text(portfolio())
    program = WHILE_IT_STARTS.format(function=function, reaction=reaction, imports=imports)
    return subprocess.run(
        [sys.executable, "-c", program, *ARGUMENTS], cwd=folder, capture_output=True, text=True, timeout=120,
        check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_an_import_that_turns_a_stop_into_an_error_is_a_normal_end(tmp_path: Path) -> None:
    done = stopped(tmp_path, "command_line.CommandLine.main", "raise ValueError('no schema') from None")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "gapwatch: stopped\n")


@pytest.mark.slow
def test_a_stop_that_is_lost_while_it_starts_ends_the_run(tmp_path: Path) -> None:
    done = stopped(tmp_path, "Run.run", "pass", "from gapwatch.streams.live.run import Run")

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "received SIGTERM" in done.stderr


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_stop_in_the_first_second_is_a_normal_end(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "p.yaml").write_text(portfolio())
    process = subprocess.Popen(
        [sys.executable, "-c", "from gapwatch.scorers.command_line import main; main()", "run",
         "--brokers", "127.0.0.1:1", "--portfolio", "p.yaml", "--store", "s.duckdb", "--listen", "127.0.0.1:0"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        while not catches(process.pid, number):  # the first moment at which it can know of a stop
            assert process.poll() is None, process.communicate()
            time.sleep(0.002)
        process.send_signal(number)
        out, said = process.communicate(timeout=60)
    finally:
        process.kill()

    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in said
    assert not (tmp_path / "s.duckdb").exists()
