"""Fixtures of all tests: a real broker, and the depth. In CI a skipped test fails the run: nobody reads skips there."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.depth import examples
from tests.kafka_broker import kafka_broker, own_kafka_broker, secured_kafka_broker

__all__ = ["kafka_broker", "own_kafka_broker", "secured_kafka_broker"]

#: Exit status of a run in CI that skipped a test. Not 1: `tests/run` gives failed tests a second run, and no other.
SKIPPED_IN_CI = 10

# Tests wait for single records, which would wait for others.
os.environ.setdefault("GAPWATCH_LINGER", "0.2")

# What starts in the background of a shell ignores SIGINT, as do its children: tests that interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: a machine may be busy.
settings.register_profile("depth", max_examples=examples(100), deadline=None)
settings.load_profile("depth")


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests from garbage collection, which would visit half a million objects."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # so that the interpreter frees them at its end


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore connections that the Kafka client leaves open: one that is closed while it connects forgets its own."""
    for item in items:
        if item.get_closest_marker("kafka"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def _collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what a Kafka client dropped before the next test, which may be one where it would be a failure."""
    yield
    if request.node.get_closest_marker("kafka"):
        gc.collect()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("CI"):
        terminalreporter.write_line(f"{len(skipped)} tests were skipped; in CI that fails the run", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped") and os.environ.get("CI"):
        session.exitstatus = SKIPPED_IN_CI
