"""Reads Kafka topics and files as slices: consecutive records of one partition, with their offsets."""
