"""Settings of Alertmanager: routes of pages and of tickets."""

from __future__ import annotations

from typing import Any


def alertmanager_document(pages_url: str | None = None, tickets_url: str | None = None) -> dict[str, Any]:
    """Return `alertmanager.yml`: one message for each incident.

    An acknowledged or silenced alert goes on firing, so it is not reported as resolved, and is not sent again.

    Args:
        pages_url: Webhook for pages; None: Alertmanager shows pages and sends them nowhere.
        tickets_url: Webhook for tickets; None as for pages.
    """
    return {
        "route": {
            "receiver": "tickets",
            "group_by": ["alertname", "pipeline", "environment", "incident_id"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "12h",
            "routes": [
                {"receiver": "pages", "matchers": ['severity="page"'], "repeat_interval": "1h"},
                {"receiver": "nobody", "matchers": ['severity="note"']},
            ],
        },
        "inhibit_rules": [
            {
                "source_matchers": ['alertname="GapwatchPage"'],
                "target_matchers": ['alertname="GapwatchTicket"'],
                "equal": ["incident_id"],
            },
            *(
                {
                    "source_matchers": [f'alertname=~"{source}"'],
                    "target_matchers": ['alertname=~"Gapwatch(Page|Ticket)"'],
                    "equal": ["incident_id"],
                }
                for source in ("Gapwatch(Page|Ticket)Acknowledged", "GapwatchSilenced")
            ),
            {
                "source_matchers": ['alertname="GapwatchAbsent"'],
                "target_matchers": ['alertname=~"Gapwatch(Behind|Stuck|Starved)"'],
            },
        ],
        "receivers": [_receiver("pages", pages_url), _receiver("tickets", tickets_url), _receiver("nobody", None)],
    }


def _receiver(name: str, url: str | None) -> dict[str, Any]:
    return {"name": name, **({"webhook_configs": [{"url": url, "send_resolved": True}]} if url else {})}
