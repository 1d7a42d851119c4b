"""The report as one HTML file that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from html import escape
from pathlib import Path

from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.spans import VALUES
from gapwatch.design.reports.graph_drawing import draw
from gapwatch.design.reports.summary import begin_with, spans_in_order, summary
from gapwatch.design.stage import Design

_SEVERITY = {"page": "critical", "ticket": "warning", "note": "info"}


def report_html(design: Design) -> str:
    """Return the report; the same design gives the same bytes."""
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    body = "\n".join(
        [
            _head(design),
            _tiles(design),
            _graph(design),
            _components(design),
            _questions(design),
            _metrics(design),
            _judges(design),
            _points(design),
            _refused(design),
            _reading(design),
        ]
    )
    title = f"What to watch in {design.name}"
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        f'content="width=device-width">\n'
        f'<meta http-equiv="Content-Security-Policy" '
        f'content="{policy}">\n<title>{_e(title)}</title>\n<style>\n{style}</style>\n'
        f"</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _e(text: object) -> str:
    return escape("".join(c if c.isprintable() or c == "\n" else "�" for c in str(text)))


def _code(text: object) -> str:
    return f"<code>{_e(text)}</code>"


def _codes(texts: list[str], most: int = 8) -> str:
    shown = " ".join(_code(t) for t in texts[:most])
    return shown + (f" <span class=more>and {len(texts) - most} more</span>" if len(texts) > most else "")


def _table(head: list[str], rows: list[list[str]], kind: str = "") -> str:
    titles = "".join(f"<th>{_e(t)}</th>" for t in head)
    lines = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide"><table '
        f'class="{kind}"><thead><tr>{titles}</tr></thead><tbody>\n{lines}\n</tbody></table></div>'
    )


def _head(design: Design) -> str:
    goal = f'<p class="goal">{_e(design.goal)}</p>' if design.goal else ""
    model = (
        ""
        if design.has_model
        else '<p class="notice">No call to a model was found. Nothing was guessed: see the first question.</p>'
    )
    return (
        f"<header><h1>What to watch in {_e(design.name)}</h1>{goal}<p class=sub>Design {_e(design.version)}, "
        f"from the code alone: no model was"
        f" asked, no network was used.</p></header>{model}"
    )


def _tiles(design: Design) -> str:
    s = summary(design)
    tiles = [
        (s["components"], "components", f"confidence {s['overall_confidence']:g}, lowest {s['lowest_confidence']:g}"),
        (f"{s['edges_verified_share']:.0%}", "edges verified", f"of {s['component_edges']}; the rest inferred"),
        (s["metrics_exported"], "metrics", f"{s['judges']} judges designed, {s['metrics_dropped']} refused"),
        (s["open_questions"], "open questions", "only you can answer"),
        (
            s["integration_points"],
            "spans to emit",
            f"the first {s['spans_first']} feed {s['metrics_of_first']} metrics",
        ),
        (
            f"{s['resolution_rate']:.1%}",
            "calls resolved",
            f"of {s['call_sites']:,} in {s['files']:,} files, {s['lines']:,} lines",
        ),
    ]
    cells = "".join(
        f"<div class=tile><b>{_e(n)}</b><span>{_e(t)}</span><small>{_e(d)}</small></div>" for n, t, d in tiles
    )
    return f'<section class="tiles">{cells}</section>'


def _graph(design: Design) -> str:
    legend = (
        '<p class="legend"><span class="key ai_core"></span>AI core <span class="key supporting"></span>supporting'
        ' <span class="key operational"></span>operational <span class="line"></span>verified call'
        ' <span class="line dashed"></span>inferred</p>'
    )
    return f'<section><h2>Components</h2>{legend}<div class="wide graph">{draw(design.architecture)}</div></section>'


def _components(design: Design) -> str:
    return (
        "<section>"
        + "\n".join(_component(design, c) for c in design.architecture.components)
        + _missing(design)
        + "</section>"
    )


def _component(design: Design, c: ComponentDraft) -> str:
    metrics = [m for m in design.metrics if m.component == c.id]
    rows = [
        [
            "stage, pattern",
            f"{_e(c.stage or 'none')}, {_e(c.pattern)} <small>({_e(c.reasoning)}; confidence "
            f"{c.classification_confidence:g})</small>",
        ],
        ["does", _e(", ".join(c.semantics).replace("_", " ") or "none of the ten AI behaviours")],
        ["fails silently", f'<span class="risk {c.silent_failure}">{c.silent_failure}</span> {_e(c.silent_because)}'],
        ["if it is wrong", _e(c.user_facing_failure)],
        ["measured", _e(f"{c.measured}; {'also offline' if c.is_offline_evaluable else 'at run time only'}")],
        ["files", _codes(c.files)],
        ["patterns", _codes([f"{h.pattern} {h.path}:{h.line}" for h in c.hits], 6)],
        ["metrics", _codes([m.name for m in metrics], 12)],
    ]
    if c.tiers:
        tiers = " ".join(
            f'<span class="tier {t.by}">{_e(t.id)} <small>{"LLM" if t.by == "llm" else "rule"} '
            f"{_e(t.place)}</small></span>"
            for t in c.tiers
        )
        rows.insert(2, ["tiers", tiers])
    if c.issues:
        rows.append(["critic", _e("; ".join(c.issues))])
    table = "".join(f"<tr><th>{_e(k)}</th><td>{v}</td></tr>" for k, v in rows)
    return (
        f'<details id="c-{_e(c.id)}" class="component {c.role}"><summary><b>{_e(c.name)}</b> {_code(c.id)} '
        f"<span class=badge>{_e(c.kind)}</span>"
        f" <span class=badge>{_e(c.priority)}</span> <small>{_e(c.description)}</small><span "
        f"class=conf>{c.confidence:g}</span></summary>"
        f"<table class=facts>{table}</table></details>"
    )


def _missing(design: Design) -> str:
    if not design.architecture.missing:
        return ""
    rows = [[_code(m.path), f"{m.salience:g}", _e(m.why)] for m in design.architecture.missing]
    return "<h3>Files that matter and belong to no component</h3>" + _table(["file", "salience", "why"], rows)


def _questions(design: Design) -> str:
    if not design.open_questions:
        return "<section><h2>Questions</h2><p>None is open.</p></section>"
    items = []
    for q in design.open_questions:
        options = " ".join(f"<kbd>{_e(o)}</kbd>" for o in q.options) or f"<kbd>{_e(q.answer_type)}</kbd>"
        items.append(
            f"<li><p><b>{_e(q.text)}</b> {options}</p><p class=why>{_e(q.why)}. Until it is answered: "
            f"{_e(q.default)}.</p>"
            f"<p class=ids>{_code(q.id)} decides {_codes(q.decides, 4) or 'what is measured at all'}</p></li>"
        )
    how = (
        "<p class=sub>Answer with <code>gapwatch design answer REPO QUESTION VALUE --facts facts.yaml</code>, "
        "then design again.</p>"
    )
    return f"<section><h2>Questions</h2>{how}<ul class=questions>{''.join(items)}</ul></section>"


def _alert(m: MetricDesign) -> str:
    return (
        f'<span class="sev {m.severity}">{_SEVERITY[m.severity]}</span>'
        if m.severity
        else "<span class=none>none</span>"
    )


def _better(m: MetricDesign) -> str:
    mark = "" if m.direction_verdict == "verified" else " <small>unverified</small>"
    return f"{_e(m.better)} {_e(m.of.replace('_', ' '))}{mark}"


def _metrics(design: Design) -> str:
    rows = [
        [
            f"{_code(m.name)}<br><small>{_e(m.purpose)}</small>",
            _e(m.concern.replace("_", " ")),
            _better(m),
            _alert(m),
            f"{_codes(m.evidence, 2)}"
            + (f"<br><small>says something where {_e(m.valid_when)}</small>" if m.valid_when else ""),
        ]
        for m in design.metrics
        if m.source != "judge"
    ]
    return (
        "<section><h2>Metrics</h2>"
        + _table(["metric", "concern", "better", "alert", "evidence"], rows, "metrics")
        + "</section>"
    )


def _judges(design: Design) -> str:
    judges = [m for m in design.metrics if m.source == "judge"]
    if not judges:
        return ""
    note = (
        ""
        if design.judge_model
        else " They wait for a model: answer <code>q-pipeline-judge-model</code>, or give <code>--judge-model</code>."
    )
    rows = [
        [
            f"{_code(m.name)}<br><small>tier {_e(m.tier)}</small>",
            _e(m.claim["rubric"]["criterion"]),
            _codes(m.claim["rubric"]["inputs"]),
            _codes(m.monitors) or "nothing yet",
        ]
        for m in judges
    ]
    return (
        f"<section><h2>Judges</h2><p class=sub>Made from the prompts and from what the code reads of the "
        f"answers.{note}</p>"
        + _table(["metric", "criterion", "is shown", "between judgements"], rows, "judges")
        + "</section>"
    )


def _points(design: Design) -> str:
    tables = ""
    for title, points in spans_in_order(design):
        rows = [
            [
                f"{_code(p.name)}<br><small>{_e(p.component)}, {_e(p.kind)}</small>",
                _code(p.place),
                _codes(p.fields, 12),
                f"{len(p.blind)}: {_codes(p.blind, 4)}",
            ]
            for p in points
        ]
        tables += f"<h3>{title}</h3>" + _table(["span", "where", "fields", "blind without it"], rows, "points")
    used = {f for p in design.points for f in p.fields}
    values = _table(["field", "value"], [[_code(f), _e(v)] for f, v in VALUES.items() if f in used])
    return (
        "<section><h2>What the pipeline must emit</h2><p class=sub>One span around the body of each function. "
        + f"{_e(begin_with(design))}</p>{tables}<h3>What the fields hold</h3>{values}</section>"
    )


def _refused(design: Design) -> str:
    rows = [[_code(m.name), _e(", ".join(v.rules)), _e(v.reasoning)] for m, v in design.dropped]
    rows += [
        [_code(v.metric), _e(f"{v.verdict}: {', '.join(v.rules)}"), _e(v.reasoning)]
        for v in design.critique.verdicts
        if v.verdict != "pass"
    ]
    rows += [[_code(i.component), _e(i.issue), _e(i.suggestion)] for i in design.critique.cross_component_issues]
    rows += [[_code(g.metric), _e(g.missing), _e(g.fix)] for g in design.gaps]
    table = _table(["what", "rule", "why"], rows) if rows else "<p>Nothing was.</p>"
    return (
        f"<section><h2>Refused, flagged, missing</h2><p "
        f"class=sub>{_e(design.critique.overall_assessment)}.</p>{table}</section>"
    )


def _reading(design: Design) -> str:
    rows = [[_code(s.path), _e(s.reason)] for s in design.skipped[:40]]
    for r in design.readings:
        if r.errors:
            rows.append(
                [
                    _code(r.path),
                    _e(f"lines {r.errors[0][0]}-{r.errors[0][1]} were not understood ({len(r.errors)} places)"),
                ]
            )
    s = summary(design)
    causes = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in s["unresolved_by_cause"].items()) or "none"
    numbers = (
        f"<p class=sub>Unresolved calls by cause: {_e(causes)}. Imports of the repository's own names "
        f"resolved: {s['own_import_rate']:.1%}.</p>"
    )
    return (
        f"<section><h2>What could not be "
        f"read</h2>{numbers}{_table(['path', 'why'], rows) if rows else '<p>Everything was read.</p>'}</section>"
    )
