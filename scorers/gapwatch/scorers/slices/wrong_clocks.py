"""Hosts of records with a wrong time: what such a record itself says about the machine that wrote it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from gapwatch.scorers.printable import shown

HOST_KEYS = (
    "host.name", "service.instance.id", "k8s.pod.name", "host", "hostname", "instance", "pod", "service.name", "service"
)  # fmt: skip
"""Attributes of a trace or a span that name a machine or a process, the narrowest first; those with a dot are names of
OpenTelemetry's resource conventions."""
MOST_READ = 500
"""Records of a slice whose host is looked for; further ones are counted without a name. Each costs 10 us."""
_MOST_CHARACTERS = 100


@dataclass(frozen=True)
class WrongClock:
    """Records of one slice with a wrong time that were written by one host.

    Attributes:
        pipeline: Name of the pipeline.
        state: State in the ledger, `ahead` or `behind`.
        host: Attribute and value that name the host, such as `host.name=web-7`; `release=r2` where no attribute does,
            and empty where there is no release either.
        trace_id: Id of the first of them.
        n: Number of records.
    """

    pipeline: str
    state: str
    host: str
    trace_id: str
    n: int


class _Span(msgspec.Struct):
    attributes: Any = None


class _Record(msgspec.Struct):
    trace_id: Any = None
    release: Any = None
    attributes: Any = None
    spans: list[_Span] = []


_decode = msgspec.json.Decoder(_Record).decode


def wrong_clocks(pipeline: str, state: str, records: Iterable[bytes | None], n: int) -> list[WrongClock]:
    """Return the hosts of some records, those with the most records first.

    Args:
        pipeline: Name of the pipeline.
        state: State in the ledger.
        records: Records as they came, at most `MOST_READ` are worth it.
        n: Number of all such records; those that were not read count without a name.
    """
    found: Counter[str] = Counter()
    first: dict[str, str] = {}
    for record in records:
        host, trace_id = _host(record)
        found[host] += 1
        first.setdefault(host, trace_id)
    rest = n - found.total()
    if rest > 0:
        found[""] += rest
    return [WrongClock(pipeline, state, host, first.get(host, ""), count) for host, count in found.most_common()]


def host_text(host: str) -> str:
    """Return the words for a host of a record; it may be empty."""
    return shown(host) if host else "a host that they do not name (publish an attribute host.name)"


def _host(record: bytes | None) -> tuple[str, str]:
    """Return what names the host of a record, and the id of its trace."""
    try:
        read = _decode(record or b"")
    except (msgspec.DecodeError, RecursionError):
        return "", ""
    trace_id = read.trace_id if isinstance(read.trace_id, str) else ""
    for attributes in (read.attributes, *(span.attributes for span in read.spans)):
        if not isinstance(attributes, dict):
            continue
        for key in HOST_KEYS:
            value = attributes.get(key)
            if isinstance(value, str) and value:
                return f"{key}={value[:_MOST_CHARACTERS]}", trace_id
    release = read.release
    return (f"release={release[:_MOST_CHARACTERS]}" if isinstance(release, str) and release else ""), trace_id
