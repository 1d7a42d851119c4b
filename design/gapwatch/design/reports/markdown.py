"""The report as Markdown: what was found, what will be watched, what is asked, what was refused and why."""

from __future__ import annotations

from collections.abc import Iterable

from gapwatch.design.metrics.spans import VALUES
from gapwatch.design.reports.summary import begin_with, spans_in_order, summary
from gapwatch.design.stage import Design


def report_markdown(design: Design) -> str:
    """Return the report; the same design gives the same bytes."""
    parts = [
        _head(design),
        _numbers(design),
        _components(design),
        _edges(design),
        _questions(design),
        _metrics(design),
        _judges(design),
        _points(design),
        _refused(design),
        _reading(design),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def md(text: object) -> str:
    """Return text from the code so that Markdown shows it and does nothing else with it."""
    plain = " ".join(str(text).split())
    for sign in "\\`*_{}[]|#":
        plain = plain.replace(sign, f"\\{sign}")
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: object) -> str:
    plain = " ".join(str(text).split()).replace("`", "'").replace("|", "¦")
    return f"`{plain}`" if plain else ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _head(design: Design) -> str:
    goal = f"\nGoal: {md(design.goal)}\n" if design.goal else ""
    model = (
        "" if design.has_model else "\n**No call to a model was found.** Nothing was guessed; see the first question.\n"
    )
    return (
        f"# What to watch in {md(design.name)}\n\nDesign {design.version}. No model was asked and no network "
        f"was used.\n{goal}{model}"
    )


def _numbers(design: Design) -> str:
    rows = []
    for name, value in summary(design).items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        rows.append((name.replace("_", " "), shown or "none"))
    return "## Numbers\n\n" + _table(("what", "value"), rows)


def _components(design: Design) -> str:
    out = ["## Components\n"]
    for c in design.architecture.components:
        out.append(f"### {md(c.name)} ({_code(c.id)})\n")
        if c.description:
            out.append(md(c.description) + "\n")
        facts = [
            ("role, kind, priority", f"{c.role}, {c.kind}, {c.priority}"),
            (
                "stage, pattern",
                f"{c.stage or 'none'}, {c.pattern} ({md(c.reasoning)}; confidence {c.classification_confidence:g})",
            ),
            ("does", md(", ".join(c.semantics) or "none of the ten AI behaviours")),
            ("fails silently", f"{c.silent_failure}: {md(c.silent_because)}"),
            ("if it is wrong", md(c.user_facing_failure)),
            (
                "can be measured",
                f"{c.measured}; {'also offline' if c.is_offline_evaluable else 'at run time only'}; framework "
                f"{c.alignment}",
            ),
            (
                "files",
                ", ".join(_code(f) for f in c.files[:8])
                + (f" and {len(c.files) - 8} more" if len(c.files) > 8 else ""),
            ),
            ("confidence", f"{c.confidence:g}" + (f": {md('; '.join(c.issues))}" if c.issues else "")),
        ]
        if c.tiers:
            facts.insert(
                3,
                (
                    "internal structure",
                    "; ".join(
                        f"{_code(t.id)} {{{'LLM' if t.by == 'llm' else 'rule-based'}}} {_code(t.place)}"
                        for t in c.tiers
                    ),
                ),
            )
        out.append(_table(("", ""), facts))
    if design.architecture.missing:
        out.append("Files that matter and belong to no component:\n")
        out.append(
            _table(
                ("file", "salience", "why"),
                ((_code(m.path), f"{m.salience:g}", m.why) for m in design.architecture.missing),
            )
        )
    for c in design.architecture.pruned:
        out.append(f"Pruned: {_code(c.id)}, confidence {c.confidence:g}: {md('; '.join(c.issues))}\n")
    return "\n".join(out)


def _edges(design: Design) -> str:
    if not design.architecture.edges:
        return ""
    rows = (
        (
            _code(e.src),
            _code(e.dst),
            md(e.label),
            f"**{e.verification}**" if e.verification == "verified" else e.verification,
            md(e.because),
            _code(e.evidence[0]),
        )
        for e in design.architecture.edges
    )
    return "## Edges\n\n" + _table(("from", "to", "label", "status", "because", "evidence"), rows)


def _questions(design: Design) -> str:
    if not design.open_questions:
        return "## Questions\n\nNone is open.\n"
    out = [
        "## Questions\n",
        "Answer with `gapwatch design answer REPO QUESTION VALUE --facts facts.yaml`, then design again.\n",
    ]
    for q in design.open_questions:
        out.append(f"- {_code(q.id)} **{md(q.text)}**  ")
        out.append(f"  Why: {md(q.why)}.  ")
        options = ", ".join(q.options) if q.options else q.answer_type
        out.append(f"  Answer: {options}. Until then: {md(q.default)}.  ")
        out.append(f"  Decides: {', '.join(_code(d) for d in q.decides[:6]) or 'what is measured at all'}.")
    for fact in design.stale_facts:
        out.append(f"- The fact {_code(fact.id)} answers {_code(fact.question)}, which the code no longer asks.")
    return "\n".join(out) + "\n"


def _metrics(design: Design) -> str:
    rows = (
        (
            _code(m.name),
            md(m.purpose),
            m.concern,
            f"{m.better} {m.of.replace('_', ' ')}{'' if m.direction_verdict == 'verified' else ' (unverified)'}",
            m.severity or "-",
            _code(m.evidence[0]),
        )
        for m in design.metrics
        if m.source != "judge"
    )
    return "## Metrics\n\n" + _table(("metric", "for", "concern", "better", "alert", "first evidence"), rows)


def _judges(design: Design) -> str:
    judges = [m for m in design.metrics if m.source == "judge"]
    if not judges:
        return ""
    note = (
        ""
        if design.judge_model
        else "They wait for a model: answer `q-pipeline-judge-model`, or give `--judge-model`.\n"
    )
    rows = (
        (
            _code(m.name),
            _code(m.tier),
            md(m.claim["rubric"]["criterion"]),
            ", ".join(_code(i) for i in m.claim["rubric"]["inputs"]),
            ", ".join(_code(n) for n in m.monitors) or "nothing yet",
        )
        for m in judges
    )
    return f"## Judges\n\nMade from the prompts and from what the code reads of the answers. {note}\n" + _table(
        ("metric", "tier", "criterion", "is shown", "between judgements"), rows
    )


def _points(design: Design) -> str:
    out = [
        "## What the pipeline must emit\n",
        "One span around the body of each function; what it carries, and what is blind without it. "
        f"{begin_with(design)}\n",
    ]
    for title, points in spans_in_order(design):
        rows = (
            (
                _code(p.component),
                _code(p.name),
                p.kind,
                _code(p.place),
                ", ".join(_code(f) for f in p.fields),
                ", ".join(_code(b) for b in p.blind),
            )
            for p in points
        )
        table = _table(("component", "span name", "kind", "where", "fields", "blind without it"), rows)
        out.append(f"### {title}\n\n{table}")
    used = {f for p in design.points for f in p.fields}
    out.append(_table(("field", "value"), ((_code(f), md(v)) for f, v in VALUES.items() if f in used)))
    return "\n".join(out)


def _refused(design: Design) -> str:
    out = ["## What was refused, flagged or is missing\n", md(design.critique.overall_assessment) + ".\n"]
    if design.dropped:
        out.append(
            _table(
                ("metric", "rules", "why"),
                ((_code(m.name), ", ".join(v.rules), md(v.reasoning)) for m, v in design.dropped),
            )
        )
    flagged = [v for v in design.critique.verdicts if v.verdict != "pass"]
    if flagged:
        out.append(
            _table(
                ("metric", "verdict", "rules", "why", "fix"),
                (
                    (_code(v.metric), v.verdict, ", ".join(v.rules), md(v.reasoning), md(v.suggested_fix or ""))
                    for v in flagged
                ),
            )
        )
    for issue in design.critique.cross_component_issues:
        out.append(f"- {_code(issue.component)}: {md(issue.issue)}. {md(issue.suggestion)}.")
    for gap in design.gaps:
        out.append(f"- {_code(gap.metric)}: {md(gap.missing)}; {md(gap.fix)}.")
    for line in design.refused_operations:
        out.append(f"- refused operation: {md(line)}")
    return "\n".join(out) + "\n"


def _reading(design: Design) -> str:
    out = ["## What could not be read\n"]
    for s in design.skipped[:40]:
        out.append(f"- {_code(s.path)}: {md(s.reason)}")
    if len(design.skipped) > 40:
        out.append(f"- and {len(design.skipped) - 40} more")
    for r in design.readings:
        if r.errors:
            first, last = r.errors[0]
            out.append(
                f"- {_code(r.path)}: lines {first}-{last} were not understood"
                + (f", and {len(r.errors) - 1} more places" if len(r.errors) > 1 else "")
            )
    return "\n".join(out) + "\n" if len(out) > 1 else ""
