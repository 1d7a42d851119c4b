"""Life of `gapwatch receive`: receivers in front of Kafka, until a signal."""

from __future__ import annotations

import logging
import signal
import threading
import time
from dataclasses import dataclass

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.version import program_version
from gapwatch.streams.otlp.receiving.http_receiver import HttpReceiver, OtlpAddress
from gapwatch.streams.otlp.receiving.kafka_intake import IntakeTopics, KafkaIntake
from gapwatch.streams.sources.broker_outage import OUTAGE

log = logging.getLogger("gapwatch.otlp")

#: Seconds in which requests under way are answered, and what waits is sent.
STOP_SECONDS = 9.0
_LOOK_SECONDS, _PROGRESS_SECONDS = 1.0, 60.0


@dataclass(frozen=True)
class ReceiveAddresses:
    """Addresses of the receivers.

    Attributes:
        http: Address of the HTTP receiver.
        grpc: Address of the gRPC receiver; None: there is none.
    """

    http: OtlpAddress
    grpc: OtlpAddress | None = None


def receive(kafka: KafkaSettings, topics: IntakeTopics, addresses: ReceiveAddresses) -> bool:
    """Receive until SIGTERM or Ctrl-C; return whether everything was sent.

    Raises:
        UsageError: A receiver cannot listen on its address.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    intake = KafkaIntake(kafka, topics)
    http = HttpReceiver(addresses.http, intake)
    http.start()
    grpc = None
    if addresses.grpc is not None:
        from gapwatch.streams.otlp.receiving.grpc_receiver import GrpcReceiver  # the extra otlp-grpc

        grpc = GrpcReceiver(addresses.grpc, intake)
        grpc.start()
    intake.start()
    log.info(
        "gapwatch %s receives OTLP at %s%s and writes topic %s at %s, key: trace id%s\n  type next  "
        "OTEL_EXPORTER_OTLP_ENDPOINT=%s in the program that is to be watched",
        program_version(), http.url, f" and, over gRPC, at {grpc.address}" if grpc is not None else "",
        topics.spans, kafka.brokers, f"; log records: topic {topics.logs}" if topics.logs else "; no log records",
        http.url,
    )  # fmt: skip
    told_at = time.monotonic()
    while not stopping.wait(_LOOK_SECONDS):
        OUTAGE.look(is_connected=not intake.waiting_for)
        if time.monotonic() - told_at >= _PROGRESS_SECONDS:
            told_at = time.monotonic()
            log.debug("%s", _progress(intake))
    end = time.monotonic() + STOP_SECONDS
    is_clean = http.stop(STOP_SECONDS / 2)
    is_clean = (grpc is None or grpc.stop(STOP_SECONDS / 2)) and is_clean
    is_clean = intake.stop(max(0.5, end - time.monotonic())) and is_clean
    log.info("%s", _progress(intake))
    return is_clean


def _progress(intake: KafkaIntake) -> str:
    requests = ", ".join(f"{n:,} {signal} {outcome}" for (signal, outcome), n in sorted(intake.requests.items()))
    items = ", ".join(
        f"{n:,} {item.replace('_', ' ')}s {state}" for (item, state), n in sorted(intake.items.items()) if n
    )
    return f"requests: {requests or 'none'}; {items or 'no spans'}"
