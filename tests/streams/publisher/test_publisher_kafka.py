"""The publisher against a real broker: everything arrives, and when it cannot, nobody waits."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from gapwatch.publisher.trace_publisher import TracePublisher
from tests.paths import ROOT

pytestmark = pytest.mark.kafka

README = ROOT / "streams" / "publisher" / "README.md"


def read_traces(broker, topic, count, seconds=20.0):
    return {record.key.decode(): json.loads(record.value) for record in broker.consume(topic, count, seconds)}


def connection(broker):
    settings = broker.settings
    names = ("brokers", "security_protocol", "username", "password", "ca_file")
    return {name: value for name in names if (value := getattr(settings, name))}


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_what_was_traced_arrives_under_its_trace_id(kafka_broker):
    topic = kafka_broker.make_topic(partitions=3)
    with TracePublisher("bot", topic=topic, brokers=kafka_broker.address) as publisher:
        for i in range(300):
            with publisher.trace(f"t{i}"), publisher.span("step", input=i) as span:
                span.output = "x" * i
        assert publisher.flush(20)
        assert publisher.counts == {"sent": 300, "waiting": 0}

    traces = read_traces(kafka_broker, topic, 300)
    assert set(traces) == {f"t{i}" for i in range(300)}
    assert all(traces[f"t{i}"]["spans"][0]["input"] == i for i in range(300))


@pytest.mark.parametrize("compression", ["gzip", "lz4", "zstd", "snappy"])
def test_compressed(kafka_broker, compression):
    topic = kafka_broker.make_topic()
    with TracePublisher("bot", topic=topic, brokers=kafka_broker.address, compression=compression) as publisher:
        publisher.span("a")(lambda: "y" * 5000)()

    (trace,) = read_traces(kafka_broker, topic, 1).values()
    assert trace["spans"][0]["output"] == "y" * 5000


@pytest.mark.slow
def test_by_login_and_tls(secured_kafka_broker):
    topic = secured_kafka_broker.make_topic()
    with TracePublisher("bot", topic=topic, **connection(secured_kafka_broker)) as publisher:
        with publisher.trace("t"):
            pass
        assert publisher.flush(20)

    assert list(read_traces(secured_kafka_broker, topic, 1)) == ["t"]


@pytest.mark.slow
def test_a_wrong_password_costs_the_pipeline_nothing_but_one_log_line(secured_kafka_broker, caplog):
    wrong = {**connection(secured_kafka_broker), "password": "wrong"}
    publisher = TracePublisher("bot", topic="t", **wrong)
    with publisher.trace():
        pass

    assert not publisher.flush(4)
    publisher.close(0)
    (line,) = [record for record in caplog.records if "cannot reach Kafka" in record.message]
    assert "wrong" not in line.message


def test_a_process_that_just_ends_has_sent_everything(kafka_broker):
    topic = kafka_broker.make_topic()
    code = f"""
        from gapwatch.publisher.trace_publisher import TracePublisher
        publisher = TracePublisher("bot", topic={topic!r})
        for i in range(50):
            publisher.span("a")(lambda: i)()
    """
    address = kafka_broker.address.replace("127.0.0.1", "localhost")  # a name to look up at the very end
    done = run_python(code, GAPWATCH_KAFKA_BROKERS=address)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(read_traces(kafka_broker, topic, 50)) == 50


def test_a_thread_that_outlives_the_main_thread_reaches_a_broker_by_its_host_name(kafka_broker):
    topic = kafka_broker.make_topic()
    code = f"""
        import threading
        from gapwatch.publisher import TracePublisher
        publisher = TracePublisher("bot", topic={topic!r})
        def serve():
            threading.main_thread().join()
            for number in range(10):
                with publisher.trace(f"late-{{number}}"):
                    pass
        threading.Thread(target=serve).start()
    """
    done = run_python(code, GAPWATCH_KAFKA_BROKERS=kafka_broker.address.replace("127.0.0.1", "localhost"))

    assert (done.returncode, done.stderr) == (0, "")
    assert set(read_traces(kafka_broker, topic, 10)) == {f"late-{number}" for number in range(10)}


def test_a_forked_child_sends_its_own_traces_and_only_those(kafka_broker):
    topic = kafka_broker.make_topic()
    code = f"""
        import os
        from gapwatch.publisher.trace_publisher import TracePublisher
        publisher = TracePublisher("bot", topic={topic!r})
        with publisher.trace("parent-before"):
            pass
        child = os.fork()
        if child == 0:
            with publisher.trace("child"):
                pass
            publisher.close()
            os._exit(0 if publisher.counts["sent"] == 1 else 1)
        with publisher.trace("parent-after"):
            pass
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = run_python(code, GAPWATCH_KAFKA_BROKERS=kafka_broker.address)

    assert (done.returncode, done.stderr) == (0, "")
    keys = [record.key for record in kafka_broker.consume(topic, 4, seconds=3)]
    assert sorted(keys) == [b"child", b"parent-after", b"parent-before"]


def test_a_trace_over_the_brokers_limit_is_dropped_and_counted_and_the_next_one_arrives(kafka_broker):
    topic = kafka_broker.make_topic(max_message_bytes="20000")
    with TracePublisher("bot", topic=topic, brokers=kafka_broker.address) as publisher:
        publisher.span("large")(lambda: "x" * 50_000)()
        assert publisher.flush(20)
        with publisher.trace("small"):
            pass
        assert publisher.flush(20)

        assert publisher.counts == {"sent": 1, "too_large": 1, "waiting": 0}
    assert list(read_traces(kafka_broker, topic, 1)) == ["small"]


def test_a_trace_over_the_contracts_limit_is_not_sent(kafka_broker):
    topic = kafka_broker.make_topic()
    with TracePublisher("bot", topic=topic, brokers=kafka_broker.address, max_value_bytes=10**8) as publisher:
        publisher.span("huge")(lambda: "x" * 10_000_001)()
        assert publisher.flush(20)

        assert publisher.counts["too_large"] == 1


def test_with_no_broker_the_pipeline_runs_on_and_drops_are_counted(caplog):
    publisher = TracePublisher("bot", brokers="127.0.0.1:1", max_buffered_traces=100)
    slowest = 0.0
    for _ in range(1000):
        began = time.perf_counter()
        publisher.span("a")(lambda: "x")()
        slowest = max(slowest, time.perf_counter() - began)

    assert publisher.counts == {"sent": 0, "buffer_full": 900, "waiting": 100}
    assert slowest < 0.5  # far below any time-out of a client; the rest is this machine's scheduler
    began = time.perf_counter()
    assert not publisher.close(1.0)
    assert time.perf_counter() - began < 4
    publisher.span("a")(lambda: "x")()
    assert publisher.counts["closed"] == 1
    assert publisher.close() is False
    assert [record.name for record in caplog.records] == ["gapwatch.publisher"] * 3


def test_the_buffer_is_bounded_in_bytes():
    publisher = TracePublisher("bot", brokers="127.0.0.1:1", max_buffered_bytes=100_000)
    for _ in range(20):
        publisher.span("a")(lambda: "x" * 10_000)()

    assert publisher.counts["waiting"] == 9
    publisher.close(0)


@pytest.mark.slow
def test_what_was_traced_while_the_broker_was_away_arrives_when_it_is_back(own_kafka_broker):
    topic = own_kafka_broker.make_topic()
    publisher = TracePublisher("bot", topic=topic, brokers=own_kafka_broker.address)
    with publisher.trace("before"):
        pass
    assert publisher.flush(20)
    own_kafka_broker.kill()
    for i in range(20):
        with publisher.trace(f"away-{i}"):
            pass
    assert not publisher.flush(3)
    own_kafka_broker.start()

    assert publisher.flush(60)
    assert publisher.close()
    assert set(read_traces(own_kafka_broker, topic, 21)) == {"before", *(f"away-{i}" for i in range(20))}


@pytest.mark.slow
def test_an_outage_is_one_log_line_at_its_begin_and_one_at_its_end(own_kafka_broker, caplog):
    topic = own_kafka_broker.make_topic()
    own_kafka_broker.kill()
    publisher = TracePublisher("bot", topic=topic, brokers=own_kafka_broker.address)
    for i in range(20):
        with publisher.trace(f"away-{i}"):
            pass
        publisher.flush(0.2)
    own_kafka_broker.start()

    assert publisher.flush(60)
    assert publisher.close()
    begin, end = [record.message for record in caplog.records if record.name == "gapwatch.publisher"]
    assert begin.startswith(f"cannot reach Kafka at {own_kafka_broker.address}: ")
    assert end.startswith(f"topic {topic!r} at {own_kafka_broker.address} takes traces again, after ")
    assert len(read_traces(own_kafka_broker, topic, 20)) == 20


@pytest.mark.slow
def test_a_topic_that_is_made_late_gets_what_waited(kafka_broker):
    import asyncio

    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    topic = "made-late"
    publisher = TracePublisher("bot", topic=topic, brokers=kafka_broker.address)
    with publisher.trace("early"):
        pass
    assert not publisher.flush(3)

    async def make():
        admin = AIOKafkaAdminClient(**kafka_broker.settings.client_options())
        await admin.start()
        await admin.create_topics([NewTopic(topic, 1, 1)])
        await admin.close()

    asyncio.run(make())
    assert publisher.flush(60)
    publisher.close()
    assert list(read_traces(kafka_broker, topic, 1)) == ["early"]


@pytest.mark.slow
def test_a_frozen_broker_holds_up_neither_spans_nor_the_end(own_kafka_broker):
    topic = own_kafka_broker.make_topic()
    publisher = TracePublisher("bot", topic=topic, brokers=own_kafka_broker.address)
    with publisher.trace():
        pass
    assert publisher.flush(20)
    own_kafka_broker.signal(signal.SIGSTOP)
    began = time.perf_counter()
    for _ in range(100):
        publisher.span("a")(lambda: "x")()
    assert time.perf_counter() - began < 1
    assert not publisher.close(1.0)
    assert time.perf_counter() - began < 6
    own_kafka_broker.signal(signal.SIGCONT)


def test_the_readmes_pipeline_runs_as_it_is_written(kafka_broker):
    section = README.read_text().split("## A pipeline")[1]
    example = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    surroundings = """
import asyncio

DOCUMENTS = ["the refund takes five days", "shipping is free"]

async def call_model(prompt):
    return {
        "model": "small-1-2026", "choices": [{"message": {"content": "Five days."}}],
        "usage": {"prompt_tokens": 21, "completion_tokens": 4},
    }

"""
    calls = """
assert asyncio.run(answer("How long takes the refund?", "s-1")) == "Five days."
assert asyncio.run(answer("Who?", "s-2")) == "I do not know."
"""
    name = make_traces_topic(kafka_broker)
    done = run_python(surroundings + example + calls, GAPWATCH_KAFKA_BROKERS=kafka_broker.address)
    assert (done.returncode, done.stderr) == (0, "")

    traces = {trace["session_id"]: trace for trace in read_traces(kafka_broker, name, 2).values()}
    retriever, router, generator = traces["s-1"]["spans"]
    assert traces["s-1"]["pipeline"] == "support-bot"
    assert retriever["input"] == "How long takes the refund?"
    assert retriever["output"] == ["the refund takes five days"]
    assert router["tier"] == "model"
    assert (generator["output"], generator["model"]) == ("Five days.", "small-1-2026")
    assert generator["usage"] == {"input_tokens": 21, "output_tokens": 4}
    assert [span["component"] for span in traces["s-2"]["spans"]] == ["retriever", "router"]


def make_traces_topic(broker):
    """Make the topic that the example's default names."""
    import asyncio

    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    async def make():
        admin = AIOKafkaAdminClient(**broker.settings.client_options())
        await admin.start()
        await admin.create_topics([NewTopic("traces", 1, 1)])
        await admin.close()

    asyncio.run(make())
    return "traces"
