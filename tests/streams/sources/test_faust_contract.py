"""What `faust_slices`, `slice_source`, `source_progress` use of Faust, mode, aiokafka that is not public, as pinned.

A release that moves one of these fails here, before it fails in an outage.
"""

import asyncio
import inspect
import re
from importlib.metadata import version
from types import SimpleNamespace

import aiokafka
import faust
import pytest
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState, TopicPartitionState
from aiokafka.errors import KafkaError
from faust.tables import TableManager
from faust.transport import consumer as faust_consumer
from faust.transport.drivers import aiokafka as driver

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.streams.sources.faust_slices import NoTables, SliceAppOptions, SliceConsumer, SliceThread, make_slice_app
from gapwatch.streams.sources.linger import Linger
from gapwatch.streams.sources.slice_buffer import SliceBuffer


@pytest.fixture
def app():
    """An application that is never started; Faust makes event loops for it all the same, which are closed here."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    app = make_slice_app(SliceAppOptions("t", "g"), KafkaSettings("b:1"), owner=None, hand_over=None)
    yield app
    app.consumer._thread.thread_loop.close()
    asyncio.set_event_loop(None)
    loop.close()


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_the_versions_are_the_pinned_ones():
    assert version("faust-streaming") == "0.15.3"
    assert version("mode-streaming") == "0.7.1"
    assert version("aiokafka") == "0.14.0"


FETCH_PARAMETERS = ["self", "consumer", "active_partitions", "timeout", "max_records"]


@pytest.mark.parametrize(
    ("owner", "name", "expected"),
    [
        (driver.AIOKafkaConsumerThread, "_create_worker_consumer", ["self", "transport"]),
        (driver.AIOKafkaConsumerThread, "_fetch_records", FETCH_PARAMETERS),
        (driver.AIOKafkaConsumerThread, "_commit", ["self", "offsets"]),
        (driver.AIOKafkaConsumerThread, "_ensure_consumer", ["self"]),
        (driver.AIOKafkaConsumerThread, "assignment", ["self"]),
        (driver.AIOKafkaConsumerThread, "call_thread", ["self", "fun", "args", "kwargs"]),
        (driver.Consumer, "_new_consumer_thread", ["self"]),
        (driver.Consumer, "_to_message", ["self", "tp", "record"]),
        (faust_consumer.Consumer, "ack", ["self", "message"]),
        (faust_consumer.Consumer, "_add_gap", ["self", "tp", "offset_from", "offset_to"]),
        (faust_consumer.Consumer, "_filter_committable_offsets", ["self", "tps"]),
        (faust_consumer.Consumer, "_should_commit", ["self", "tp", "offset"]),
        (faust_consumer.Consumer, "perform_seek", ["self"]),
        (GroupCoordinator, "fetch_committed_offsets", ["self", "partitions"]),
    ],
)  # fmt: skip
def test_what_is_overridden_or_called_takes_what_it_took(owner, name, expected):
    assert parameters(getattr(owner, name)) == expected


def test_faust_keeps_what_the_consumer_touches(app):
    consumer = app.consumer

    assert isinstance(consumer, SliceConsumer)
    assert isinstance(consumer._thread, SliceThread)
    assert consumer._waiting_for_ack is None
    assert len(consumer._unacked_messages) == 0
    assert consumer._committed_offset["anything"] is None
    assert not app.rebalancing
    assert app.rebalancing_count == 0
    assert not app.crashed
    assert app.crash_reason is None


def test_reading_goes_through_what_is_overridden():
    drain = inspect.getsource(faust_consumer.Consumer._drain_messages)
    getmany = inspect.getsource(faust_consumer.Consumer.getmany)
    fetch = inspect.getsource(driver.AIOKafkaConsumerThread.getmany)

    assert "self._read_offset.__getitem__" in drain
    assert "self._read_offset.__setitem__" in drain
    assert "to_message = self._to_message" in getmany
    assert "self._fetch_records" in fetch


def test_tables_start_as_they_did_but_for_the_wait():
    faust_starts, starts = inspect.getsource(TableManager.on_start), inspect.getsource(NoTables.on_start)
    done = ["await self._update_channels()", "await self.recovery.start()"]

    assert re.findall(r"await .*", faust_starts) == ["await self.sleep(1.0)", *done]
    assert re.findall(r"await .*", starts) == done


def test_an_assignment_goes_through_perform_seek_before_anything_flows():
    from faust.tables.recovery import Recovery

    source = inspect.getsource(Recovery._resume_streams)
    assert source.index("perform_seek") < source.index("resume_flow")


def test_waits_for_running_work_look_at_unacknowledged_messages():
    source = inspect.getsource(faust_consumer.Consumer.wait_empty)
    assert "self._unacked_messages" in source
    assert "self._wait_for_ack" in source


def test_the_committed_offsets_come_from_what_is_overridden():
    assert "self._filter_committable_offsets" in inspect.getsource(faust_consumer.Consumer._commit_tps)
    assert "self._commit" in inspect.getsource(driver.AIOKafkaConsumerThread.commit)


async def make_client():
    return aiokafka.AIOKafkaConsumer(bootstrap_servers="b:1", group_id="g")


def test_aiokafka_keeps_the_settings_that_faust_does_not_pass():
    client = asyncio.run(make_client())

    assert client._isolation_level == "read_uncommitted"
    assert client._fetch_min_bytes == 1
    assert client._fetch_max_wait_ms == 500
    assert client._client._conns == {}
    assert isinstance(client._subscription, SubscriptionState)
    assert client._subscription.subscription is None
    for name in ("_fetch_min_bytes", "_fetch_max_wait_ms", "_isolation_level"):
        assert f"self.{name}" in inspect.getsource(aiokafka.AIOKafkaConsumer.start), "read later than the override"
    client._closed = True


def test_a_partitions_state_has_position_and_ends():
    source = inspect.getsource(TopicPartitionState.__init__)
    for line in ("self.highwater = None", "self.lso = None", "self._position = None"):
        assert line in source


def test_a_fetch_that_gives_records_has_moved_the_position_past_them():
    from aiokafka.consumer.fetcher import FetchResult, PartitionRecords

    assert "self._update_position()" in inspect.getsource(FetchResult.getall)
    assert "for msg in self._partition_records" in inspect.getsource(FetchResult.getall)
    assert "self._consumer_record(tp, record)" in inspect.getsource(PartitionRecords._unpack_records)
    assert "await asyncio.wait" in inspect.getsource(Fetcher.fetched_records)


def test_errors_say_whether_they_are_retriable():
    assert KafkaError.retriable is False


def test_faust_reports_no_stall_of_a_healthy_run(app):
    # It looks at the age of its own events and commits, and a run has none of these: lines would come after 300 s.
    source = inspect.getsource(driver.AIOKafkaConsumerThread.__post_init__)
    settings = set(re.findall(r"self\.tp_\w+_secs = (\w+)", source))

    assert settings == {"stream_processing_timeout", "commit_livelock_timeout"}
    assert app.conf.stream_processing_timeout > 1e8
    assert app.conf.broker_commit_livelock_soft_timeout > 1e8


def test_the_web_server_and_topic_creation_are_off(app):
    assert app.conf.web_enabled is False
    assert app.conf.topic_allow_declare is False
    assert app.conf.topic_disable_leader is True
    assert app.conf.broker_max_poll_interval == 1e6
    assert isinstance(app, faust.App)


def test_what_comes_of_a_new_assignment_before_the_next_seek_is_left_to_it(monkeypatch):
    """A process that lost its membership begins where the group is, before what it has taken already."""
    tp, sought, newer = aiokafka.TopicPartition("traces", 0), object(), object()

    async def fetched(*_arguments, **_options):
        return {tp: [SimpleNamespace(offset=500)]}

    monkeypatch.setattr(driver.AIOKafkaConsumerThread, "_fetch_records", fetched)
    thread = object.__new__(SliceThread)
    thread.taken, thread.sought, thread.buffer = {tp: 1000}, sought, SliceBuffer(8000, Linger(1.0), 0.25)
    thread._at_consumer = asyncio.Lock()

    def fetch(assignment):
        subscription = SimpleNamespace(subscription=SimpleNamespace(assignment=assignment))
        return asyncio.run(thread._fetch_records(SimpleNamespace(_subscription=subscription), None))

    assert fetch(newer) == {}
    assert thread.taken == {tp: 1000}
