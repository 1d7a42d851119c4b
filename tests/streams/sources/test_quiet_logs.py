"""What the clients' libraries repeat is logged once; everybody else is left alone."""

import logging

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.sources import quiet_logs


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


@pytest.fixture
def lines(monkeypatch):
    handler = Lines()
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    quiet_logs.quieten_logs()
    return handler.texts


def test_a_message_comes_once_whatever_its_arguments(lines):
    for port in range(1000):
        logging.getLogger("aiokafka.conn").warning("no connection to port %d", port)

    assert lines == ["no connection to port 0"]


def test_an_error_of_gapwatch_is_no_crash_of_faust(lines):
    for reason in (UsageError("group 'g' belongs to another store"), ValueError("odd")):
        logging.getLogger("faust.tables.recovery").error("Crashed reason=%r", reason)

    assert lines == ["Crashed reason=ValueError('odd')"]


def test_others_and_other_messages_pass(lines):
    for n in range(3):
        logging.getLogger("aiokafka").warning("one")
        logging.getLogger("faust.app").warning("one")
        logging.getLogger("gapwatch.slices").warning("mine %d", n)
        logging.getLogger("aiokafka_of_somebody_else").warning("theirs")

    assert lines.count("one") == 2
    assert [line for line in lines if line.startswith("mine")] == ["mine 0", "mine 1", "mine 2"]
    assert lines.count("theirs") == 3


def test_after_a_while_it_comes_again_with_a_count(lines, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(quiet_logs.time, "monotonic", lambda: now[0])
    for at in (0.0, 1.0, 2.0, 31.0):
        now[0] = at
        logging.getLogger("mode").error("gone")

    assert lines == ["gone", "gone (repeated 2 times since the last line)"]


def test_an_election_of_the_coordinator_is_logged_only_if_it_lasts(lines, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(quiet_logs.time, "monotonic", lambda: now[0])
    for at in (0.0, 1.0, 9.0, 11.0, 100.0):
        now[0] = at
        logging.getLogger("aiokafka.consumer").error(
            "Request failed: %s", "[Error 15] GroupCoordinatorNotAvailableError"
        )

    assert lines == ["Request failed: [Error 15] GroupCoordinatorNotAvailableError"]


def test_faust_does_not_report_the_start_of_its_services(lines):
    from gapwatch.streams.sources import faust_slices

    service = logging.getLogger(faust_slices.__name__)
    service.info("[^SliceApp]: Starting...")
    service.warning("[^SliceApp]: no heartbeat")

    assert lines == ["[^SliceApp]: no heartbeat"]
