"""deploy/systemd: systemd accepts the unit, it fits how a run stops, and its settings are options of a run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gapwatch.streams.commands.run import run_command
from gapwatch.streams.live.run import STOP_SECONDS
from tests.paths import ROOT

FOLDER = ROOT / "deploy" / "systemd"
UNIT = (FOLDER / "gapwatch.service").read_text()
VARIABLES = {str(one.envvar) for one in run_command.params if isinstance(one, click.Option)}


def values(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


def test_a_stop_has_more_time_than_a_run_takes_and_a_wrong_setting_is_not_tried_again() -> None:
    assert values("KillSignal") == ["SIGTERM"]
    assert STOP_SECONDS + 2 < float(values("TimeoutStopSec")[0]) < 60
    assert (values("Restart"), values("RestartPreventExitStatus")) == (["on-failure"], ["2"])


def test_each_setting_is_a_variable_of_the_run() -> None:
    settings = (FOLDER / "gapwatch.env").read_text()
    named = set(re.findall(r"^#?(GAPWATCH_\w+)=", settings + UNIT, re.MULTILINE))
    named |= set(re.findall(r"^#?Environment=(GAPWATCH_\w+)=", UNIT, re.MULTILINE))

    assert len(named) > 8
    assert named <= VARIABLES
    assert "GAPWATCH_STORE" in named


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit_and_finds_it_confined(tmp_path: Path) -> None:
    unit = tmp_path / "gapwatch.service"
    unit.write_text(UNIT.replace("/opt/gapwatch/bin/gapwatch", str(Path(sys.executable).with_name("gapwatch"))))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=300
    )
    told = [line for line in (checked.stdout + checked.stderr).splitlines() if "gapwatch" in line]
    assert (checked.returncode, told) == (0, []), checked.stderr

    exposure = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", str(unit)]
    confined = subprocess.run(exposure, capture_output=True, text=True, timeout=300)
    assert confined.returncode == 0, confined.stdout
