"""`gapwatch run` on a real broker, in processes of its own: what it keeps, what it sends, what it refuses."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import orjson
import pytest

from gapwatch.sinks.api.endpoint_note import read_note
from tests.gapwatch_command import gapwatch
from tests.paths import ROOT
from tests.streams.run_process import (
    commit_offsets,
    make_relayed_topics,
    portfolio,
    produce_transactions,
    relayed,
    trace,
    traces,
)

pytestmark = pytest.mark.kafka


class TestWhatIsKept:
    def test_each_record_goes_to_the_portfolio_of_its_pipeline_and_all_is_counted(self, broker, watch):
        topic = broker.make_topic(partitions=2)
        broker.produce(topic, traces(0, 2000), partition=0)
        broker.produce(topic, [trace(n, "search") for n in range(300)], partition=1)
        broker.produce(topic, [trace(n, "stranger") for n in range(40)], partition=1)
        watched = watch(broker, topic, [portfolio("support"), portfolio("search")])

        summary = watched.catch_up()
        assert (summary["records"], summary["read"], summary["dead_letters"], summary["foreign"]) == (2340, 2297, 3, 40)
        assert summary["ledger_imbalance"] == 0
        assert summary["outcomes"]["parses"]["fail"] == sum(
            n % 7 == 0 for n in [*(n for n in range(2000) if n % 501 != 500), *range(300)]
        )
        assert summary["rows"] == watched.query("SELECT count(*) FROM gaps")[0][0]
        assert watched.offsets() == {0: 2000, 1: 340}

        again = watched.catch_up()
        assert (again["records"], again["rows"], again["duplicates"]) == (0, 0, 0)

    def test_the_rows_are_those_of_a_replay(self, broker, watch, tmp_path):
        topic = broker.make_topic()
        values = traces(0, 1500)
        broker.produce(topic, values)
        watched = watch(broker, topic)
        summary = watched.catch_up()
        file = tmp_path / "traces.jsonl"
        file.write_bytes(b"\n".join(values) + b"\n")
        store = tmp_path / "replayed.duckdb"
        replayed = gapwatch("replay", file, "--portfolio", watched.portfolios[0], "--store", store, "--json", "--quiet")

        told = replayed.json()
        same = ("records", "read", "dead_letters", "spans", "outcomes", "rows")
        assert {name: told[name] for name in same} == {name: summary[name] for name in same}
        rows = "SELECT * EXCLUDE (seq, kept_at, lane, source_topic) FROM gaps ORDER BY ALL"
        as_json = gapwatch("history", "--store", store, "--format", "json", rows).json()
        assert gapwatch("history", "--store", watched.store, "--format", "json", rows).json() == as_json
        assert len(as_json) == summary["rows"] > 200

    def test_compressed_large_and_of_transactions(self, broker, watch):
        topic = broker.make_topic(max_message_bytes="10500000")
        for kind in ("gzip", "lz4", "snappy", "zstd"):
            broker.produce(topic, [trace(n) for n in range(200)], compression_type=kind)
        broker.produce(topic, [trace(201, attributes={"large": "x" * 5_000_000})])
        # Values that are numbers: dead letters, 25 for each of the transactions that were committed.
        committed = len(produce_transactions(broker, topic, 6))
        watched = watch(broker, topic)

        summary = watched.catch_up()
        assert (summary["read"], summary["dead_letters"]) == (801, committed)
        assert summary["ledger_imbalance"] == 0


class TestTheOutbox:
    def test_dead_letters_and_judge_requests_reach_their_topics_under_their_ids(self, broker, watch):
        topic = broker.make_topic()
        broker.produce(topic, [*traces(0, 1000), b"\xff" * 950_000])
        watched = watch(broker, topic)
        watched.catch_up()

        rows = dict(watched.query("SELECT topic, list(id ORDER BY id) FROM internal.outbox GROUP BY topic"))
        letters, requests = relayed(broker, "dead-letters"), relayed(broker, "judge-requests")
        mine = {id_: records for id_, records in letters.items() if dict(records[0].headers)["topic"] == topic.encode()}
        assert sorted(mine) == rows["dead-letters"] and len(mine) == 2
        by_offset = {dict(records[0].headers)["offset"]: records[0] for records in mine.values()}
        assert by_offset[b"500"].value == b"no trace 500"
        assert dict(by_offset[b"500"].headers)["cause"] == b"not_json"
        assert orjson.loads(by_offset[b"1000"].value)["size"] == 950_000
        assert dict(by_offset[b"1000"].headers)["value"] == b"digest"

        asked = {id_: orjson.loads(records[0].value) for id_, records in requests.items()}
        own = {id_: request for id_, request in asked.items() if request["source_topic"] == topic}
        assert sorted(own) == rows["judge-requests"]
        assert all(len(requests[id_]) == 1 and requests[id_][0].key.decode() == own[id_]["trace_id"] for id_ in own)
        assert len(own) == watched.query("SELECT sum(n) FROM ledger WHERE state = 'pending'")[0][0] > 5

    @pytest.mark.slow
    def test_without_its_topics_it_waits_in_the_store_and_scoring_goes_on(self, own_kafka_broker, watch):
        topic = own_kafka_broker.make_topic()
        own_kafka_broker.produce(topic, traces(0, 600))
        watched = watch(own_kafka_broker, topic)

        assert watched.catch_up()["read"] == 599
        assert "topics that do not exist: judge-requests, dead-letters" in watched.said()
        assert watched.query("SELECT count(*) FROM internal.relayed") == [(0,)]
        make_relayed_topics(own_kafka_broker)
        watched.catch_up()
        waiting = watched.query("SELECT count(*) FROM internal.outbox")[0][0]
        sent = [*relayed(own_kafka_broker, "dead-letters"), *relayed(own_kafka_broker, "judge-requests")]
        assert len(sent) == waiting > 1


class TestRefused:
    def test_a_missing_topic(self, broker, watch):
        watched = watch(broker, "no-such-topic")

        assert watched.start().wait() == 2
        assert "topic 'no-such-topic' does not exist at" in watched.said()
        assert "deploy/kafka/broker topic no-such-topic" in watched.said()
        assert not watched.store.exists()

    def test_a_bad_portfolio_before_anything_is_made(self, broker, watch):
        watched = watch(broker, "no-such-topic", ["gapwatch: 1\nportfolio: x\n"])

        assert watched.start().wait() == 2
        assert "portfolio-0.yaml" in watched.said()
        assert not watched.store.exists()

    def test_two_portfolios_of_one_pipeline(self, broker, watch):
        watched = watch(broker, "no-such-topic", [portfolio(), portfolio(version=2)])

        assert watched.start().wait() == 2
        assert "two portfolios claim the pipeline 'support'" in watched.said()

    @pytest.mark.slow
    def test_a_second_process_on_the_store_and_one_with_a_store_of_its_own(self, broker, watch):
        topic = broker.make_topic(partitions=2)
        broker.produce(topic, traces(0, 100), partition=0)
        first = watch(broker, topic)
        first.catch_up()
        first.start()
        first.commit_after(lambda: broker.produce(topic, traces(100, 200), partition=0))
        on_the_store = watch(broker, topic, name="second")
        on_the_store.store = first.store
        assert on_the_store.start().wait() == 2
        assert "is held by another process" in on_the_store.said()

        of_its_own = watch(broker, topic, name="third")
        of_its_own.group = first.group
        arguments = [a for a in of_its_own.arguments("run") if a != "--instance=one"]
        assert of_its_own.start(arguments=arguments).wait() == 2
        assert "belongs to another store" in of_its_own.said()
        assert "Crashed reason" not in of_its_own.said()
        assert not of_its_own.store.exists()

        for partition in range(2):
            broker.produce(topic, traces(200, 300), partition=partition)
        assert first.end() == 0
        assert first.catch_up()["ledger_imbalance"] == 0
        assert first.offsets() == {0: 300, 1: 100}


class TestANewPortfolio:
    def test_it_holds_from_an_offset_on_and_a_bad_one_is_refused(self, broker, watch):
        topic = broker.make_topic(partitions=2)
        watched = watch(broker, topic)
        for partition in range(2):
            broker.produce(topic, traces(0, 500), partition=partition)
        watched.catch_up()
        watched.start()
        watched.wait_until_reading()

        watched.portfolios[0].write_text(portfolio(version=2, longest=0))
        watched.wait_until(lambda: "portfolio support version 2" in watched.said())
        for partition in range(2):
            watched.commit_after(lambda p=partition: broker.produce(topic, traces(500, 1000), partition=p))
        watched.portfolios[0].write_text(portfolio(version="three"))
        watched.signal(signal.SIGHUP)
        watched.wait_until(lambda: "the changed portfolio is refused, the old version stays in force" in watched.said())
        assert "version: a whole number is expected" in watched.said()
        watched.commit_after(lambda: broker.produce(topic, traces(1000, 1100), partition=0))
        assert watched.end() == 0
        watched.portfolios[0].write_text(portfolio(version=2, longest=0))
        watched.catch_up()

        steps = watched.query(
            """SELECT source_partition, from_offset, version FROM policies JOIN portfolios USING (portfolio_sha)
                GROUP BY ALL ORDER BY ALL"""
        )
        assert steps == [(0, 0, 1), (0, 500, 2), (1, 0, 1), (1, 500, 2)]
        failing = watched.query(
            "SELECT min(source_offset), count(*) FROM gaps WHERE metric = 'short' AND source_offset >= 500"
        )
        assert failing == [(501, 1097)]  # all that are no dead letter: with nothing allowed, every answer is too long
        assert watched.query("SELECT count(*) FROM ledger WHERE state = 'dead_letter'")[0][0] >= 2


class TestWhatItServes:
    def test_metrics_health_and_history_while_it_runs(self, broker, watch):
        topic = broker.make_topic()
        watched = watch(broker, topic).start()
        watched.wait_until_reading()
        watched.commit_after(lambda: broker.produce(topic, traces(0, 1000)))
        url = read_note(watched.store).url

        def page(path="/metrics"):
            with urllib.request.urlopen(url + path, timeout=10) as answer:
                return answer.read().decode()

        assert json.loads(page("/readyz"))["status"] == "ready"
        sql = "SELECT sum(n)::BIGINT AS n FROM ledger WHERE state IN ('read', 'dead_letter') AND metric IS NULL"
        asked = ("history", "--store", watched.store, "--format", "json", sql)
        watched.wait_until(lambda: gapwatch(*asked).json() == [{"n": 1000}])
        assert page("/healthz")
        read = [line for line in page().splitlines() if line.startswith("gapwatch_records_total") and "read" in line]
        assert any(line.endswith(" 999.0") for line in read), page()
        assert 'topic="' + topic in page()
        watched.wait_until(lambda: 'gapwatch_outbox_waiting{topic="judge-requests"} 0' in page())
        assert gapwatch("annotate", "deploy v12", "--store", watched.store).status == 0
        assert watched.end() == 0
        assert watched.query('SELECT "text" FROM annotations') == [("deploy v12",)]
        assert read_note(watched.store) is None

    @pytest.mark.slow
    def test_while_the_broker_is_away_it_lives_and_is_not_ready(self, own_kafka_broker, watch):
        topic = own_kafka_broker.make_topic()
        own_kafka_broker.stop()
        watched = watch(own_kafka_broker, topic).start()
        watched.wait_until(lambda: "no answer from Kafka" in watched.said())
        url = read_note(watched.store).url

        def asked(path):
            try:
                with urllib.request.urlopen(url + path, timeout=10) as answer:
                    return answer.status, json.loads(answer.read())
            except urllib.error.HTTPError as refusal:
                with refusal:
                    return refusal.code, json.loads(refusal.read())

        watched.wait_until(lambda: "no answer from Kafka" in str(asked("/readyz")))
        assert asked("/readyz")[0] == 503
        assert asked("/healthz")[0] == 200
        own_kafka_broker.start()
        watched.wait_until(lambda: asked("/readyz")[0] == 200)
        assert asked("/readyz")[1]["broker_answered_seconds_ago"] < 15
        own_kafka_broker.stop()
        watched.wait_until(lambda: asked("/readyz")[0] == 503)
        said = asked("/readyz")[1]
        assert re.fullmatch(r"source: no answer from Kafka for (1[5-9]|2\d) s", said["because"][0]), said
        assert asked("/healthz")[0] == 200
        began = time.monotonic()
        assert watched.end() == 0
        assert time.monotonic() - began < 10


@pytest.mark.slow
def test_offsets_that_a_stranger_commits_neither_refuse_a_start_nor_skip_records(broker, watch):
    topic = broker.make_topic(partitions=3)
    broker.produce(topic, traces(0, 100), partition=0)
    watched = watch(broker, topic, session_seconds=6.0)
    watched.catch_up()
    commit_offsets(broker, watched.group, topic, {1: 30, 2: 10_000})
    for partition in (1, 2):
        broker.produce(topic, traces(100 * partition, 100 * partition + 50), partition=partition)
    told = watched.catch_up()

    assert told["ledger_imbalance"] == 0
    assert watched.offsets() == {0: 100, 1: 50, 2: 50}
    assert "partition 1: the offset 30 of group" in watched.said()
    assert "partition 2: the offset 10000 of group" in watched.said()
    watched.catch_up()
    assert "of group" not in watched.said()


class TestForgetting:
    @pytest.mark.slow
    def test_what_is_old_goes_while_new_slices_come_and_the_ledger_balances(self, broker, watch):
        topic = broker.make_topic(partitions=2)
        broker.produce(topic, traces(0, 3000), partition=0)
        watched = watch(broker, topic, max_records=200)
        watched.catch_up()
        rows = watched.query("SELECT count(*), max(seq) FROM gaps")
        time.sleep(1.1)

        broker.produce(topic, traces(3000, 6000), partition=1)
        watched.start("--keep=1s")
        watched.wait_until(lambda: "deleted the rows of 3000 records" in watched.said())
        watched.commit_after(lambda: broker.produce(topic, traces(6000, 6100), partition=0))
        assert watched.end() == 0, watched.said()
        told = watched.catch_up()

        assert told["ledger_imbalance"] == 0
        assert watched.offsets() == {0: 3100, 1: 3000}
        assert rows[0][0] > 300
        # On a slow machine more than the first records are older than a second by now.
        records, last = watched.query("SELECT sum(records), max(to_seq) FROM retention")[0]
        assert records >= 3000 and last >= rows[0][1]
        assert watched.query(f"SELECT count(*) FROM gaps WHERE seq <= {last}") == [(0,)]
        assert watched.query(f"SELECT count(*) > 0 FROM gaps WHERE seq > {last}") == [(True,)]
        states = "SELECT sum(n)::BIGINT FROM ledger WHERE metric IS NULL AND state IN ('read', 'dead_letter')"
        assert watched.query(states) == [(6100,)]

    def test_a_span_that_is_none_is_refused(self, broker, watch):
        watched = watch(broker, "no-such-topic")

        assert watched.start("--keep=thirty").wait() == 2
        assert "write 30d" in watched.said()


class TestStops:
    def test_asked_to_end_it_commits_what_is_in_work_and_ends_in_time(self, broker, watch):
        topic = broker.make_topic(partitions=2)
        for partition in range(2):
            broker.produce(topic, traces(0, 20_000), partition=partition)
        watched = watch(broker, topic, max_records=200)
        watched.start().commit_after()
        began = time.monotonic()

        assert watched.end() == 0, watched.said()
        assert time.monotonic() - began < 10
        kept = watched.offsets()
        assert 0 < sum(kept.values()) < 40_000
        assert watched.query("SELECT count(*) FROM ledger WHERE state = 'read'")[0][0] > 0
        told = watched.catch_up(max_records=4000)
        assert told["ledger_imbalance"] == 0
        assert told["records"] + sum(kept.values()) == 40_000

    @pytest.mark.slow
    def test_with_the_broker_away_too_and_it_comes_back_to_a_restarted_one(self, own_kafka_broker, watch):
        broker = own_kafka_broker
        make_relayed_topics(broker)
        topic = broker.make_topic()
        watched = watch(broker, topic).start()
        sent = 0
        for how, away in (("kill", 15),):
            watched.commit_after(lambda at=sent: broker.produce(topic, traces(at, at + 500)), 90)
            sent += 500
            getattr(broker, how)()
            time.sleep(away)
            broker.start()
        watched.commit_after(lambda: broker.produce(topic, traces(sent, sent + 500)), 90)
        broker.kill()
        began = time.monotonic()
        assert watched.end() == 0, watched.said()
        assert time.monotonic() - began < 10
        assert len(watched.said().splitlines()) < 300

        broker.start()
        told = watched.catch_up()
        assert told["ledger_imbalance"] == 0
        assert watched.offsets() == {0: sent + 500}
        assert sorted(relayed(broker, "dead-letters")) == [
            id_ for (id_,) in watched.query("SELECT id FROM internal.outbox WHERE topic = 'dead-letters' ORDER BY id")
        ]


def test_its_last_words_are_its_own(broker, watch):
    topic = broker.make_topic()
    broker.produce(topic, traces(0, 100))
    watched = watch(broker, topic)

    # A whole interpreter, to its very end: what libraries hold until then is listed after all else.
    command = [sys.executable, "-m", "gapwatch.scorers.command_line", *watched.arguments("run", "--until-caught-up")]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)

    assert ended.returncode == 0, ended.stderr
    assert [line for line in ended.stderr.splitlines() if "Z " not in line[:22] and line[:2] != "  "] == []


def test_the_help_says_what_there_is():
    out = subprocess.run(
        [sys.executable, "-m", "gapwatch.scorers.command_line", "run", "--help"], capture_output=True, text=True,
        check=True,
        cwd=ROOT,
    ).stdout  # fmt: skip
    for word in ("--until-caught-up", "--group", "SIGHUP", "--thin-rows", "--password-file"):
        assert word in out
