"""Reads a file of facts: answers of practitioners, in a file beside the portfolio."""

from __future__ import annotations

from collections.abc import Iterable

from gapwatch.scorers.loading.problems import KeyPath
from gapwatch.scorers.loading.schema_reader import read_model
from gapwatch.scorers.loading.yaml_reader import read_yaml
from gapwatch.scorers.portfolio.fact import Fact
from gapwatch.scorers.printable import shown


def read_facts(data: str | bytes, file: str) -> tuple[Fact, ...]:
    """Read a list of facts, bare or under the key `facts`.

    Args:
        data: YAML.
        file: Name of the file in messages.

    Raises:
        PortfolioError: The file has mistakes; lists all of them.
    """
    root, problems = read_yaml(data, file)
    written, path = root.value, ()
    path_of: KeyPath = path
    if isinstance(written, dict):
        for key in written:
            if key != "facts":
                problems.add((key,), "no such key", "facts, a list")
        written, path_of = written.get("facts", []), ("facts",)
    facts: list[Fact] = []
    if not isinstance(written, list):
        problems.add(path_of, f"a list of facts is expected, not {shown(written)}")
    else:
        for position, item in enumerate(written):
            fact = read_model(Fact, item, (*path_of, position), problems)
            if fact is not None:
                facts.append(fact)
    problems.raise_if_any()
    return tuple(facts)


def merge_facts(*sources: Iterable[Fact]) -> tuple[Fact, ...]:
    """Return the facts of several sources; of facts with one id the latest by `at`, of equally late ones the last."""
    latest: dict[str, Fact] = {}
    for source in sources:
        for fact in source:
            known = latest.get(fact.id)
            if known is None or fact.moment >= known.moment:
                latest[fact.id] = fact
    return tuple(latest.values())
