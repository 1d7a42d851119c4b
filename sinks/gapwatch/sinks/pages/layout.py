"""Frame of a page, and the parts that pages share; every text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from gapwatch.scorers.judges.agreement import Estimate

#: Pages by path, in the order of the links.
PLACES = {"": "overview", "triage": "triage", "issues": "issues", "runs": "runs"}
_URGENCY = {
    "fail": "page", "regressed": "page", "worse": "page", "error": "ticket", "open": "ticket", "pass": "calm",
    "fixed": "calm", "better": "calm",
}  # fmt: skip
_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gapwatch: {title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}overview.css">
</head>
<body>
<header><h1>Gapwatch</h1><p role="status">{title}</p>{links}</header>
<main>
{body}
</main>
{script}</body>
</html>
"""


class Html(str):
    """Text that is HTML already; all other text is escaped."""

    __slots__ = ()


def page(title: str, body: Iterable[str], root: str = "./", writes: bool = False) -> str:
    """Return a page with links to the others.

    Args:
        title: One line.
        body: HTML of its sections.
        root: Relative path to `/`, such as `../`.
        writes: Add the script that sends decisions.
    """
    links = " ".join(f'<a href="{root}{path}">{name}</a>' for path, name in PLACES.items())
    script = f'<script src="{root}triage.js"></script>\n' if writes else ""
    return frame(title, "\n".join(body), root, f"<nav>{links}</nav>", script)


def frame(title: str, body: str, root: str, links: str = "", script: str = "") -> str:
    """Return the frame of every page but the overview, around HTML.

    Args:
        title: One line.
        body: HTML of the content.
        root: Relative path to `/`, such as `../`.
        links: HTML behind the title.
        script: HTML behind the content.
    """
    return _FRAME.format(title=escape(title), root=root, links=links, body=body, script=script)


def section(title: str, *parts: str, hint: str = "") -> Html:
    """Return a section with a heading and, if given, a hint below it."""
    said = f'<p class="hint">{hint}</p>' if hint else ""
    return Html(f"<section><h2>{escape(title)}</h2>{said}{''.join(parts)}</section>")


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], nothing: str) -> Html:
    """Return a table that a narrow screen shows as cards; a sentence where it has no rows.

    Args:
        titles: Names of the columns; one that begins with `#` is of numbers.
        rows: Cells; `Html` stays as it is.
        nothing: What is said without rows.
    """
    kinds = [' class="number"' if title.startswith("#") else "" for title in titles]
    names = [escape(title.removeprefix("#")) for title in titles]
    lines = [
        "<tr>"
        + "".join(f'<td data-column="{n}"{k}>{cell(v)}</td>' for n, k, v in zip(names, kinds, row, strict=True))
        + "</tr>"
        for row in rows
    ]
    if not lines:
        return Html(f'<div class="wide"><p class="none">{escape(nothing)}</p></div>')
    head = "".join(f"<th{kind}>{name}</th>" for name, kind in zip(names, kinds, strict=True))
    return Html(f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>')


def cell(value: object) -> str:
    """Return a value as HTML; a time without its fraction, nothing for None."""
    if isinstance(value, Html):
        return value
    text = "" if value is None else str(value)
    return escape(text[:19] if hasattr(value, "isoformat") else text)


def named(text: object, below: object) -> Html:
    """Return a text with a smaller one below it."""
    return Html(f"{cell(text)}<small>{cell(below)}</small>")


def page_link(path: str, text: object) -> Html:
    """Return a link to a page, by its relative path."""
    return Html(f'<a href="{escape(path)}">{cell(text)}</a>')


def badge(word: str) -> Html:
    """Return a word in the colour of its urgency."""
    return Html(f'<span class="badge {_URGENCY.get(word, "")}">{escape(word)}</span>')


def share_cells(rate: Estimate) -> tuple[object, object]:
    """Return a rate as text with its counts, and as a bar with its interval."""
    if not rate.n:
        return "-", ""
    return named(f"{rate.value:.1%}", f"{round(rate.value * rate.n)} of {rate.n}"), bar(rate)


def bar(rate: Estimate) -> Html:
    """Return a rate as a bar from 0 to 100 % with its interval."""

    def at(value: float) -> str:
        return f"{4 + 168 * min(max(value, 0.0), 1.0):.1f}"

    told = f"{rate.value:.1%}, from {rate.lower:.1%} to {rate.upper:.1%}"
    return Html(
        f'<svg viewBox="0 0 176 18" role="img" aria-label="{told}"><title>{told}</title>'
        '<line class="track" x1="4" y1="9" x2="172" y2="9"/>'
        f'<line class="interval" x1="{at(rate.lower)}" y1="9" x2="{at(rate.upper)}" y2="9"/>'
        f'<circle class="rate" cx="{at(rate.value)}" cy="9" r="4"/></svg>'
    )


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """Return names with their values; those without a value are left out."""
    lines = "".join(
        f"<dt>{escape(name)}</dt><dd>{cell(value)}</dd>" for name, value in pairs if value not in ("", None)
    )
    return Html(f'<dl class="explained">{lines}</dl>')
