"""The buffer and its thread: no trace is forgotten, whatever the moment at which it comes."""

import asyncio
import sys
import threading
import time
from collections import deque
from types import SimpleNamespace

import pytest

from gapwatch.publisher import sender as sender_module
from gapwatch.publisher.file_sender import FileSender
from gapwatch.publisher.kafka_sender import KafkaSender
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.publisher.recording import Trace
from gapwatch.publisher.sender import TraceSender

SETTINGS = KafkaSettings("127.0.0.1:1")


class InstantProducer:
    """Acknowledges each record at once, so that the sender's thread is idle between any two traces."""

    client = None

    async def send(self, topic, value, key):
        acknowledged = asyncio.get_running_loop().create_future()
        acknowledged.set_result(None)
        return acknowledged

    async def stop(self):
        pass


class InstantSender(KafkaSender):
    """The Kafka sender on a connection that never delays it."""

    async def _connect(self):
        return InstantProducer()


@pytest.fixture
def hasty_threads():
    """Let threads change turns after nearly every byte code."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def kafka_sender():
    return InstantSender(SETTINGS, "traces", 10_000, 1 << 26)


def offer_one(sender, name="t"):
    return sender.offer(Trace(name, "bot", "production", None), [], 100)


class SlowDeque(deque):
    """A buffer whose additions take long, so that the thread can empty it and go idle in the middle of one."""

    def append(self, item):
        time.sleep(0.002)
        super().append(item)


def offer_in_bursts(sender, count):
    """Offer traces so that the thread is at each point of going idle when the next one comes.

    Raises:
        AssertionError: Traces wait and the thread does not take them for a minute.
    """
    for number in range(count):
        while not offer_one(sender):  # full: the thread works
            assert sender.flush(60.0), f"stopped after {number} traces: {sender.pending} wait"
        if number % 3 == 0:
            assert sender.flush(60.0), f"stopped after {number} traces: {sender.pending} wait"
    assert sender.flush(60.0), f"stopped at the end: {sender.pending} wait"


# Where the thread declares itself idle after it has let go of the lock, a wake-up was lost once in about 150,000 traces
# for Kafka and once in about 4,000 for a file: the large counts miss that fault in 2 % of all runs, and in less.
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("kafka", 20_000),
        ("file", 10_000),
        pytest.param("kafka", 600_000, marks=pytest.mark.slow),
        pytest.param("file", 50_000, marks=pytest.mark.slow),
    ],
)
def test_no_wake_up_is_lost(kind, count, hasty_threads, tmp_path, monkeypatch):
    # The thread must be woken: a look of its own would hide a lost wake-up.
    monkeypatch.setattr("gapwatch.publisher.kafka_sender.LOOK_SECONDS", 3600.0)
    monkeypatch.setattr("gapwatch.publisher.file_sender.LOOK_SECONDS", 3600.0)
    sender = kafka_sender() if kind == "kafka" else FileSender(tmp_path / "t.jsonl", 10_000, 1 << 26)

    offer_in_bursts(sender, count)

    assert (sender.counts["sent"], sender.pending) == (count, 0)
    assert sender.close(10.0)
    assert not sender._thread.is_alive()


@pytest.mark.parametrize("kind", ["kafka", "file"])
def test_a_trace_that_comes_while_the_thread_goes_idle_is_sent(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("gapwatch.publisher.kafka_sender.LOOK_SECONDS", 3600.0)
    monkeypatch.setattr("gapwatch.publisher.file_sender.LOOK_SECONDS", 3600.0)
    sender = kafka_sender() if kind == "kafka" else FileSender(tmp_path / "t.jsonl", 10_000, 1 << 26)
    sender._waiting = SlowDeque()
    for _ in range(100):
        offer_one(sender)
        offer_one(sender)
        assert sender.flush(60.0), "the second trace waits, and nobody has told the thread"
    assert sender.close(10.0)


def test_a_lost_wake_up_would_be_healed_by_the_next_look(monkeypatch):
    monkeypatch.setattr("gapwatch.publisher.kafka_sender.LOOK_SECONDS", 0.05)
    monkeypatch.setattr(InstantSender, "_wake_up", lambda self: None)
    sender = kafka_sender()

    for number in range(20):
        offer_one(sender, f"t{number}")
        assert sender.flush(60.0)
    assert sender.close(10.0)


class StuckSender(TraceSender):
    """A sender whose thread takes no trace until it is told to."""

    def _reset(self):
        super()._reset()
        self.released = threading.Event()

    def _work(self):
        self.released.wait()
        while (item := self._take()) is not None:
            self._settle(item, "sent")
            self._outage.worked("it works again")

    def _wake_up(self):
        pass

    def _end_work(self):
        self.released.set()


def test_a_buffer_that_does_not_shrink_for_a_minute_is_reported_once_and_so_is_the_end(monkeypatch, caplog):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(sender_module.time, "monotonic", lambda: clock.now)
    sender = StuckSender("topic 'traces' at broker:9092", 100, 1 << 20)
    for _ in range(3):
        offer_one(sender)
    clock.now += 59
    offer_one(sender)
    assert caplog.messages == []
    clock.now += 2
    for _ in range(5):
        offer_one(sender)

    (line,) = caplog.messages
    assert line == (
        "topic 'traces' at broker:9092: none of the 5 traces that wait was acknowledged for 60 s; "
        "the publisher keeps trying"
    )
    monkeypatch.undo()
    sender.released.set()
    assert sender.flush(60.0)
    assert caplog.messages[1].startswith("it works again, after ")
    assert sender.close(10.0)


class FailingOnceSender(InstantSender):
    """A sender with a defect: its work ends by an error after the third trace."""

    failures = 0

    async def _send_one(self, producer, item, unacknowledged):
        if item.trace.trace_id == "t3" and not self.failures:
            self.failures += 1
            raise RuntimeError("a defect")
        await super()._send_one(producer, item, unacknowledged)


def test_a_defect_ends_neither_the_thread_nor_loses_a_trace(caplog):
    sender = FailingOnceSender(SETTINGS, "traces", 100, 1 << 20)
    for number in range(6):
        offer_one(sender, f"t{number}")

    assert sender.flush(60.0)
    assert sender.counts == {"sent": 6}
    assert caplog.messages[0] == "the publisher failed and starts again: RuntimeError('a defect')"
    assert sender.close(10.0)


def test_where_the_system_starts_no_thread_the_next_trace_tries_again(monkeypatch, caplog):
    sender = kafka_sender()
    with monkeypatch.context() as patched:

        def refuse(thread):
            raise RuntimeError("can't start new thread")

        patched.setattr(threading.Thread, "start", refuse)
        assert offer_one(sender)
    assert caplog.messages == ["the system starts no more threads; traces wait in the buffer"]
    assert sender.pending == 1
    assert offer_one(sender)

    assert sender.flush(60.0)
    assert sender.counts == {"sent": 2}
    assert sender.close(10.0)


def test_a_signal_handler_may_trace_while_its_own_thread_offers():
    sender = kafka_sender()
    with sender._lock:  # as if the handler interrupted `offer`
        assert offer_one(sender)
    assert sender.flush(60.0)
    assert sender.close(10.0)


def test_closing_before_the_thread_has_a_loop_ends_it_all_the_same():
    for _ in range(50):
        sender = kafka_sender()
        offer_one(sender)
        sender.close(0.0)
        sender._thread.join(60.0)
        assert not sender._thread.is_alive()


def test_offering_costs_no_system_call_while_the_thread_works():
    sender = kafka_sender()
    woken = []
    sender._wake_up = lambda: woken.append(time.monotonic())
    with sender._lock:  # the thread cannot become idle meanwhile
        for _ in range(100):
            offer_one(sender)
    assert len(woken) <= 1
    sender.close(0.0)
