"""First line of a report: traces, rows and seconds of a run, and what its judges did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gapwatch.scorers.slices.wrong_clocks import host_text
from gapwatch.sinks.reading.terminal_table import share_text
from gapwatch.streams.pipeline.run_summary import RunSummary

if TYPE_CHECKING:
    from gapwatch.streams.pipeline.judge_result import JudgeResult


def print_run(out: Console, result: RunSummary) -> None:
    """Print the counts of a run, and a line about its judges where it had any."""
    text = Text.assemble(
        (f"{result.read:,} traces", "bold"),
        f" scored, {result.spans:,} spans, {result.rows:,} gap rows stored in {result.seconds:.1f} s",
    )
    if result.duplicates:
        text.append(f"; {result.duplicates:,} records skipped, an earlier run stored them")
    for n, what in ((result.dead_letters, "dead letters"), (result.foreign, "of pipelines without a portfolio")):
        if n:
            text.append(f"; {n:,} {what}", style="yellow")
    out.print(text)
    if result.judged is not None and result.judged.closed + result.judged.left:
        out.print(_judged_text(result.judged))


def _judged_text(judged: JudgeResult) -> Text:
    """Return the line about judges: requests, calls, cost, and reasons of missing verdicts."""
    failed = sum(judged.errors.values())
    text = Text(f"judges: {judged.closed:,} requests, {judged.calls:,} calls, {judged.usd:.4g} USD")
    shed = sum(states.get("shed_budget", 0) for states in judged.outcomes.values())
    if failed:
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in judged.errors.most_common())
        text.append(
            f"; {'all' if failed == judged.closed else f'{failed:,}'} ended in an error: {reasons}", style="yellow"
        )
    if shed:
        text.append(f"; {shed:,} skipped at the weekly cap", style="yellow")
    if judged.left:
        text.append(f"; {judged.left:,} still pending", style="yellow")
    return text


#: Hosts that a sentence names.
_MOST_HOSTS = 3


def wrong_times(records: Mapping[str, int], hosts: Counter[tuple[str, str]]) -> Iterator[str]:
    """Yield a sentence for the records ahead of the others, and one for those behind.

    Args:
        records: Number of records by state of the ledger.
        hosts: Number of these records of this run by state and host, as `RunSummary.wrong_clocks` counts them.
    """
    for state, text in (("ahead", "half an hour or more ahead of"), ("behind", "two hours or more behind")):
        n, read = records.get(state, 0), records.get("read", 0)
        if n:
            yield (
                f"{n:,} of {read:,} records ({share_text(n / max(read, 1))}) have a time {text} the others: they count "
                f"without a time, and no detector uses them{_written_by(state, hosts)}"
            )


def _written_by(state: str, hosts: Counter[tuple[str, str]]) -> str:
    """Return the hosts that wrote records with a wrong time, as the end of a sentence."""
    of_state = Counter({host: n for (of, host), n in hosts.items() if of == state})
    if not of_state:
        return ""
    named = [f"{n:,} of {host_text(host)}" for host, n in of_state.most_common(_MOST_HOSTS)]
    more = len(of_state) - len(named)
    return f". Look at the clock of the host: {', '.join(named)}" + (f" and {more} more" if more else "")
