"""Slices from a real broker: all of them, once, in order, whatever is done to the process or the broker.

Each test runs the source in a process of its own, with a sink that keeps a slice a line: what counts is what the files
say afterwards.
"""

import base64
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid

import pytest

from tests.streams.run_process import produce_transactions
from tests.streams.slice_files import read_lines

pytestmark = pytest.mark.kafka


class Reader:
    """The process under test."""

    def __init__(self, folder, broker, topic, **options):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        names = ("brokers", "security_protocol", "username", "password", "ca_file")
        kafka = {name: value for name in names if (value := getattr(broker.settings, name))}
        self.options = {"topic": topic, "group": f"group-{uuid.uuid4().hex[:8]}", "kafka": kafka, **options}
        self.process = None
        self.errors = folder / "stderr"

    def start(self, **options):
        arguments = [
            sys.executable,
            "-m",
            "tests.streams.file_sink",
            str(self.folder),
            json.dumps(self.options | options),
        ]
        (self.folder / "state").unlink(missing_ok=True)
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(arguments, stderr=errors)
        return self

    def end(self, seconds=20.0):
        """Ask it to end; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def run_to_the_end(self, seconds=60.0):
        self.start(until_caught_up=True)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"not caught up after {seconds} s: {self.state()}\n{self.said()}") from None

    def state(self):
        try:
            return json.loads((self.folder / "state").read_text())
        except FileNotFoundError:
            return ["not started", "", {}]

    def known(self, when):
        """Where reading began and one past the last known record, by partition, at the first slice or at the end."""
        known = json.loads((self.folder / f"known_at_{when}").read_text())
        return {int(partition): tuple(ends) for partition, ends in known.items()}

    def said(self):
        return self.errors.read_text()

    def slices(self, partition=0):
        return read_lines(self.folder / f"{partition}.jsonl")

    def values(self, partition=0):
        decode = base64.b64decode
        return [None if value is None else decode(value) for line in self.slices(partition) for value in line["values"]]

    def wait_for(self, condition, seconds=40.0):
        end = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.said()}"
            assert time.monotonic() < end, f"in vain; state {self.state()}\n{self.said()}"
            time.sleep(0.05)

    def wait_for_records(self, count, partition=0, seconds=40.0):
        self.wait_for(lambda: len(self.values(partition)) >= count, seconds)

    def assert_tiled(self, partition=0):
        slices = self.slices(partition)
        for before, after in itertools.pairwise(slices):
            assert before["to"] == after["from"]
        for line in slices:
            assert line["from"] < line["to"]
            assert line["offsets"] == sorted(set(line["offsets"]))
            assert all(line["from"] <= offset < line["to"] for offset in line["offsets"])


@pytest.fixture
def make_reader(tmp_path):
    readers = []

    def make(*args, name="sink", **options):
        readers.append(Reader(tmp_path / name, *args, **options))
        return readers[-1]

    yield make
    for reader in readers:
        if reader.process is not None and reader.process.poll() is None:
            reader.process.send_signal(signal.SIGCONT)
            reader.kill()


def numbered(first, last):
    return [b"%d" % n for n in range(first, last)]


class TestWhatIsRead:
    def test_all_partitions_are_read_once_in_order_in_slices(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic(partitions=3)
        for partition in range(3):
            kafka_broker.produce(topic, numbered(0, 5000), partition=partition)
        reader = make_reader(kafka_broker, topic)

        assert reader.run_to_the_end() == 0, reader.said()
        for partition in range(3):
            assert reader.values(partition) == numbered(0, 5000)
            reader.assert_tiled(partition)
            assert len(reader.slices(partition)) < 50

    def test_what_there_is_to_read_is_known_before_it_is_fetched(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic(partitions=3)
        for partition in range(2):
            kafka_broker.produce(topic, numbered(0, 700), partition=partition)
        reader = make_reader(kafka_broker, topic, app={"max_records": 200})

        assert reader.run_to_the_end() == 0, reader.said()
        assert reader.known("first") == {0: (0, 700), 1: (0, 700), 2: (0, 0)}
        assert reader.known("last") == reader.known("first")

    def test_a_second_run_goes_on_where_the_store_ends(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 100))
        reader = make_reader(kafka_broker, topic)
        assert reader.run_to_the_end() == 0
        kafka_broker.produce(topic, numbered(100, 200))

        assert reader.run_to_the_end() == 0
        assert reader.values() == numbered(0, 200)

    def test_the_stores_offsets_win_over_the_groups(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 100))
        reader = make_reader(kafka_broker, topic)
        assert reader.run_to_the_end() == 0
        first, *_ = reader.slices()
        (reader.folder / "0.jsonl").write_text("")

        (reader.folder / "0.jsonl").write_text(json.dumps({**first, "to": 40, "values": first["values"][:40]}) + "\n")
        assert reader.run_to_the_end() == 0
        assert reader.values() == numbered(0, 100)

    def test_without_a_store_the_group_says_where_to_go_on(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 100))
        reader = make_reader(kafka_broker, topic, stored=False)
        assert reader.run_to_the_end() == 0
        kafka_broker.produce(topic, numbered(100, 150))

        assert reader.run_to_the_end() == 0
        assert reader.values() == numbered(0, 150)

    def test_empty_values_and_times(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        before = time.time()
        kafka_broker.produce(topic, [b"a", None, b""])
        reader = make_reader(kafka_broker, topic)

        assert reader.run_to_the_end() == 0
        assert reader.values() == [b"a", None, b""]
        times = [at for line in reader.slices() for at in line["timestamps"]]
        assert all(before - 1 < at < time.time() + 1 for at in times)

    @pytest.mark.slow
    @pytest.mark.parametrize("compression", ["gzip", "lz4", "snappy", "zstd"])
    def test_compressed(self, kafka_broker, make_reader, compression):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 3000), compression_type=compression)
        reader = make_reader(kafka_broker, topic)

        assert reader.run_to_the_end() == 0
        assert reader.values() == numbered(0, 3000)

    def test_a_record_of_5_mb_among_small_ones(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic(max_message_bytes="10500000")
        values = [b"small", os.urandom(5_000_000), b"small again"]
        kafka_broker.produce(topic, values)
        reader = make_reader(kafka_broker, topic)

        assert reader.run_to_the_end() == 0
        assert reader.values() == values

    def test_aborted_transactions_leave_no_record_and_no_hole(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        expected = produce_transactions(kafka_broker, topic, 40)
        reader = make_reader(kafka_broker, topic)

        assert reader.run_to_the_end() == 0
        assert reader.values() == expected
        reader.assert_tiled()
        assert reader.known("last") == {0: (0, reader.slices()[-1]["to"])}

    def test_a_topic_that_ends_in_aborted_transactions_is_caught_up(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        produce_transactions(kafka_broker, topic, 1, commit=lambda n: False)
        reader = make_reader(kafka_broker, topic)

        assert reader.run_to_the_end() == 0
        assert reader.values() == []
        assert reader.known("last") == {0: (0, 0)}

    def test_by_login_and_tls(self, secured_kafka_broker, make_reader):
        topic = secured_kafka_broker.make_topic()
        secured_kafka_broker.produce(topic, numbered(0, 10))
        reader = make_reader(secured_kafka_broker, topic)

        assert reader.run_to_the_end() == 0, reader.said()
        assert reader.values() == numbered(0, 10)


class TestRefusedToStart:
    def test_a_missing_topic(self, kafka_broker, make_reader):
        reader = make_reader(kafka_broker, "no-such-topic")

        assert reader.run_to_the_end() == 2
        assert "topic 'no-such-topic' does not exist at" in reader.said()
        assert "--create --topic no-such-topic" in reader.said()

    def test_a_wrong_password(self, secured_kafka_broker, make_reader):
        topic = secured_kafka_broker.make_topic()
        reader = make_reader(secured_kafka_broker, topic)
        reader.options["kafka"]["password"] = "wrong"

        assert reader.run_to_the_end() == 2
        assert "refuses the login" in reader.said()

    def test_a_certificate_that_nobody_vouches_for(self, secured_kafka_broker, make_reader):
        topic = secured_kafka_broker.make_topic()
        reader = make_reader(secured_kafka_broker, topic)
        del reader.options["kafka"]["ca_file"]

        assert reader.run_to_the_end() == 2
        assert "is not trusted" in reader.said()
        assert "--ca-file" in reader.said()

    def test_a_store_that_is_ahead_of_the_topic(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 10))
        reader = make_reader(kafka_broker, topic)
        (reader.folder / "0.jsonl").write_text('{"from": 0, "to": 500, "values": [], "offsets": []}\n')

        assert reader.run_to_the_end() == 2
        assert "continues at offset 500, but the topic ends at 10" in reader.said()

    def test_a_group_that_another_store_has_written_to(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 10))
        first = make_reader(kafka_broker, topic, store_id="one")
        assert first.run_to_the_end() == 0
        second = make_reader(kafka_broker, topic, name="other", store_id="two", group=first.options["group"])

        assert second.run_to_the_end() == 2
        assert "belongs to another store ('one'; this is 'two')" in second.said()
        assert second.values() == []


@pytest.mark.slow
class TestRetention:
    def test_what_was_deleted_before_it_was_read_is_said_and_counted(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 100))
        reader = make_reader(kafka_broker, topic)
        assert reader.run_to_the_end() == 0
        kafka_broker.produce(topic, numbered(100, 200))
        delete_before(kafka_broker, topic, 150)

        assert reader.run_to_the_end() == 0
        assert reader.values() == numbered(0, 100) + numbered(150, 200)
        reader.assert_tiled()
        assert sum(line["lost"] for line in reader.slices()) == 50
        assert "deleted 50 records from offset 100 on" in reader.said()


class TestKills:
    @pytest.mark.slow
    def test_killed_at_random_nothing_is_lost_and_nothing_comes_twice(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic(partitions=2)
        reader = make_reader(kafka_broker, topic, slow=0.02, app={"max_records": 50, "session_seconds": 6.0})
        chance = random.Random(7)
        for round_number in range(10):
            for partition in range(2):
                kafka_broker.produce(
                    topic, numbered(1000 * round_number, 1000 * round_number + 1000), partition=partition
                )
            reader.options["app"]["instance"] = "one"  # a restart takes its place in the group at once
            reader.start()
            reader.wait_for_records(len(reader.values()) + chance.randrange(1, 600))
            reader.kill()

        assert reader.run_to_the_end() == 0
        for partition in range(2):
            assert reader.values(partition) == numbered(0, 10_000)
            reader.assert_tiled(partition)

    def test_stopped_it_ends_within_its_deadline_and_has_stored_what_was_in_work(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 2000))
        reader = make_reader(kafka_broker, topic, slow=0.3, app={"max_records": 50}).start()
        reader.wait_for_records(200)
        began = time.monotonic()

        assert reader.end() == 0, reader.said()
        assert time.monotonic() - began < 8
        reader.assert_tiled()
        assert reader.run_to_the_end(60) == 0
        assert reader.values() == numbered(0, 2000)

    def test_a_function_that_raises_ends_the_process_and_acknowledges_nothing_of_it(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 1000))
        reader = make_reader(kafka_broker, topic, app={"max_records": 100}, stored=False, fail_at=4, in_work=1)

        assert reader.run_to_the_end() == 1
        assert "the disk is full" in reader.said()
        assert reader.values() == numbered(0, 300)
        del reader.options["fail_at"]
        assert reader.run_to_the_end() == 0
        assert reader.values() == numbered(0, 1000)

    def test_with_two_in_work_a_failure_lets_no_later_slice_through(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 2000))
        reader = make_reader(kafka_broker, topic, app={"max_records": 100}, fail_at=5, slow=0.05)

        assert reader.run_to_the_end() == 1
        reader.assert_tiled()
        del reader.options["fail_at"]
        assert reader.run_to_the_end() == 0
        assert reader.values() == numbered(0, 2000)

    @pytest.mark.slow
    def test_frozen_past_its_session_it_goes_on_without_loss_or_repetition(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 500))
        reader = make_reader(kafka_broker, topic, app={"session_seconds": 6.0}).start()
        reader.wait_for_records(500)
        reader.process.send_signal(signal.SIGSTOP)
        kafka_broker.produce(topic, numbered(500, 1000))
        time.sleep(14)
        reader.process.send_signal(signal.SIGCONT)

        reader.wait_for_records(1000, seconds=60)
        kafka_broker.produce(topic, numbered(1000, 1500))
        reader.wait_for_records(1500)
        assert reader.end() == 0, reader.said()
        assert reader.values() == numbered(0, 1500)
        reader.assert_tiled()


@pytest.mark.slow
class TestStalls:
    def test_a_blocked_loop_ends_the_process_within_15_s(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 10))
        reader = make_reader(kafka_broker, topic, block_at=1).start()
        reader.wait_for(lambda: reader.state()[0] == "running")
        began = time.monotonic()

        assert reader.process.wait(30) == 1
        assert time.monotonic() - began < 15
        assert "event loop: no progress" in reader.said()
        assert "time.sleep(3600)" in reader.said() or "file_sink.py" in reader.said()

    def test_a_slice_that_takes_for_ever_ends_the_process(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 10))
        reader = make_reader(kafka_broker, topic, hang_at=1, stall={"slice": 3.0}).start()

        assert reader.process.wait(40) == 1
        assert "slice from 0 of partition 0: no progress" in reader.said()

    def test_records_that_nobody_fetches_end_the_process(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, numbered(0, 10))
        reader = make_reader(kafka_broker, topic, pause=True, stall={"fetch": 4.0}).start()
        reader.wait_for_records(10)
        time.sleep(6)
        assert reader.process.poll() is None  # nothing to fetch is no stall
        kafka_broker.produce(topic, numbered(10, 20))

        assert reader.process.wait(40) == 1
        assert "fetch of partition 0: no progress" in reader.said()

    def test_a_rebalance_that_does_not_end_ends_the_process(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic(partitions=2)
        kafka_broker.produce(topic, numbered(0, 10), partition=0)
        reader = make_reader(kafka_broker, topic, hang_at=1, stall={"rebalance": 4.0}).start()
        reader.wait_for(lambda: reader.state()[0] == "running" and reader.state()[2].get("0", [0, 0])[1] == 10)
        make_reader(kafka_broker, topic, name="other", group=reader.options["group"]).start()

        assert reader.process.wait(60) == 1
        assert "rebalance: no progress" in reader.said()

    def test_stopped_before_there_is_a_broker_it_ends_at_once(self, own_kafka_broker, make_reader):
        topic = own_kafka_broker.make_topic()
        own_kafka_broker.stop()
        reader = make_reader(own_kafka_broker, topic).start()
        reader.wait_for(lambda: reader.state()[1] != "")
        began = time.monotonic()

        assert reader.end() == 0
        assert time.monotonic() - began < 5


@pytest.mark.slow
class TestTheBroker:
    def test_started_before_the_broker_it_waits_and_says_so(self, own_kafka_broker, make_reader):
        topic = own_kafka_broker.make_topic()
        own_kafka_broker.produce(topic, numbered(0, 10))
        own_kafka_broker.stop()
        reader = make_reader(own_kafka_broker, topic).start()
        reader.wait_for(lambda: reader.state()[0] == "connecting" and "no answer from Kafka" in reader.state()[1])
        own_kafka_broker.start()

        reader.wait_for_records(10, seconds=60)
        assert reader.end() == 0

    def test_restarted_killed_and_away_it_is_waited_for(self, own_kafka_broker, make_reader):
        topic = own_kafka_broker.make_topic()
        reader = make_reader(own_kafka_broker, topic).start()
        sent = 0
        for away in (0, 0, 25):
            own_kafka_broker.produce(topic, numbered(sent, sent + 500))
            sent += 500
            reader.wait_for_records(sent, seconds=90)
            if away:
                own_kafka_broker.kill()
            else:
                own_kafka_broker.stop()
            time.sleep(away)
            own_kafka_broker.start()
        own_kafka_broker.produce(topic, numbered(sent, sent + 500))

        reader.wait_for_records(sent + 500, seconds=90)
        assert reader.values() == numbered(0, sent + 500)
        reader.assert_tiled()
        assert len(reader.said().splitlines()) < 200
        assert reader.end() == 0

    def test_stopped_while_the_broker_is_away_it_ends_within_10_s(self, own_kafka_broker, make_reader):
        topic = own_kafka_broker.make_topic()
        own_kafka_broker.produce(topic, numbered(0, 10))
        reader = make_reader(own_kafka_broker, topic).start()
        reader.wait_for_records(10)
        own_kafka_broker.kill()
        time.sleep(2)
        began = time.monotonic()

        assert reader.end() == 0
        assert time.monotonic() - began < 10
        own_kafka_broker.start()
        assert reader.run_to_the_end() == 0
        assert reader.values() == numbered(0, 10)


@pytest.mark.slow
class TestASecondProcess:
    def test_partitions_change_hands_without_loss_or_repetition(self, kafka_broker, make_reader):
        """Both write into one folder, as two processes over one store would if it let them."""
        topic = kafka_broker.make_topic(partitions=4)
        first = make_reader(kafka_broker, topic, slow=0.02, app={"max_records": 20}).start()
        for partition in range(4):
            kafka_broker.produce(topic, numbered(0, 1500), partition=partition)
        first.wait_for_records(100)
        second = make_reader(kafka_broker, topic, slow=0.02, app={"max_records": 20}, group=first.options["group"])
        second.folder = first.folder
        second.start()
        time.sleep(4)
        assert second.end() == 0
        for partition in range(4):
            first.wait_for_records(1500, partition, seconds=60)

        assert first.end() == 0, first.said()
        for partition in range(4):
            assert first.values(partition) == numbered(0, 1500)
            first.assert_tiled(partition)

    def test_with_a_store_of_its_own_it_is_refused_and_the_first_goes_on(self, kafka_broker, make_reader):
        topic = kafka_broker.make_topic(partitions=2)
        first = make_reader(kafka_broker, topic, store_id="one").start()
        for partition in range(2):
            kafka_broker.produce(topic, numbered(0, 100), partition=partition)
        for partition in range(2):
            first.wait_for_records(100, partition)
        time.sleep(2)  # for the group's offsets to be committed
        second = make_reader(kafka_broker, topic, name="other", store_id="two", group=first.options["group"])

        assert second.start().process.wait(40) == 2
        assert "belongs to another store" in second.said()
        for partition in range(2):
            kafka_broker.produce(topic, numbered(100, 200), partition=partition)
            first.wait_for_records(200, partition, seconds=60)
            assert first.values(partition) == numbered(0, 200)
            assert second.values(partition) == []
        assert first.end() == 0


def delete_before(broker, topic, offset):
    """Delete the first records of a topic, as its retention would."""
    import asyncio

    from aiokafka import TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

    async def delete():
        admin = AIOKafkaAdminClient(**broker.settings.client_options())
        await admin.start()
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=offset)})
        await admin.close()

    asyncio.run(delete())
