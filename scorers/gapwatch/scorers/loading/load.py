"""Loads a portfolio: reads its YAML and its parts, applies the rules, and reports every problem at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import rfc8785
from pydantic import BaseModel

from gapwatch.scorers.errors import PortfolioError, Problem
from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.facts_file import merge_facts, read_facts
from gapwatch.scorers.loading.metric_reader import prepare_metric, unreadable_metric
from gapwatch.scorers.loading.portfolio_rules import (
    RUNBOOK_URL_NAMES,
    check_header,
    check_portfolio_rules,
    check_unique,
    check_url,
)
from gapwatch.scorers.loading.problems import KeyPath, ProblemList
from gapwatch.scorers.loading.schema_reader import read_model
from gapwatch.scorers.loading.span_rules import check_span_mapping
from gapwatch.scorers.loading.yaml_reader import read_yaml
from gapwatch.scorers.portfolio.component import Component, Edge
from gapwatch.scorers.portfolio.fact import Fact, Question
from gapwatch.scorers.portfolio.llm_origin import written_by_llm
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown

PartT = TypeVar("PartT", bound=BaseModel)
_PARTS = ("components", "edges", "facts", "questions", "metrics")
_MEANING = ("claim", "when", "per_trace")


def load_portfolio(path: str | Path, facts: Path | None = None, *, with_references: bool = False) -> Portfolio:
    """Read a portfolio from a file.

    Args:
        path: YAML.
        facts: File of further facts; of two with one id, the later `at` wins.
        with_references: Allow metrics that compare with reference answers, which only an offline evaluation has.

    Raises:
        PortfolioError: A file cannot be read or has mistakes; lists all problems of both files.
    """
    further: tuple[Fact, ...] = ()
    refused: list[Problem] = []
    if facts is not None:
        try:
            further = read_facts(_bytes(facts), str(facts))
        except PortfolioError as error:
            refused = error.problems
    try:
        portfolio = _parse(_bytes(path), str(path), further, with_references)
    except PortfolioError as error:
        raise PortfolioError([*error.problems, *refused]) from None
    if refused:
        raise PortfolioError(refused)
    return portfolio


def parse_portfolio(
    text: str | bytes, file: str = "<portfolio>", facts: Iterable[Fact] = (), *, with_references: bool = False
) -> Portfolio:
    """Read a portfolio from its text.

    Args:
        text: YAML.
        file: Name of the file in messages.
        facts: Further facts; of two with one id, the later `at` wins.
        with_references: Allow metrics that compare with reference answers, as a store of evaluations has them.

    Raises:
        PortfolioError: The portfolio has mistakes; lists all of them.
    """
    return _parse(text, file, tuple(facts), with_references)


def _bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise PortfolioError([Problem(str(path), None, "", f"cannot be read: {error.strerror or error}")]) from None


def parse_stored_portfolio(
    text: str | bytes, file: str = "<portfolio of the store>", facts: Iterable[Fact] = ()
) -> Portfolio:
    """Parse a portfolio of a store, which was checked when it was registered; that of an evaluation has references.

    Args:
        text: The YAML.
        file: Name for error messages.
        facts: Further facts, with those of the portfolio.

    Raises:
        PortfolioError: The portfolio is invalid.
    """
    return parse_portfolio(text, file, facts, with_references=True)


def _parse(text: str | bytes, file: str, further: tuple[Fact, ...], with_references: bool) -> Portfolio:
    root, problems = read_yaml(text, file)
    raw = root.value
    if not isinstance(raw, dict):
        problems.add((), f"a map is expected, not {shown(raw)}", "gapwatch: 1, portfolio: ..., metrics: [...]")
        problems.raise_if_any()
        raise AssertionError
    if not raw:
        problems.add(("gapwatch",), "the file is empty", "", "gapwatch: 1")
        problems.raise_if_any()
    header = _read_header(raw, problems)
    draft = _read_parts(raw, header, further, problems, with_references)
    _check_top(raw, draft)
    check_portfolio_rules(draft)
    problems.raise_if_any()
    assert header is not None  # its problems were raised
    return _finished(header, draft, raw, text)


def _read_header(raw: dict[str, object], problems: ProblemList) -> Portfolio | None:
    header = dict(raw)
    for key in _PARTS:
        if isinstance(raw.get(key), list):
            header[key] = []
    return read_model(Portfolio, header, (), problems)


def _read_parts(
    raw: dict[str, object],
    header: Portfolio | None,
    further: tuple[Fact, ...],
    problems: ProblemList,
    with_references: bool,
) -> Draft:
    components = list(_read_list(Component, raw, "components", problems))
    component_ids = frozenset(_texts(raw, "components", "id"))
    members: dict[str, tuple[str, ...]] = dict.fromkeys(component_ids, ())
    members |= {component.id: component.members for _, component in components}
    metrics: list[tuple[int, Metric]] = []
    for position, written in _items(raw, "metrics"):
        path: KeyPath = ("metrics", position)
        prepared = prepare_metric(written, path, members, problems) if isinstance(written, dict) else written
        metric = read_model(Metric, prepared, path, problems, unreadable_metric(position))
        if metric is not None and isinstance(written, dict):
            metric._version = _digest({key: written[key] for key in _MEANING if key in written})[:12]
            metrics.append((position, metric))
    facts = list(_read_list(Fact, raw, "facts", problems))
    check_unique(((("facts", position, "id"), fact.id) for position, fact in facts), "fact", problems)
    declared = header.written_by_llm if header is not None else None
    draft = Draft(
        problems=problems,
        components=components,
        component_ids=component_ids,
        metrics=metrics,
        metric_names=frozenset(_texts(raw, "metrics", "name")),
        facts=merge_facts([fact for _, fact in facts], further),
        edges=list(_read_list(Edge, raw, "edges", problems)),
        questions=list(_read_list(Question, raw, "questions", problems)),
        written_by_llm=written_by_llm(declared, [component for _, component in components]),
        with_references=with_references,
    )
    if header is not None:
        check_span_mapping(header.spans, draft)
    for position, fact in facts:
        draft.know_component(fact.component, ("facts", position, "component"))
    return draft


def _check_top(raw: dict[str, object], draft: Draft) -> None:
    time_zone, redact, written = raw.get("time_zone"), raw.get("redact"), raw.get("written_by_llm")
    check_header(
        time_zone if isinstance(time_zone, str) else None,
        [pattern for pattern in redact if isinstance(pattern, str)] if isinstance(redact, list) else [],
        [entry for entry in written if isinstance(entry, str)] if isinstance(written, list) else None,
        {key: url for key in ("trace_url", "runbook_url") if isinstance(url := raw.get(key), str)},
        draft.component_ids,
        draft.problems,
    )
    for position, metric in draft.metrics:
        if metric.runbook_url is not None:
            check_url(metric.runbook_url, RUNBOOK_URL_NAMES, ("metrics", position, "runbook_url"), draft.problems)


def _items(raw: dict[str, object], key: str) -> Iterator[tuple[int, object]]:
    items = raw.get(key)
    if isinstance(items, list):
        yield from enumerate(items)


def _read_list(
    model: type[PartT], raw: dict[str, object], key: str, problems: ProblemList
) -> Iterator[tuple[int, PartT]]:
    for position, written in _items(raw, key):
        part = read_model(model, written, (key, position), problems)
        if part is not None:
            yield position, part


def _texts(raw: dict[str, object], key: str, name: str) -> Iterator[str]:
    for _, item in _items(raw, key):
        if isinstance(item, dict) and isinstance(text := item.get(name), str):
            yield text


def _finished(header: Portfolio, draft: Draft, raw: dict[str, object], text: str | bytes) -> Portfolio:
    portfolio = header.model_copy(
        update={
            "components": tuple(part for _, part in draft.components),
            "edges": tuple(part for _, part in draft.edges),
            "facts": tuple(draft.facts),
            "questions": tuple(part for _, part in draft.questions),
            "metrics": tuple(part for _, part in draft.metrics),
        }
    )
    portfolio._sha = _digest(raw)
    portfolio._text = text if isinstance(text, str) else text.decode("utf-8")
    return portfolio


def _digest(written: object) -> str:
    return hashlib.sha256(rfc8785.dumps(_as_doubles(written))).hexdigest()  # type: ignore[arg-type]


def _as_doubles(written: object) -> object:
    """Return a value with integers beyond 2^53 as doubles, as JSON has them."""
    if isinstance(written, dict):
        return {key: _as_doubles(value) for key, value in written.items()}
    if isinstance(written, list):
        return [_as_doubles(value) for value in written]
    if isinstance(written, int) and abs(written) > 2**53 - 1:
        return float(written)
    return written
