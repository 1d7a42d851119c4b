"""A real Apache Kafka for tests: one broker for a whole session, shared by all its processes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gapwatch.publisher.kafka_settings import KafkaSettings
from tests.paths import ROOT

SCRIPT = ROOT / "deploy" / "kafka" / "broker"


class KafkaBroker:
    """A broker in a folder of its own, driven by `deploy/kafka/broker` as a person would."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.state: dict[str, Any] = {}

    # --- its life

    def start(self) -> KafkaBroker:
        done = self._script("start", "--json", *self.options)
        assert done.returncode == 0, done.stderr
        self.state = json.loads(done.stdout)
        return self

    def stop(self, *options: str) -> None:
        assert self._script("stop", *options).returncode == 0

    def kill(self) -> None:
        """End it as a lost machine would."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        os.kill(self.state["pid"], number)

    def _script(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        arguments = [sys.executable, str(SCRIPT), command, "--folder", str(self.folder), *options]
        return subprocess.run(arguments, capture_output=True, text=True, check=False)

    # --- what clients need

    @property
    def address(self) -> str:
        return str(self.state["brokers"])

    @property
    def settings(self) -> KafkaSettings:
        secret = self.state["password_file"]
        return KafkaSettings(
            self.address,
            security_protocol=self.state["security_protocol"],
            username=self.state["username"] or "",
            password=Path(secret).read_text() if secret else "",
            ca_file=self.state["ca_file"] or "",
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make `gapwatch` find it."""
        settings = self.settings
        names = ("brokers", "security_protocol", "username", "password", "ca_file")
        return {f"GAPWATCH_KAFKA_{name.upper()}": value for name in names if (value := getattr(settings, name))}

    # --- shortcuts for tests

    def make_topic(self, partitions: int = 1, **config: str) -> str:
        """Make a topic that no other test uses and return its name."""
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        name = f"test-{uuid.uuid4().hex[:12]}"
        topic_config = {key.replace("_", "."): value for key, value in config.items()}

        async def create() -> None:
            admin = AIOKafkaAdminClient(**self.settings.client_options())
            await admin.start()
            try:
                answer = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=topic_config)])
                assert all(error[1] == 0 for error in answer.topic_errors), answer
            finally:
                await admin.close()

        asyncio.run(create())
        return name

    def produce(self, topic: str, values: Iterable[bytes | None], partition: int | None = None, **options: Any) -> None:
        """Send values in order; `options` are those of aiokafka's producer."""
        from aiokafka import AIOKafkaProducer

        async def send() -> None:
            producer = AIOKafkaProducer(**self.settings.client_options(), max_request_size=12_000_000, **options)
            await producer.start()
            try:
                pending = []
                for value in values:
                    key = b"deleted" if value is None else None  # a record must have one of both
                    pending.append(await producer.send(topic, value, key=key, partition=partition))
                await asyncio.gather(*pending)
            finally:
                await producer.stop()

        asyncio.run(send())

    def consume(self, topic: str, count: int, seconds: float = 20.0) -> list[Any]:
        """Return the first `count` records of a topic, from all partitions; fewer if they do not come in time."""
        from aiokafka import AIOKafkaConsumer

        async def read() -> list[Any]:
            options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            consumer = AIOKafkaConsumer(topic, **self.settings.client_options(), **options)
            await consumer.start()
            records: list[Any] = []
            end = asyncio.get_running_loop().time() + seconds
            try:
                while len(records) < count and asyncio.get_running_loop().time() < end:
                    for batch in (await consumer.getmany(timeout_ms=300)).values():
                        records += batch
            finally:
                await consumer.stop()
            return records

        return asyncio.run(read())

    def everything(self, topic: str) -> list[Any]:
        """Return the committed records of a topic up to its end, without waiting for more."""
        from aiokafka import AIOKafkaConsumer

        async def read() -> list[Any]:
            options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            consumer = AIOKafkaConsumer(topic, **self.settings.client_options(), **options)
            await consumer.start()
            records: list[Any] = []
            try:
                ends = await consumer.end_offsets(consumer.assignment())
                for partition, end in ends.items():
                    while await consumer.position(partition) < end:
                        records += (await consumer.getmany(partition, timeout_ms=300)).get(partition, [])
            finally:
                await consumer.stop()
            return records

        return asyncio.run(read())


@contextmanager
def running_broker(folder: Path, *options: str) -> Iterator[KafkaBroker]:
    """A broker that is there for a while and leaves nothing."""
    broker = KafkaBroker(folder, *options).start()
    try:
        yield broker
    finally:
        broker.stop("--purge")


def _skip_without_java() -> None:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no `{tool}` here, which a real Kafka broker needs")


@contextmanager
def _one_of_several(folder: Path, change: int) -> Iterator[int]:
    """Count, across processes, who uses what lies in a folder; the lock is held while the caller acts."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "users").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        users = int(file.read() or 0) + change
        yield users
        file.truncate(0)
        file.write(str(users))


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """The broker of this test session; under xdist all workers share one, and the last to leave stops it."""
    _skip_without_java()
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "kafka"
    broker = KafkaBroker(home / "broker")
    with _one_of_several(home, +1):
        broker.start()  # finds it running where another process was first
    yield broker
    with _one_of_several(home, -1) as left:
        if left == 0:
            broker.stop("--purge")


@pytest.fixture
def own_kafka_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that this test may stop, kill and freeze."""
    _skip_without_java()
    with running_broker(tmp_path / "own-broker") as broker:
        yield broker


@pytest.fixture(scope="session")
def secured_kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that asks for a login and speaks TLS."""
    _skip_without_java()
    with running_broker(tmp_path_factory.mktemp("secured") / "broker", "--sasl", "--tls") as broker:
        yield broker
