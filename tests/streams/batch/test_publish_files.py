"""`gapwatch publish` against a real broker."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import zstandard

pytestmark = pytest.mark.kafka


def gapwatch(*arguments, stdin=None, **environment):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GAPWATCH_")}
    code = "import sys; from gapwatch.scorers.command_line import run; sys.exit(run())"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        input=stdin,
        env={**clean, **environment},
        timeout=60,
    )


def lines(first, last):
    return b"".join(
        json.dumps({"trace_id": f"t{n}", "pipeline": "p", "spans": []}).encode() + b"\n" for n in range(first, last)
    )


def test_files_of_all_kinds_arrive_in_order_keyed_by_their_trace_id(kafka_broker, tmp_path):
    topic = kafka_broker.make_topic()
    (tmp_path / "a.jsonl").write_bytes(lines(0, 3))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines(3, 6)))
    (tmp_path / "c.jsonl.zst").write_bytes(zstandard.compress(lines(6, 9)))
    files = sorted(tmp_path.iterdir())

    done = gapwatch("publish", *files, "-", "--brokers", kafka_broker.address, "--topic", topic, stdin=lines(9, 12))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        f"published 12 records (0.0 MB) to topic {topic} at {kafka_broker.address} in ".encode()
    )
    records = kafka_broker.consume(topic, 12)
    assert [record.key.decode() for record in records] == [f"t{n}" for n in range(12)]
    assert b"\n".join(record.value for record in records) + b"\n" == lines(0, 12)


def test_what_is_no_trace_is_sent_without_a_key_and_counted(kafka_broker):
    topic = kafka_broker.make_topic()
    data = b'not json\n\n[1]\n{"trace_id": null}\n{"trace_id": 17}\n'
    done = gapwatch("publish", "-", "--brokers", kafka_broker.address, "--topic", topic, stdin=data)

    assert done.returncode == 0
    assert b"3 of them without a trace id" in done.stdout
    assert [record.key for record in kafka_broker.consume(topic, 4)] == [None, None, None, b"17"]


def test_a_rate_is_kept(kafka_broker):
    topic = kafka_broker.make_topic()
    options = ("--brokers", kafka_broker.address, "--topic", topic, "--rate", "50/s", "--quiet")
    began = time.monotonic()
    done = gapwatch("publish", "-", *options, stdin=lines(0, 101))

    assert (done.returncode, done.stdout) == (0, b"")
    assert time.monotonic() - began > 2.0
    stamps = [record.timestamp for record in kafka_broker.consume(topic, 101)]
    assert 1_800 < stamps[-1] - stamps[0] < 5_000


@pytest.mark.slow
def test_login_and_tls_come_from_flags_or_the_environment(secured_kafka_broker):
    topic = secured_kafka_broker.make_topic()
    state = secured_kafka_broker.state
    flags = ("--brokers", state["brokers"], "--username", state["username"], "--ca-file", state["ca_file"])
    by_flags = gapwatch(
        "publish", "-", *flags, "--password-file", state["password_file"], "--topic", topic, stdin=lines(0, 1)
    )
    by_environment = gapwatch("publish", "-", "--topic", topic, stdin=lines(1, 2), **secured_kafka_broker.environment)

    assert (by_flags.returncode, by_environment.returncode) == (0, 0), by_flags.stderr + by_environment.stderr
    assert len(secured_kafka_broker.consume(topic, 2)) == 2


def test_interrupted_it_says_what_was_sent(kafka_broker, tmp_path):
    topic = kafka_broker.make_topic()
    (tmp_path / "a").write_bytes(lines(0, 10_000))
    code = "import sys; from gapwatch.scorers.command_line import run; sys.exit(run())"
    options = ["--brokers", kafka_broker.address, "--topic", topic, "--rate", "100/s"]
    command = [sys.executable, "-c", code, "publish", str(tmp_path / "a"), *options]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert kafka_broker.consume(topic, 20)
    running.send_signal(signal.SIGINT)
    said, complained = running.communicate(timeout=30)

    assert running.returncode == 1
    sent = int(re.match(rb"published (\d+) records", said)[1])
    assert 20 <= sent < 10_000
    assert len(kafka_broker.consume(topic, sent, seconds=5)) == sent
    assert b"interrupted" in complained


class TestRefused:
    def test_a_missing_topic(self, kafka_broker):
        done = gapwatch("publish", "-", "--brokers", kafka_broker.address, "--topic", "nowhere", stdin=lines(0, 1))

        assert done.returncode == 2
        assert b"topic 'nowhere' does not exist at" in done.stderr

    def test_a_missing_file_before_anything_is_sent(self, kafka_broker, tmp_path):
        topic = kafka_broker.make_topic()
        (tmp_path / "a").write_bytes(lines(0, 1))
        done = gapwatch("publish", tmp_path / "a", tmp_path / "b", "--brokers", kafka_broker.address, "--topic", topic)

        assert done.returncode == 2
        assert b"b" in done.stderr
        assert kafka_broker.consume(topic, 1, seconds=1) == []

    @pytest.mark.slow
    def test_no_broker(self):
        done = gapwatch("publish", "-", "--brokers", "127.0.0.1:1", stdin=lines(0, 1))

        assert done.returncode == 1
        assert b"no answer from Kafka at 127.0.0.1:1" in done.stderr

    def test_no_brokers_given(self):
        done = gapwatch("publish", "-", stdin=lines(0, 1))

        assert done.returncode == 2
        assert b"--brokers" in done.stderr

    def test_a_certificate_that_cannot_be_read_is_one_line_and_status_2(self, tmp_path):
        (tmp_path / "ca.pem").write_text("no certificate")
        options = ("--brokers", "127.0.0.1:1", "--ca-file", tmp_path / "ca.pem")
        done = gapwatch("publish", "-", *options, stdin=lines(0, 1))

        assert done.returncode == 2
        assert done.stderr.strip().startswith(b"gapwatch: the certificates cannot be read")
        assert done.stderr.strip().count(b"\n") == 0

    @pytest.mark.parametrize("rate", ["0", "-1", "fast", "5/m"])
    def test_a_rate_that_is_none(self, rate):
        done = gapwatch("publish", "-", "--brokers", "b:1", f"--rate={rate}", stdin=b"")

        assert done.returncode == 2
        assert b"500/s" in done.stderr

    def test_records_over_the_brokers_limit_are_counted_and_the_rest_is_sent(self, kafka_broker):
        topic = kafka_broker.make_topic(max_message_bytes="500000")
        large = json.dumps({"trace_id": "large", "x": "y" * 600_000}).encode() + b"\n"
        options = ("--brokers", kafka_broker.address, "--topic", topic)
        done = gapwatch("publish", "-", *options, stdin=lines(0, 3) + large + lines(3, 6))

        assert done.returncode == 1
        assert b"1 records were not published: they are larger" in done.stderr
        assert len(kafka_broker.consume(topic, 6)) == 6
