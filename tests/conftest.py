"""What all tests share: in CI a skipped test is a failure, because nobody reads what was left out."""

from __future__ import annotations

import os

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("CI"):
        terminalreporter.write_line(f"{len(skipped)} tests were skipped; in CI that fails the run", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and reporter is not None and reporter.stats.get("skipped") and os.environ.get("CI"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
