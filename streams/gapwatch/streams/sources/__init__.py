"""Slices in order from Kafka and from files, with their offsets."""
