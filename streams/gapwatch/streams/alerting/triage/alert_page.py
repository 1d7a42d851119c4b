"""Page of one alert or incident at `/alerts/ID`: the text of `gapwatch explain`, as HTML without a script."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.alerting.incidents.stored_alerts import StoredIncident, find
from gapwatch.streams.alerting.triage.explain import COMMAND, Explanation, explain
from gapwatch.streams.alerting.triage.explain_incident import explain_incident

#: Id of an alert or incident at the begin of a line, or as the argument of `explain`: it leads to its page.
_ID = re.compile(r"(?:(?<=^)|(?<= explain ))[ai][0-9a-f]{9}(?= |$)")

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../overview.css">
</head>
<body>
<header class="{severity}"><h1>Gapwatch</h1><p>{headline}</p></header>
<main>
<section><h2>{subject} <code>{alert_id}</code></h2>
{sections}
</section>
<p><a href="..">all series and alerts</a></p>
</main>
</body>
</html>
"""


def alert_page(con: StoreReader, wanted: str, store: Path) -> str:
    """Return the page of an alert or an incident; every text from records and portfolios is escaped.

    Args:
        con: Connection for reading.
        wanted: Id of the alert or incident, or its first characters.
        store: Store, as commands name it.

    Raises:
        UsageError: Nothing has such an id, or several have.
    """
    found = find(con, wanted)
    told = explain_incident(con, store, found) if isinstance(found, StoredIncident) else explain(con, store, found)
    ident = found.incident_id if isinstance(found, StoredIncident) else found.row.alert_id
    return _PAGE.format(
        title=escape(f"{told.severity}: {told.subject}"),
        severity=escape(told.severity) if told.is_open else "",
        headline=escape(f"{told.severity} {told.state_text}: {told.headline}"),
        subject=escape(told.subject),
        alert_id=escape(ident),
        sections=_sections(told),
    )


def _sections(told: Explanation) -> str:
    parts = [f"<dt>{escape(title)}</dt><dd>{''.join(map(_line, lines))}</dd>" for title, lines in told.sections]
    return f'<dl class="explained">{"".join(parts)}</dl>'


def _line(line: str) -> str:
    if not line.startswith(COMMAND):
        return f"<p>{_linked(line)}</p>"
    text = line.removeprefix(COMMAND).strip()
    if text.startswith(("https://", "http://")) and " " not in text:
        return f'<p><a href="{escape(text)}" rel="noreferrer">{escape(text)}</a></p>'
    return f"<p><code>{_linked(text)}</code></p>"


def _linked(text: str) -> str:
    """Return a text, escaped, with links to the pages of the alerts and incidents that it names."""
    return _ID.sub(r'<a href="\g<0>">\g<0></a>', escape(text))
