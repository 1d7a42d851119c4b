"""One Kafka node on this machine: its settings, its folder, its process."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from certificates import make_certificates
from jars import BrokerError, class_archive, ensure_jars, find_java

HOST = "127.0.0.1"
USER = "gapwatch"

#: Seconds until a start counts as failed. A cold disk takes 10; less would refuse a slow machine.
START_SECONDS = 60.0
#: Seconds that a stop waits for a clean shutdown before it kills.
STOP_SECONDS = 20.0

LOGGING = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}} %m%n
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.started.name = kafka.server.KafkaRaftServer
logger.started.level = info
"""


class TopicError(BrokerError):
    """Kafka's topic command refused its arguments, or failed."""


def _first_reason(said: str) -> str:
    """Return the reason in what Kafka's topic command printed, without its stack trace."""
    for line in said.splitlines():
        for mark in ("Error while executing topic command : ", "OptionException: ", "Exception: "):
            if mark in line:
                return line.partition(mark)[2].strip()
    return next((line.strip() for line in said.splitlines() if line.strip()), "Kafka's topic command failed")


@dataclass(frozen=True)
class NodeOptions:
    """Options of a node.

    Attributes:
        port: Of the listener for clients, on 127.0.0.1; 0 takes a free one.
        sasl: Clients log in by SCRAM-SHA-256 (or -512) as `gapwatch`.
        tls: Clients speak TLS; `ca.pem` in the node's folder is the authority to trust.
        heap_megabytes: Of the Java process.
    """

    port: int = 0
    sasl: bool = False
    tls: bool = False
    heap_megabytes: int = 512

    @property
    def protocol(self) -> str:
        """Kafka's word for what is spoken with clients."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")


class Node:
    """A node in one folder; the folder's `state.json` says which process it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # --- questions

    def state(self) -> dict[str, Any] | None:
        """Return what a client needs to know of the running node, or None where none runs."""
        try:
            state: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return state if _is_alive(state["pid"], state["process_started"]) else None

    # --- commands

    def start(self, options: NodeOptions) -> dict[str, Any]:
        """Start the node, or find it running; return its state.

        Raises:
            BrokerError: It runs with other options, its port is taken, or it did not come up.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._lock():
            if (running := self.state()) is not None:
                _refuse_other_options(running, options)
                return running
            java, class_path = find_java(), ensure_jars()
            port = self._choose_port(options.port)
            options = NodeOptions(port, options.sasl, options.tls, options.heap_megabytes)
            if options.tls:
                make_certificates(self.folder)
            password = self._password() if options.sasl else None
            self._write_settings(options, password)
            self._format(java, class_path, password)
            return self._launch(java, class_path, options, password)

    def stop(self, purge: bool = False) -> bool:
        """Stop the node and, with `purge`, delete its folder; return whether one was running."""
        if not self.folder.is_dir():
            return False
        with self._lock():
            state = self.state()
            if state is not None:
                _end_process(state["pid"], state["process_started"])
                if (written := self.folder / "classes.jsa").is_file():
                    shutil.move(written, class_archive(find_java(), ensure_jars()))
            (self.folder / "state.json").unlink(missing_ok=True)
            if purge:
                shutil.rmtree(self.folder)
                self._lock_file.unlink()
        return state is not None

    def topic(self, arguments: list[str]) -> int:
        """Run Kafka's own topic command against the node and return its exit status.

        Raises:
            BrokerError: The node does not run.
        """
        state = self.state()
        if state is None:
            raise BrokerError(f"no broker runs in {self.folder}; start it with: {_this_script()} start")
        client = self.folder / "client.properties"
        command = [find_java(), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", ensure_jars()]
        command += ["-Dlog4j2.level=ERROR", "org.apache.kafka.tools.TopicCommand"]
        command += ["--bootstrap-server", state["brokers"], "--command-config", str(client), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        sys.stdout.write(done.stdout if done.returncode == 0 else "")
        if done.returncode:
            raise TopicError(_first_reason(done.stdout + done.stderr))
        return 0

    # --- steps

    @property
    def _lock_file(self) -> Path:
        return self.folder.with_name(self.folder.name + ".lock")

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with self._lock_file.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _choose_port(self, asked: int) -> int:
        if asked:
            if not _is_free(asked):
                raise BrokerError(
                    f"port {asked} of {HOST} is in use; stop what holds it, or choose another with --port (0: any)"
                )
            return asked
        last = self.folder / "port"
        # A stopped node comes back where its clients look for it, if that can be.
        if last.is_file() and _is_free(port := int(last.read_text())):
            return port
        return _free_port()

    def _password(self) -> str:
        file = self.folder / "password"
        if not file.is_file():
            password = os.environ.get("GAPWATCH_KAFKA_PASSWORD") or secrets.token_urlsafe(18)
            _write_private(file, password)
        return file.read_text()

    def _write_settings(self, options: NodeOptions, password: str | None) -> None:
        (self.folder / "port").write_text(str(options.port))
        controller = _free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listeners": f"CLIENT://{HOST}:{options.port},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"CLIENT://{HOST}:{options.port}",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,CLIENT:{options.protocol}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": "false",
            # One node: nothing to replicate to, and one partition each starts faster than fifty.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            # The default waits 3 s for more consumers before a group starts.
            "group.initial.rebalance.delay.ms": 0,
            # What an envelope may have by contract, with room for its frame.
            "message.max.bytes": 10_500_000,
            "replica.fetch.max.bytes": 10_500_000,
            "log.cleaner.dedupe.buffer.size": 2 << 20,
            "num.network.threads": 2,
            "num.io.threads": 4,
        }
        client: dict[str, Any] = {"security.protocol": options.protocol}
        if options.tls:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self.folder / "server.pem",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.folder / "ca.pem",
            }
            client |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.folder / "ca.pem"}
        if password is not None:
            login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
            login += f' username="{USER}" password="{password}";'
            settings |= {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
                "listener.name.client.scram-sha-256.sasl.jaas.config": login,
                "listener.name.client.scram-sha-512.sasl.jaas.config": login,
            }
            client |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login}
        _write_private(self.folder / "server.properties", _properties(settings))
        _write_private(self.folder / "client.properties", _properties(client))
        (self.folder / "log4j2.properties").write_text(LOGGING.format(log=self.folder / "broker.log"))

    def _format(self, java: str, class_path: str, password: str | None) -> None:
        if (self.folder / "data" / "meta.properties").is_file():
            return
        arguments = ["format", "--ignore-formatted", "-t", _cluster_id(), "-c", str(self.folder / "server.properties")]
        if password is not None:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                arguments += ["--add-scram", f"{mechanism}=[name={USER},password={password}]"]
        # Through a file: what stands on a command line can be read by every user of the machine.
        file = self.folder / "format.arguments"
        _write_private(file, "\n".join(arguments))
        try:
            command = [java, "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=ERROR", "-cp", class_path]
            command += ["kafka.tools.StorageTool", f"@{file}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        finally:
            file.unlink()
        if done.returncode:
            raise BrokerError(
                f"the folder {self.folder / 'data'} could not be formatted:\n{done.stdout}{done.stderr}".rstrip()
            )

    def _launch(self, java: str, class_path: str, options: NodeOptions, password: str | None) -> dict[str, Any]:
        heap = f"{options.heap_megabytes}m"
        command = [
            java,
            f"-Xms{heap}",
            f"-Xmx{heap}",
            "-XX:+UseG1GC",
            "-XX:MaxGCPauseMillis=20",
            "-Djava.awt.headless=true",
        ]
        command += [f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}", "-cp", class_path]
        # Loaded and checked classes from an earlier run halve the CPU time of a start.
        archive = class_archive(java, class_path)
        if archive.is_file():
            command.insert(1, f"-XX:SharedArchiveFile={archive}")
        else:
            command.insert(1, f"-XX:ArchiveClassesAtExit={self.folder / 'classes.jsa'}")
        command += ["kafka.Kafka", str(self.folder / "server.properties")]
        with (self.folder / "broker.out").open("wb") as out:
            # A session of its own: it outlives the terminal, and Ctrl-C there does not reach it.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        state = {
            "brokers": f"{HOST}:{options.port}",
            "pid": process.pid,
            "process_started": _process_started(process.pid),
            "folder": str(self.folder),
            "options": asdict(options),
            "security_protocol": options.protocol,
            "sasl_mechanism": "SCRAM-SHA-256" if options.sasl else None,
            "username": USER if options.sasl else None,
            "password_file": str(self.folder / "password") if password is not None else None,
            "ca_file": str(self.folder / "ca.pem") if options.tls else None,
        }
        # Before it is ready: a start that is interrupted leaves a process that `stop` can find.
        _write_private(self.folder / "state.json", json.dumps(state, indent=1))
        deadline = time.monotonic() + START_SECONDS
        while not _answers(options.port):
            if process.poll() is not None or time.monotonic() > deadline:
                if process.poll() is None:
                    process.kill()
                process.wait()
                (self.folder / "state.json").unlink()
                raise BrokerError(f"the broker did not come up; its last words:\n{self._last_words()}")
            time.sleep(0.05)
        return state

    def _last_words(self) -> str:
        lines: list[str] = []
        for name in ("broker.log", "broker.out"):
            if (file := self.folder / name).is_file():
                lines += file.read_text(errors="replace").splitlines()[-8:]
        return "\n".join(lines) or "none"


def _refuse_other_options(running: dict[str, Any], asked: NodeOptions) -> None:
    has = NodeOptions(**running["options"])
    same_port = asked.port in (0, has.port)
    if not same_port or (has.sasl, has.tls) != (asked.sasl, asked.tls):
        raise BrokerError(
            f"a broker with other options runs at {running['brokers']} ({running['security_protocol']}); "
            f"stop it first, or give this one another --name"
        )


def _properties(settings: dict[str, Any]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _write_private(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)  # an older file could be readable by others
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)


def _cluster_id() -> str:
    import base64

    while (text := base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass  # the argument parser would take it for an option
    return text


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Kafka does; else a restart waits a minute
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def _process_started(pid: int) -> str:
    """Return what tells this process from a later one of the same number: its start, in clock ticks since boot."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text.rsplit(")", 1)[1].split()[19]


def _is_alive(pid: int, started: str) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    fields = text.rsplit(")", 1)[1].split()
    return fields[0] != "Z" and fields[19] == started


def _end_process(pid: int, started: str) -> None:
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + seconds
        if _is_alive(pid, started):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # a stopped process would not hear it
        while _is_alive(pid, started) and time.monotonic() < deadline:
            time.sleep(0.05)


def _this_script() -> str:
    return str(Path(__file__).with_name("broker"))
