"""Stores the texts behind the alerts of a replay: reads the wanted lines of the file once more."""

from __future__ import annotations

import contextlib
from pathlib import Path

from gapwatch.scorers.errors import SourceError
from gapwatch.sinks.reading.alert_query import AlertFilter
from gapwatch.sinks.store.alert_samples import insert_alert_texts
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.incidents.alert_texts import RecordPlace, has_texts, missing_texts, redacted_texts
from gapwatch.streams.alerting.incidents.stored_alerts import read_alerts
from gapwatch.streams.sources.file_source import FileSource


def store_file_texts(store: Store, source: FileSource) -> None:
    """Store the texts behind all alerts of a file, after it was read. Standard input and pipes cannot be read again.

    Args:
        store: Open for writing.
        source: The file; it is opened again.

    Raises:
        JobError: The store could not be written.
    """
    if source.path == "-" or not Path(source.path).is_file():
        return
    with contextlib.closing(store.cursor()) as con:
        alerts = [alert for alert in read_alerts(con, AlertFilter(lane=source.lane)) if has_texts(alert)]
        places = {place.offset: place for alert in alerts for place in missing_texts(con, alert)}
        if not places:
            return
        lines: dict[RecordPlace, bytes | None] = {}
        with contextlib.suppress(SourceError):  # the file changed since it was read: its lines are left out
            lines.update(_lines(FileSource(source.path, source.name), set(places)))
        texts = [text for text in redacted_texts(con, list(places.values()), lines) if text.record is not None]
    insert_alert_texts(store, source.lane, texts)


def _lines(source: FileSource, wanted: set[int]) -> dict[RecordPlace, bytes | None]:
    found: dict[RecordPlace, bytes | None] = {}
    with source:
        for records in source.slices():
            for place, offset in enumerate(records.offsets.tolist()):
                if offset in wanted:
                    found[0, offset] = records.values[place].as_py()
            if records.to_offset > max(wanted):
                break
    return found
