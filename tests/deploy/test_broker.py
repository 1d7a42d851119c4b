"""The broker script does what its help says: idempotent, clean, and clear when something is missing."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka_broker import SCRIPT, KafkaBroker


def run_script(*arguments, **environment):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )


@pytest.mark.kafka
class TestARunningBroker:
    def test_a_second_start_finds_the_first(self, kafka_broker):
        again = run_script("start", "--json", "--folder", kafka_broker.folder)

        assert json.loads(again.stdout)["pid"] == kafka_broker.state["pid"]

    def test_other_options_are_refused(self, kafka_broker):
        other = run_script("start", "--tls", "--folder", kafka_broker.folder)

        assert other.returncode == 1
        assert "stop it first" in other.stderr

    def test_status_says_where_it_listens(self, kafka_broker):
        status = run_script("status", "--folder", kafka_broker.folder)

        assert status.returncode == 0
        assert kafka_broker.address in status.stdout

    @pytest.mark.slow  # five starts of a JVM
    def test_topics_are_made_once_listed_and_deleted(self, kafka_broker):
        where = ("--folder", kafka_broker.folder)
        assert run_script("topic", *where, "a-topic", "--partitions", 3).returncode == 0
        assert run_script("topic", *where, "a-topic").returncode == 0

        assert "a-topic" in run_script("topic", *where).stdout.split()
        assert run_script("topic", *where, "a-topic", "--delete").returncode == 0
        assert "a-topic" not in run_script("topic", *where).stdout.split()

    def test_an_option_that_kafka_does_not_know_is_one_sentence(self, kafka_broker):
        wrong = run_script("topic", "--folder", kafka_broker.folder, "a-topic", "--colour", "red")

        assert wrong.returncode == 2
        assert wrong.stdout == ""
        assert len(wrong.stderr.splitlines()) == 1
        assert "colour is not a recognized option" in wrong.stderr

    def test_what_was_sent_is_read(self, kafka_broker):
        topic = kafka_broker.make_topic()
        kafka_broker.produce(topic, [b"a", b"b"])

        assert [record.value for record in kafka_broker.consume(topic, 2)] == [b"a", b"b"]


@pytest.mark.kafka
@pytest.mark.slow
class TestItsLife:
    def test_topics_survive_a_restart_at_the_same_port(self, own_kafka_broker):
        topic = own_kafka_broker.make_topic()
        own_kafka_broker.produce(topic, [b"kept"])
        before = own_kafka_broker.address
        own_kafka_broker.stop()
        assert run_script("status", "--folder", own_kafka_broker.folder).returncode == 1

        own_kafka_broker.start()

        assert own_kafka_broker.address == before
        assert [record.value for record in own_kafka_broker.consume(topic, 1)] == [b"kept"]

    def test_a_killed_broker_starts_again_and_purge_leaves_nothing(self, tmp_path):
        broker = KafkaBroker(tmp_path / "own" / "broker").start()
        broker.kill()
        first = broker.state["pid"]

        broker.start()

        assert broker.state["pid"] != first
        broker.stop("--purge")
        assert list((tmp_path / "own").iterdir()) == []

    def test_sasl_and_tls_serve_who_can_log_in(self, secured_kafka_broker):
        topic = secured_kafka_broker.make_topic()
        secured_kafka_broker.produce(topic, [b"secret"])

        assert [record.value for record in secured_kafka_broker.consume(topic, 1)] == [b"secret"]
        assert topic in run_script("topic", "--folder", secured_kafka_broker.folder).stdout.split()

    def test_secrets_are_readable_by_their_owner_alone(self, secured_kafka_broker):
        for name in ("password", "server.pem", "server.properties", "client.properties", "state.json"):
            assert (secured_kafka_broker.folder / name).stat().st_mode & 0o077 == 0, name


class TestWhatIsMissing:
    def test_a_topic_has_no_port(self, tmp_path):
        wrong = run_script("topic", "a-topic", "--port", 9092, "--folder", tmp_path / "b")

        assert wrong.returncode == 2
        assert wrong.stderr.startswith("broker: topic: a topic has no --port; it is made in the broker of --name")
        assert len(wrong.stderr.splitlines()) == 1

    def path_with(self, folder: Path, *tools: str) -> str:
        folder.mkdir()
        for tool in tools:
            (folder / tool).symlink_to(shutil.which(tool))
        return str(folder)

    def test_no_java(self, tmp_path):
        done = run_script("start", "--folder", tmp_path / "b", PATH=self.path_with(tmp_path / "bin"), JAVA_HOME="")

        assert done.returncode == 1
        assert "install a Java 17" in done.stderr

    def test_an_old_java(self, tmp_path):
        path = self.path_with(tmp_path / "bin", "sh")
        java = Path(path) / "java"
        java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
        java.chmod(0o755)

        done = run_script("start", "--folder", tmp_path / "b", PATH=path, JAVA_HOME="")

        assert done.returncode == 1
        assert "11.0.2" in done.stderr
        assert "Java 17 or newer" in done.stderr

    @pytest.mark.skipif(shutil.which("java") is None, reason="needs java")
    def test_no_maven(self, tmp_path):
        path = self.path_with(tmp_path / "bin", "java")
        done = run_script("start", "--folder", tmp_path / "b", PATH=path, XDG_CACHE_HOME=str(tmp_path / "cache"))

        assert done.returncode == 1
        assert "install Maven" in done.stderr

    @pytest.mark.skipif(shutil.which("java") is None or shutil.which("mvn") is None, reason="needs java and Maven")
    @pytest.mark.kafka
    def test_a_port_in_use(self, tmp_path, kafka_broker):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = run_script("start", "--folder", tmp_path / "b", "--port", port)

        assert done.returncode == 1
        assert f"port {port}" in done.stderr
        assert "--port" in done.stderr

    def test_stopping_what_does_not_run_is_no_error(self, tmp_path):
        done = run_script("stop", "--folder", tmp_path / "none")

        assert (done.returncode, done.stdout) == (0, "was not running\n")
        assert not (tmp_path / "none").exists()
