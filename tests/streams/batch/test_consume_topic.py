"""`gapwatch consume` against a real broker."""

import json
import subprocess
import sys
import threading
import time

import pytest

from gapwatch.streams.otlp.files.span_file import read_span_file
from tests.gapwatch_command import gapwatch
from tests.streams.batch.test_publish_files import lines
from tests.streams.otlp import captures

pytestmark = pytest.mark.kafka


def consume(broker, topic, *options):
    return gapwatch("consume", "--brokers", broker.address, "--topic", topic, *options)


def traces_of(ran):
    return [json.loads(line)["trace_id"] for line in ran.out.splitlines()]


@pytest.fixture(scope="module")
def topic(kafka_broker):
    """Two partitions, ten traces in each."""
    name = kafka_broker.make_topic(partitions=2)
    values = lines(0, 20).splitlines()
    for number in (0, 1):
        kafka_broker.produce(name, values[10 * number : 10 * number + 10], partition=number)
    return name


def test_all_values_are_lines_that_can_be_replayed(kafka_broker, topic):
    ran = consume(kafka_broker, topic)

    assert (ran.status, ran.err) == (0, "")
    assert sorted(ran.out.splitlines()) == sorted(lines(0, 20).decode().splitlines())


def test_a_limit_a_partition_and_a_start_choose_a_part(kafka_broker, topic):
    assert len(traces_of(consume(kafka_broker, topic, "--limit", 7))) == 7
    assert traces_of(consume(kafka_broker, topic, "--partition", 1)) == [f"t{n}" for n in range(10, 20)]
    assert traces_of(consume(kafka_broker, topic, "--partition", 0, "--limit", 2)) == ["t0", "t1"]
    assert traces_of(consume(kafka_broker, topic, "--from", "1h", "--partition", 0)) == [f"t{n}" for n in range(10)]
    assert traces_of(consume(kafka_broker, topic, "--from", "2100-01-01")) == []
    assert len(traces_of(consume(kafka_broker, topic, "--from", "0001-01-01"))) == 20
    assert traces_of(consume(kafka_broker, topic, "--from", "latest")) == []


def test_what_is_no_json_is_named_and_skipped_and_the_status_says_so(kafka_broker):
    name = kafka_broker.make_topic()
    kafka_broker.produce(name, [b'{"trace_id": "a"}', b"\xff\xfe", b"not json", b'{\r\n  "trace_id":\n "b c"}'])

    ran = consume(kafka_broker, name)

    assert (ran.status, ran.out) == (1, '{"trace_id": "a"}\n{    "trace_id":  "b c"}\n')
    first, second, last = ran.err.splitlines()
    assert first == "skipped partition 0, offset 1: not UTF-8 (byte 0)"
    assert second.startswith("skipped partition 0, offset 2: not JSON (")
    assert last == f"gapwatch: 2 records of topic {name} are no JSON in UTF-8 and were skipped"


def test_a_partition_or_topic_that_is_missing_is_named_with_those_there_are(kafka_broker, topic):
    ran = consume(kafka_broker, topic, "--partition", 2)
    assert (ran.status, ran.err) == (
        2,
        f"gapwatch: topic {topic!r} has no partition 2; its partitions are 0 to 1\n",
    )
    ran = consume(kafka_broker, "nowhere")
    assert ran.status == 2
    assert "topic 'nowhere' does not exist at" in ran.err


def test_a_reader_that_goes_away_ends_it_quietly(kafka_broker):
    name = kafka_broker.make_topic()
    kafka_broker.produce(name, lines(0, 2).splitlines()[:1] * 5_000)
    code = "import sys; from gapwatch.scorers.command_line import run; sys.exit(run())"
    command = [sys.executable, "-c", code, "consume", "--brokers", kafka_broker.address, "--topic", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline().startswith(b'{"trace_id": "t0"')
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 1


def test_following_prints_what_comes_later(kafka_broker):
    name = kafka_broker.make_topic()
    kafka_broker.produce(name, lines(0, 1).splitlines())

    def later():
        time.sleep(0.5)  # not awaited for: whether it comes before or after the end is reached, it must be printed
        kafka_broker.produce(name, lines(1, 2).splitlines())

    thread = threading.Thread(target=later)
    thread.start()
    ran = consume(kafka_broker, name, "--follow", "--limit", 2)
    thread.join(60)

    assert traces_of(ran) == ["t0", "t1"]


def test_records_of_a_collector_come_out_as_a_file_of_spans(kafka_broker, tmp_path):
    name, file = kafka_broker.make_topic(partitions=2), tmp_path / "spans.jsonl"
    records = list(read_span_file(str(captures.FOLDER / "kafka" / "otlp_spans.jsonl.gz")))
    for number in (0, 1):
        kafka_broker.produce(name, [one.body for one in records[number::2]], number, compression_type="zstd")

    ran = consume(kafka_broker, name, "--encode")

    assert (ran.status, ran.err) == (0, "")
    file.write_text(ran.out)
    assert sorted(one.body for one in read_span_file(str(file))) == sorted(one.body for one in records)
    shown = gapwatch("spans", str(file))
    assert shown.status == 0
    assert "generate" in shown.out
