"""Writes the files of a design (portfolio, reports, facts) and prints its summary and differences."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from gapwatch.design.design_folder import out_option
from gapwatch.design.reports.design_document import design_document
from gapwatch.design.reports.diff import DesignDiff, TouchedMetric, UnmonitoredCode
from gapwatch.design.reports.document import printable
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.reports.export_spans import spans_data, spans_json
from gapwatch.design.reports.html import report_html
from gapwatch.design.reports.markdown import report_markdown
from gapwatch.design.reports.summary import notices, summary
from gapwatch.design.source.program import paused_collector
from gapwatch.design.stage import Design
from gapwatch.scorers.errors import JobError, SourceError
from gapwatch.scorers.loading.facts_file import merge_facts, read_facts
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.fact import Fact


@paused_collector()
def write_design(design: Design, out: Path, pipeline: str | None, number: int) -> list[Path]:
    """Write portfolio.yaml, report.md, report.html and spans.json; return their paths.

    The loader of `gapwatch run` checks the portfolio before anything is written.

    Args:
        design: The design.
        out: Folder, created if missing.
        pipeline: Pipeline name in the records; None takes the folder's name.
        number: Version of the portfolio.

    Raises:
        JobError: The folder cannot be written.
        PortfolioError: The loader refuses the portfolio, which is a defect of the design stage.
    """
    data = portfolio_data(design, pipeline, number)
    text = portfolio_yaml(data, design)
    parse_portfolio(text, "portfolio.yaml")
    report = design_document(design)
    files = {
        "portfolio.yaml": text,
        "report.md": report_markdown(report),
        "report.html": report_html(report),
        "spans.json": spans_json(spans_data(design, data["pipeline"])),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            _write(out / name, content)
    except OSError as error:
        raise JobError(f"{out}: cannot be written: {error.strerror}; give another folder with --out") from error
    return [out / name for name in files]


def _write(path: Path, content: str) -> None:
    """Write a file through a temporary one, so that it is complete or absent."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="replace", dir=path.parent, delete=False) as file:
        file.write(content)
    mode = 0o666 & ~_umask()
    made = Path(file.name)
    made.chmod(mode)
    made.replace(path)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def facts_from(path: Path, must_exist: bool) -> tuple[Fact, ...]:
    """Read a file of facts.

    Args:
        path: The YAML file.
        must_exist: False treats a missing file as empty.

    Raises:
        SourceError: The file is missing or cannot be read.
        PortfolioError: Its content is invalid.
    """
    if not must_exist and not path.exists():
        return ()
    try:
        return read_facts(path.read_bytes(), str(path))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error


def add_fact(path: Path, fact: Fact) -> None:
    """Add a fact to a file; a fact with the same id is replaced, all others stay.

    Args:
        path: The YAML file, created if missing.
        fact: The fact.

    Raises:
        JobError: The file cannot be written.
    """
    facts = {f.id: f for f in facts_from(path, must_exist=False)}
    facts[fact.id] = fact
    data = {"facts": [f.model_dump(mode="json", exclude_none=True) for f in merge_facts(facts.values())]}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120))
    except OSError as error:
        raise JobError(f"{path}: cannot be written: {error.strerror}") from error


#: Letters of a line where the summary goes to a file or a pipe; names stay whole.
_WIDTH_OF_FILES = 200


def print_summary(design: Design, out: Path) -> None:
    """Print a design on one screen: its metrics with their alerts and the line that each rests on first.

    Args:
        design: The design.
        out: Folder that its files were written to.
    """
    # Texts of the code are no markup. A file or a pipe has no width, so that names stay whole there.
    width = None if sys.stdout.isatty() else _WIDTH_OF_FILES
    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=width is not None, width=width)
    numbers = summary(design)
    edges = f" ({numbers['edges_verified_share']:.0%} verified)" if numbers["component_edges"] else ""
    judges = numbers["judges"] - sum(m.is_exported for m in design.metrics if m.source == "judge")
    waiting = f", {_counted(judges, 'judge')} waiting for --judge-model" if judges else ""
    console.print(
        f"{_counted(numbers['components'], 'component')}, {_counted(numbers['component_edges'], 'edge')}{edges},"
        f" {_counted(numbers['metrics_exported'], 'metric')}{waiting},"
        f" {_counted(numbers['open_questions'], 'open question')}; {numbers['resolution_rate']:.1%} of"
        f" {numbers['call_sites']:,} calls resolved in {_counted(numbers['files'], 'file')}"
    )
    for notice in notices(design):
        console.print(printable(notice), style="yellow")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("metric", no_wrap=True)
    table.add_column("alert", no_wrap=True)
    table.add_column("rests on", overflow="fold")
    for m in sorted(design.metrics, key=lambda m: not m.is_exported):
        further = f" and {len(m.evidence) - 1} more" if len(m.evidence) > 1 else ""
        first = f"{_nearest(m.places[0].path)}:{m.places[0].line}{further}" if m.places else ""
        table.add_row(m.name, (m.severity or "none") if m.is_exported else "judge", printable(first))
    console.print(table)
    if design.selection.shelf:
        more = _counted(len(design.selection.shelf), "more metric")
        command = f"gapwatch design add REPO METRIC --by NAME{out_option(out)}"
        console.print(f"On the shelf: {more} (report.md); {command} takes one in.")
    console.print(f"Written to {out}: portfolio.yaml, report.md, report.html, spans.json, design.duckdb")
    if numbers["spans_there"] or numbers["libraries_instrumented"]:
        console.print(f"The spans that there are answer {_answered(numbers)}; the report says what is missing.")
    asked = "answer the questions in the report, " if design.open_questions else ""
    if numbers["integration_points"]:
        is_part = 0 < numbers["spans_first"] < numbers["integration_points"]
        whole = "it" if numbers["integration_points"] == 1 else "them"
        count = f"the first {numbers['spans_first']} of them" if is_part else whole
        console.print(
            f"Next: {asked}let `gapwatch instrument --design {out} -- python app.py` emit the"
            f" {_counted(numbers['integration_points'], 'span')}, or write {count} by hand as the report shows."
            " gapwatch run --otlp receives and scores them, gapwatch replay scores a file of them.",
            highlight=False,
        )
    elif asked:
        console.print(f"Next: {asked}then run gapwatch replay or gapwatch run.")


def _answered(numbers: dict[str, Any]) -> str:
    whole, part = numbers["metrics_answered"], numbers["metrics_partly_answered"]
    parts = [_counted(whole, "metric")] if whole else []
    parts += [f"{_counted(part, 'metric')} in part"] if part else []
    return " and ".join(parts) or "no metric yet"


def _nearest(path: str) -> str:
    """Return a file with its folder: many files of one name, such as `llm.py`, tell nothing by themselves."""
    return "/".join(Path(path).parts[-2:])


def _counted(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def diff_text(diff: DesignDiff) -> str:
    """Return a difference as text: stale metrics first, metrics with equal reasons grouped."""
    if not diff.stale and not diff.moved and not diff.unmonitored:
        return f"No code of the {len(diff.unchanged)} metrics changed.\n"
    total = len(diff.stale) + len(diff.moved) + len(diff.unchanged)
    lines = [
        f"{len(diff.stale)} of {total} metrics are stale; the code of {len(diff.moved)} only moved; "
        f"the code of {len(diff.unchanged)} did not change."
    ]
    for verdict in ("gone", "changed"):
        groups: dict[tuple[str, ...], list[TouchedMetric]] = {}
        for stale in diff.stale:
            if stale.verdict == verdict:
                groups.setdefault(stale.reasons, []).append(stale)
        if groups:
            lines += ["", _DIFF_TITLES[verdict]]
        for reasons, touched in groups.items():
            lines += [f"  {reason}" for reason in reasons[:5]]
            if len(reasons) > 5:
                lines.append(f"  and {len(reasons) - 5} more")
            lines += [f"    {m.metric}{_successors(m)}" for m in touched]
    if diff.moved:
        lines += ["", "Moved: the same code at another place"]
        lines += [f"  {m.metric}: {m.reasons[0]}{_successors(m)}" for m in diff.moved]
    if diff.unmonitored:
        lines += ["", "New: not monitored by the old portfolio"]
    fresh: dict[tuple[str, str, str], list[UnmonitoredCode]] = {}
    for new in diff.unmonitored:
        fresh.setdefault((new.component, new.what, new.name), []).append(new)
    for (component, what, name), those in fresh.items():
        places = _first(3, [new.where for new in those])
        metrics = _first(4, list(dict.fromkeys(m for new in those for m in new.metrics)))
        label = what if what == "component" else f"{what} {name}"
        lines.append(f"  {component}: {label} ({places}): {metrics or 'no metric'}")
    return "\n".join(lines) + "\n"


_DIFF_TITLES = {
    "gone": "Gone: the code of these metrics no longer exists",
    "changed": "Changed: review these metrics",
}


def _first(count: int, texts: list[str]) -> str:
    more = f" and {len(texts) - count} more" if len(texts) > count else ""
    return ", ".join(texts[:count]) + more


def _successors(metric: TouchedMetric) -> str:
    return f" (the new design has {', '.join(metric.successors)})" if metric.successors else ""
