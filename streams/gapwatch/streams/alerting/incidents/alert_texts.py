"""Finds the traces behind alerts whose text is not stored, and stores it after their records were read again.

    alert opens ─▶ first 20 rows since its change ─▶ read their records again ─▶ redact ─▶ samples
                             (by event time)          (topic or file)

Scoring stores the text of a sample of the failing traces. Whether an alert will need a trace is known only later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import pyarrow as pa

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.scoring.redaction import Redactor
from gapwatch.sinks.reading.example_rows import first_rows_without_text
from gapwatch.sinks.reading.json_values import read_json
from gapwatch.sinks.reading.stored_portfolios import portfolio_text
from gapwatch.sinks.store.alert_samples import AlertText, RowPlace
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert

#: Number of traces after a change whose text is stored. Each costs about 1 KB, and one read of the source.
TEXTS = 20

#: Partition and offset of a record.
RecordPlace = tuple[int, int]


def has_texts(alert: StoredAlert) -> bool:
    """Return whether the texts behind an alert are stored: a page or a ticket about failures, unknowns or labels."""
    if alert.row.severity == "note" or alert.facts.watched == "numbers":
        return False
    return alert.rows_behind != "pass"


def missing_texts(con: StoreReader, alert: StoredAlert) -> list[RowPlace]:
    """Return the rows of the first `TEXTS` traces behind an alert whose text is not stored."""
    lane, series = alert.row.lane, alert.series
    return first_rows_without_text(con, lane, series, alert.rows_behind, alert.rows_since, TEXTS)


def redacted_texts(
    con: StoreReader, places: Sequence[RowPlace], records: Mapping[RecordPlace, bytes | None]
) -> list[AlertText]:
    """Return the texts to store, redacted by the portfolios that scored the records.

    Args:
        con: Connection for reading.
        places: Rows that want a text.
        records: The records by place; None for one that the source no longer holds. Other rows are left out.
    """
    redactors: dict[str, Redactor | None] = {}
    found = {(place.partition, place.offset): place for place in places}
    texts = []
    for key, place in found.items():
        if key not in records:
            continue
        record = records[key]
        if record is None or not _is_trace(record, place.trace_id):
            texts.append(AlertText(place, None, None))
            continue
        if place.portfolio_sha not in redactors:
            redactors[place.portfolio_sha] = _redactor(con, place.portfolio_sha)
        redactor = redactors[place.portfolio_sha]
        if redactor is None:
            continue
        (text,) = redactor.redact(pa.array([record.decode("utf-8")], pa.string())).to_pylist()
        texts.append(AlertText(place, text.encode(), hashlib.sha256(record).hexdigest()))
    return texts


def _is_trace(record: bytes, trace_id: str) -> bool:
    """Return False if the record is another trace: the source was made anew."""
    value = read_json(record.decode("utf-8", "replace"))
    seen = value.get("trace_id") if isinstance(value, dict) else None
    return seen == trace_id or not isinstance(seen, str)


def _redactor(con: StoreReader, sha: str) -> Redactor | None:
    """Return the redactor of a recorded portfolio; None if this program cannot read it, and so cannot redact."""
    text = portfolio_text(con, sha)
    try:
        return None if text is None else Redactor(parse_stored_portfolio(text).redact)
    except PortfolioError:
        return None
