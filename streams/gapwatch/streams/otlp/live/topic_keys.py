"""Says whether the traces of a topic lie in one partition each, because nobody remembers how a Collector was set up."""

from __future__ import annotations

import logging

from gapwatch.streams.otlp.decoding.raw_items import UndecodableError
from gapwatch.streams.otlp.decoding.splitting import split
from gapwatch.streams.otlp.receiving.intake import OtlpRequest

log = logging.getLogger("gapwatch.otlp")

#: Records that are looked at.
_RECORDS = 1_000


class TopicKeys:
    """Looks at the first records of a topic.

    Args:
        topic: Name of the topic.

    Attributes:
        is_known: True once it is known, and was said.
    """

    def __init__(self, topic: str) -> None:
        self._topic, self.is_known = topic, False
        self._partitions: dict[bytes, int] = {}
        self._records = 0

    def look(self, partition: int, request: OtlpRequest) -> None:
        """Look at a record."""
        self._records += 1
        try:
            spans = split(request.body, is_json=request.is_json, is_logs=False).spans
        except UndecodableError:
            return
        for span in spans:
            if self._partitions.setdefault(span.trace_id, partition) != partition:
                self._say("has parts of one trace in several partitions: it is not keyed by trace")
                return
        if self._records >= _RECORDS:
            self._say(f"has each trace in one partition, in its first {_RECORDS} records: it is keyed by trace")

    def conclude(self) -> None:
        """Say what the records so far show, at the end of the reading."""
        if not self.is_known and self._records > 1:
            self._say(f"has each trace in one partition, in the {self._records} records that were read")

    def _say(self, words: str) -> None:
        self.is_known = True
        self._partitions.clear()
        log.info("topic %s %s; this process reads all of its partitions", self._topic, words)
