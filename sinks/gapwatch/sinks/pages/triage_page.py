"""Page of the queue of triage: what waits for a decision, and the forms that send one."""

from __future__ import annotations

from collections.abc import Sequence

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.issues.issue import Issue
from gapwatch.sinks.issues.issue_query import read_issues
from gapwatch.sinks.issues.similar import similar_issues
from gapwatch.sinks.issues.triage_queue import KINDS, TriageItem, triage_items
from gapwatch.sinks.pages.layout import Html, cell, page, page_link, section
from gapwatch.sinks.store.store_reader import StoreReader

#: Items of one page. More: a page that nobody reads to its end.
_MOST = 100
#: Characters of an item's text.
_TEXT = 300
_NAMES = {"alert": "alerts", "feedback": "feedback", "row": "traces"}
_NOTHING = '<p class="none">nothing waits for a decision</p>'
_READ_ONLY = "Without a token this page only shows the queue."
_INPUT = '<input name="{0}" placeholder="{1}" aria-label="{1}"{2}>'


def author_form(hint: str) -> Html:
    """Return the form for the name and the write token, which decisions are sent with."""
    return section(
        "Decide",
        '<form id="author"><label>Your name <input name="by" required autocomplete="username"></label>'
        '<label>Write token <input type="password" name="token" required autocomplete="current-password"></label>'
        "</form>"
        '<p id="said" role="status" class="none"></p>',
        hint=f"{hint} The write token is <code>GAPWATCH_WRITE_TOKEN</code> of the run, else <code>write_token</code> "
        "in the file <code>STORE.api</code> beside the store; this page forgets it when you leave.",
    )


def triage_page(con: StoreReader, may_write: bool, kind: str | None = None) -> str:
    """Return the page.

    Args:
        con: Reader of the store.
        may_write: Show the forms.
        kind: Only items of this kind.

    Raises:
        UsageError: There is no such kind.
    """
    if kind not in (None, "", *KINDS):
        raise UsageError(f"an item is one of {', '.join(KINDS)}")
    items, issues = triage_items(con, kind or None, _MOST + 1), [*read_issues(con).values()]
    members: dict[str, list[TriageItem]] = {}
    for item in items[:_MOST]:  # alerts of one incident are one item: a decision on one is a decision on all
        members.setdefault(item.incident_id or item.key, []).append(item)
    rows = "".join(_item(some[0], some[1:], issues, may_write) for some in members.values())
    kinds = " · ".join(page_link(f"triage?kind={one}", name) for one, name in _NAMES.items())
    more = f'<p class="hint">The first {_MOST}; the next follow as you decide.</p>' if len(items) > _MOST else ""
    queue = section(
        "Waiting for a decision",
        f'<div class="wide">{rows or _NOTHING}</div>', more,
        hint="Open alerts first, the alerts of one incident together; then feedback that says no; then failing traces. "
        f'Show {page_link("triage", "all")} · {kinds}',
    )  # fmt: skip
    return page("triage", [*([author_form(_READ_ONLY)] if may_write else []), queue], writes=may_write)


def _item(item: TriageItem, with_it: Sequence[TriageItem], issues: Sequence[Issue], may_write: bool) -> str:
    near = [one for _, one in similar_issues(item.text, item.metrics, issues, 3)] if issues else []
    text = item.text if len(item.text) <= _TEXT else item.text[:_TEXT] + "…"
    id_ = page_link(f"alerts/{item.item}", item.item) if item.kind == "alert" else item.item
    lines = [f"<small>{cell(item.kind)} <code>{cell(id_)}</code> · {cell(item.at)} · {cell(item.pipeline)}</small>"]
    if item.metrics and item.kind != "alert":
        lines.append(f"<small>fails {cell(', '.join(item.metrics))}</small>")
    if with_it:
        others = ", ".join(page_link(f"alerts/{one.item}", ", ".join(one.metrics)) for one in with_it)
        lines.append(f"<small>in the same incident: {others}</small>")
    if near:
        proposed = ", ".join(page_link(f"issues/{one.issue_id}", one.title) for one in near)
        lines.append(f"<small>similar issues: {proposed}</small>")
    forms = _forms(near, issues) if may_write else ""
    about = f'<div class="text">{cell(text)}{"".join(lines)}</div>'
    return f'<article class="item" data-item="{cell(item.key)}">{about}{forms}</article>'


def _forms(near: Sequence[Issue], issues: Sequence[Issue]) -> str:
    others = [one for one in reversed(issues) if one.status != "closed" and one not in near]
    choices = "".join(f'<option value="{cell(one.issue_id)}">{cell(one.title)}</option>' for one in [*near, *others])
    join = _form("join", f'<select name="issue" aria-label="issue">{choices}</select>', "join this issue")
    return (
        f"<div>{_form('make', _INPUT.format('title', 'title (may be empty)', ''), 'make an issue')}"
        f"{join if choices else ''}{_form('drop', _INPUT.format('why', 'reason', ' required'), 'drop')}</div>"
    )


def _form(decision: str, field: str, button: str) -> str:
    hidden = f'<input type="hidden" name="decision" value="{decision}">'
    return f'<form class="decision">{hidden}{field} <button>{button}</button></form>'
