"""`SpanTopics`: the topics of an assembly, and its names in Kafka."""

from __future__ import annotations

from dataclasses import dataclass

#: Added to the topic of traces: the topic of the journal.
JOURNAL_SUFFIX = "-assembly"
#: Added to the group: the group whose offsets the assembly commits.
GROUP_SUFFIX = "-spans"
ENCODINGS = ("auto", "otlp_proto", "otlp_json")


@dataclass(frozen=True)
class SpanTopics:
    """Topics of an assembly.

    Attributes:
        spans: Topic of spans, as a Collector's kafkaexporter or `gapwatch receive` writes it.
        logs: Topic of log records; empty: there is none.
        traces: Topic of the whole traces.
        group: Consumer group of the run; that of the assembly has a suffix.
        encoding: One of `ENCODINGS`.
        store_id: Id of the store of the run.
        has_end: End when every record that was there is read: close what is open.
    """

    spans: str
    logs: str
    traces: str
    group: str
    encoding: str = "auto"
    store_id: str = ""
    has_end: bool = False

    @property
    def journal(self) -> str:
        """Topic of the journal."""
        return self.traces + JOURNAL_SUFFIX

    @property
    def offsets_group(self) -> str:
        """Group whose offsets the assembly commits."""
        return self.group + GROUP_SUFFIX

    @property
    def all(self) -> tuple[str, ...]:
        """Topics that are read."""
        return (self.spans, self.logs) if self.logs else (self.spans,)
