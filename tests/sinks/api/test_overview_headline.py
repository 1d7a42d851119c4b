"""Headline and tiles of the page at `/`: acknowledged and silenced alerts are still open, and never green."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.sinks.api.test_overview_page import SCRIPT

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")

#: Stands for the page: the texts and classes of its tiles and of its headline are read from it.
_PAGE = """
const made = () => ({ append(...parts) { this.parts = parts; }, replaceChildren(...parts) { this.parts = parts; } });
const places = {}, header = {};
const document = {
  createElement: made, title: "",
  getElementById: (id) => (places[id] ??= made()), querySelector: () => header,
};
"""
_RUN = """
showTiles(new Map([["gapwatch_series", [{ labels: { phase: "calm" }, value: 4 }]]]), present(ALERTS_NOW, 0));
const tiles = places.tiles.parts.map((one) => [...one.parts.map((part) => part.textContent), one.className]);
const [text, state] = [places.headline.textContent, header.className];
console.log(JSON.stringify({ text, state, tiles, title: document.title }));
"""


def shown(*alerts: tuple[str, ...]) -> dict[str, Any]:
    """Return headline and tiles for alerts: severity, state and, for a silence, its end."""
    script = SCRIPT.rsplit("\nlook();", 1)[0]
    given = json.dumps([dict(zip(("severity", "state", "until"), one, strict=False)) for one in alerts])
    page = script + _RUN.replace("ALERTS_NOW", given)
    run = subprocess.run(["node", "-"], input=_PAGE + page, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_acknowledged_and_silenced_alerts_are_open() -> None:
    page = shown(("page", "acknowledged"), ("page", "acknowledged"), ("page", "silenced", "2026-03-02T10:00:00Z"))

    assert (page["text"], page["state"]) == ("3 pages open: 2 acknowledged, 1 silenced", "ticket")
    assert page["tiles"][:2] == [
        ["3", "open pages: 2 acknowledged, 1 silenced", "tile ticket"],
        ["0", "open tickets", "tile calm"],
    ]


@pytest.mark.parametrize(
    ("alerts", "text", "state"),
    [
        ([], "no open pages or tickets", "calm"),
        ([("page", "open"), ("ticket", "acknowledged")], "1 page, 1 ticket open: 1 acknowledged", "page"),
        ([("page", "silenced")], "1 page open: 1 silenced", ""),
        ([("ticket", "acknowledged")], "1 ticket open: 1 acknowledged", ""),
        ([("page", "silenced", "1969-12-31T00:00:00Z")], "1 page open", "page"),
    ],
)
def test_the_color_is_that_of_the_messages_and_green_only_without_an_open_alert(
    alerts: list[tuple[str, ...]], text: str, state: str
) -> None:
    page = shown(*alerts)

    assert (page["text"], page["state"]) == (text, state)
    assert page["title"] == (f"(!) {text}" if state in ("page", "ticket") else "Gapwatch")
