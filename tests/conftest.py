"""Fixtures that several folders share."""

from tests.kafka_broker import kafka_broker, own_kafka_broker, secured_kafka_broker

__all__ = ["kafka_broker", "own_kafka_broker", "secured_kafka_broker"]
