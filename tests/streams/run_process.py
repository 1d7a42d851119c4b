"""`gapwatch run` in processes of its own, for tests, and what its stores hold afterwards."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid

import duckdb
import orjson

from tests.benchmarks.store_contents import contents, differences
from tests.paths import ROOT

PORTFOLIO = """\
gapwatch: 1
portfolio: {name}
version: {version}
pipeline: {name}
components:
  - {{id: answer, role: ai_core, kind: llm}}
edges: []
metrics:
  - name: parses
    component: answer
    claim: {{form: check, field: output, format: json}}
    sample: {{rate: 1.0, keep: {{fail: 1.0, pass: 0.05}}}}
  - name: short
    component: answer
    claim: {{form: check, field: output, length: {{max: {longest}}}}}
  - name: helpful
    component: answer
    claim:
      form: judge
      rubric: {{criterion: helpful, scale: [good, bad], inputs: [input, output], pass_at: good}}
      judges: [{{model: openai/gpt-4.1-mini}}]
    sample: {{rate: 0.02}}
"""


def portfolio(name="support", version=1, longest=40):
    """Return the text of a portfolio: a check that fails now and then, one that fails often, and a judge."""
    return PORTFOLIO.format(name=name, version=version, longest=longest)


def trace(number, pipeline="support", **changes):
    """Return one trace; every seventh does not parse, one in 50 is long."""
    output = "{broken" if number % 7 == 0 else f'{{"n": {number}}}'
    if number % 50 == 1:
        output += " " * 60
    at = 1_774_166_400.0 + number / 20
    span = {
        "span_id": "s0", "component": "answer", "kind": "llm", "started_at": at, "ended_at": at + 1.0,
        "input": f"question {number}", "output": output,
    }  # fmt: skip
    record = {"trace_id": f"t-{number:08d}", "pipeline": pipeline, "started_at": at, "ended_at": at + 1.0}
    return orjson.dumps({**record, "spans": [span], **changes})


def traces(first, last, pipeline="support"):
    """Return traces, with a dead letter for every number that divides by 501."""
    return [b"no trace %d" % n if n % 501 == 500 else trace(n, pipeline) for n in range(first, last)]


class Children:
    """The process that starts all others."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.streams.run_children"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip

    def ask(self, **asked):
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class Watched:
    """One store, its portfolios and its group; runs over it follow one another."""

    def __init__(self, children, folder, broker, topic, portfolios=(), **options):
        folder.mkdir(exist_ok=True)
        self.children, self.folder, self.broker, self.topic = children, folder, broker, topic
        self.options, self.group = options, f"group-{uuid.uuid4().hex[:8]}"
        self.store = folder / "store.duckdb"
        self.portfolios = [folder / f"portfolio-{number}.yaml" for number in range(len(portfolios) or 1)]
        for path, text in zip(self.portfolios, portfolios or [portfolio()], strict=True):
            path.write_text(text)
        self.pid, self._said_before = None, 0

    def arguments(self, command, *more):
        named = [f"--portfolio={path}" for path in self.portfolios] if command == "run" else []
        group = [f"--group={self.group}", "--instance=one", "--listen=127.0.0.1:0"] if command == "run" else []
        where = [f"--brokers={self.broker.address}", f"--topic={self.topic}", f"--store={self.store}"]
        return [command, *where, *group, *named, *map(str, more)]

    def start(self, *more, command="run", **options):
        self._said_before += len(self.said())
        options = {
            "arguments": self.arguments(command, *more),
            "out": str(self.folder / "out"), "err": str(self.folder / "err"), **self.options, **options,
        }  # fmt: skip
        self.pid = self.children.ask(start=options)["pid"]
        return self

    def wait(self, seconds=60.0):
        """Return the exit status; a negative number is the signal that ended it."""
        status = self.children.ask(wait=self.pid, seconds=seconds)["status"]
        if status is None:
            self.kill()
            raise AssertionError(f"it still ran after {seconds} s:\n{self.said()}")
        self.pid = None
        return status

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.children.ask(wait=self.pid, seconds=20.0)
        self.pid = None

    def end(self, seconds=20.0):
        """Ask it to end; return its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def catch_up(self, *more, **options):
        """Run until all is kept; return what it says of that."""
        (self.folder / "out").unlink(missing_ok=True)
        status = self.start("--until-caught-up", "--json", *more, **options).wait(120.0)
        assert status == 0, self.said()
        return json.loads((self.folder / "out").read_text())

    def said(self):
        """Return what it has written on standard error since it was last started."""
        path = self.folder / "err"
        return path.read_text()[self._said_before :] if path.exists() else ""

    def size(self):
        """Bytes of the store and its log: they grow with each commit."""
        paths = (self.store, self.store.with_name("store.duckdb.wal"))
        return tuple(path.stat().st_size if path.exists() else 0 for path in paths)

    def wait_until(self, condition, seconds=60.0):
        end = time.monotonic() + seconds
        while not condition():
            ended = self.pid is not None and self.children.ask(wait=self.pid, seconds=0)["status"]
            assert ended is None or ended is False, f"it ended with {ended}:\n{self.said()}"
            assert time.monotonic() < end, f"in vain:\n{self.said()}"
            time.sleep(0.02)

    def wait_until_reading(self):
        self.wait_until(lambda: "reading partition" in self.said())

    def commit_after(self, action=lambda: None, seconds=60.0):
        """Wait until something is committed that was not before `action`."""
        self.wait_until_reading()
        before = self.size()
        action()
        self.wait_until(lambda: self.size() != before, seconds)

    def query(self, sql):
        with duckdb.connect(str(self.store), read_only=True) as con:
            return con.execute(sql).fetchall()

    def offsets(self):
        """Return how far each partition is kept."""
        rows = self.query("SELECT source_partition, max(to_offset) FROM offsets WHERE lane = 'live' GROUP BY ALL")
        return dict(rows)


def assert_same(one, other):
    """Two stores hold the same rows, ticks, ledger and policies, and both balance."""
    assert differences(contents(one.store), contents(other.store)) == []
    policies = "SELECT DISTINCT * EXCLUDE (recorded_at) FROM policies ORDER BY ALL"
    assert one.query(policies) == other.query(policies)
    outbox = "SELECT id, topic, key, value, headers FROM internal.outbox ORDER BY ALL"
    assert one.query(outbox) == other.query(outbox)


def make_relayed_topics(broker):
    """Make the topics that the outbox goes to, unless they are there."""
    import asyncio

    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    async def create():
        admin = AIOKafkaAdminClient(**broker.settings.client_options())
        await admin.start()
        try:
            names = ("alerts", "judge-requests", "dead-letters", "scored")
            partitions = {"judge-requests": 4}  # for as many judge processes
            topics = [NewTopic(name, partitions.get(name, 1), 1) for name in names]
            await admin.create_topics(topics)  # those that are there stay
        finally:
            await admin.close()

    asyncio.run(create())


def commit_offsets(broker, group, topic, offsets, seconds=60.0):
    """Commit offsets by partition in a consumer group as another program would, once its last member is forgotten."""
    import asyncio

    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.errors import CommitFailedError

    async def commit():
        consumer = AIOKafkaConsumer(**broker.settings.client_options(), group_id=group, enable_auto_commit=False)
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition) for partition in offsets])
        end = time.monotonic() + seconds
        try:
            while True:
                try:
                    named = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
                    return await consumer.commit(named)
                except CommitFailedError:
                    assert time.monotonic() < end
                    await asyncio.sleep(0.5)
        finally:
            await consumer.stop()

    asyncio.run(commit())


def relayed(broker, topic):
    """Return all records of a relayed topic, by their id."""
    import asyncio

    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read():
        consumer = AIOKafkaConsumer(**broker.settings.client_options(), auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.subscribe([topic])
            await consumer.getmany(timeout_ms=0)
            where = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or {0})]
            consumer.unsubscribe()
            consumer.assign(where)
            await consumer.seek_to_beginning()
            ends = await consumer.end_offsets(where)
            found = {}
            for one in where:
                while await consumer.position(one) < ends[one]:
                    for record in (await consumer.getmany(one, timeout_ms=300)).get(one, []):
                        found.setdefault(dict(record.headers)["gapwatch-id"].decode(), []).append(record)
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


def produce_transactions(broker, topic, count, commit=lambda n: n % 3 != 0):
    """Send `count` transactions of 25 records, numbers from 0 on; return the values of the committed ones."""
    from aiokafka import AIOKafkaProducer

    async def send():
        expected = []
        producer = AIOKafkaProducer(**broker.settings.client_options(), transactional_id=f"t-{topic}")
        await producer.start()
        try:
            for n in range(count):
                values = [b"%d" % value for value in range(25 * n, 25 * n + 25)]
                await producer.begin_transaction()
                for value in values:
                    await producer.send(topic, value, partition=0)
                if commit(n):
                    await producer.commit_transaction()
                    expected += values
                else:
                    await producer.flush()
                    await producer.abort_transaction()
        finally:
            await producer.stop()
        return expected

    return asyncio.run(send())


#: Columns that say where a row lies and when it was kept, but not what was found.
_ROWS = "SELECT * EXCLUDE (seq, lane, kept_at) FROM gaps WHERE lane {lane} ORDER BY ALL"
_TICKS = """SELECT * EXCLUDE (seq, lane, n, score_sum, score_sum_squares, histogram), sum(n)
    FROM ticks WHERE lane {lane} GROUP BY ALL ORDER BY ALL"""
_LEDGER = """SELECT source_partition, pipeline, metric, state, sum(n) FROM ledger
    WHERE lane {lane} GROUP BY ALL ORDER BY ALL"""


def found(watched, lane):
    return [watched.query(sql.format(lane=lane)) for sql in (_ROWS, _TICKS, _LEDGER)]
