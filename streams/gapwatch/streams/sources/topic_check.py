"""Waits for a Kafka cluster and checks that a topic exists, before anything is started.

Faust does the opposite: it starts silently without a topic, and ends at once without a broker.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from gapwatch.publisher.back_off import BackOff
from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.streams.sources.broker_outage import OUTAGE

#: Most seconds of one attempt. A frozen broker accepts connections and does not answer.
ATTEMPT_SECONDS = 10.0
#: Seconds to wait for the broker's first answer where a person waits for a command.
PATIENCE_SECONDS = 15.0


async def wait_for_topic(
    kafka: KafkaSettings, topic: str, on_waiting: Callable[[str], None] = lambda _why: None
) -> int:
    """Return the number of the topic's partitions; retries until a broker answers.

    Args:
        kafka: The cluster.
        topic: Topic that must exist.
        on_waiting: Called with the reason before each wait.

    Raises:
        UsageError: The cluster has no such topic, or refuses the login.
    """
    back_off = BackOff()
    while True:
        try:
            return await asyncio.wait_for(_count_partitions(kafka, topic), ATTEMPT_SECONDS)
        except (KafkaError, OSError, TimeoutError) as error:
            if (refusal := await _refusal(kafka)) is not None:
                raise UsageError(refusal) from error
            why = f"no answer from Kafka at {kafka.brokers}: {_words(error)}"
            OUTAGE.note(why)
            on_waiting(why)
        await back_off.wait()


def _words(error: Exception) -> str:
    if isinstance(error, KafkaConnectionError):
        return "no broker accepts a connection"
    return str(error) or type(error).__name__


async def require_topic(kafka: KafkaSettings, topic: str) -> int:
    """Return the number of the topic's partitions; gives up after `PATIENCE_SECONDS`.

    Args:
        kafka: The cluster.
        topic: Topic that must exist.

    Raises:
        UsageError: The cluster has no such topic, or refuses the login.
        JobError: No broker answers.
    """
    waiting_for: list[str] = []
    try:
        return await asyncio.wait_for(wait_for_topic(kafka, topic, waiting_for.append), PATIENCE_SECONDS)
    except TimeoutError as error:
        why = waiting_for[-1] if waiting_for else f"no answer from Kafka at {kafka.brokers}"
        raise JobError(f"{why}; is the broker running, and is this its address?") from error


async def _count_partitions(kafka: KafkaSettings, topic: str) -> int:
    client = AIOKafkaAdminClient(**kafka.client_options(), request_timeout_ms=int(ATTEMPT_SECONDS * 1000))
    try:
        await client.start()
        topics = await client.list_topics()
        if topic not in topics:
            others = ", ".join(sorted(name for name in topics if not name.startswith("_"))[:10]) or "none"
            raise UsageError(
                f"topic {topic!r} does not exist at {kafka.brokers} (topics there: {others}); create it: "
                f"deploy/kafka/broker topic {topic} where the broker is that of deploy/kafka, elsewhere for example "
                f"kafka-topics.sh --create --topic {topic} --partitions 4 --bootstrap-server {kafka.addresses[0]}"
            )
        (description,) = await client.describe_topics([topic])
        return len(description["partitions"])
    finally:
        await client.close()


async def _refusal(kafka: KafkaSettings) -> str | None:
    """Return why retrying is useless: a refused login or certificate. aiokafka reports these as a lost connection."""
    options = kafka.client_options()
    host, _, port = options.pop("bootstrap_servers")[0].rpartition(":")
    try:
        connection = await create_conn(host, int(port), request_timeout_ms=int(ATTEMPT_SECONDS * 1000), **options)
    except (
        *(AuthenticationFailedError, AuthenticationMethodNotSupported),
        *(SaslAuthenticationFailed, UnsupportedSaslMechanismError),
    ) as error:
        return (
            f"{kafka.brokers} refuses the login of user {kafka.username!r} ({kafka.security_protocol}, "
            f"{kafka.sasl_mechanism}): {error}; check user name, password and mechanism"
        )
    except ssl.SSLCertVerificationError as error:
        return (
            f"the certificate of {kafka.brokers} is not trusted: {error.verify_message}; give its certificate "
            f"authority with --ca-file"
        )
    except (KafkaError, OSError, TimeoutError):
        return None
    connection.close()
    return None
