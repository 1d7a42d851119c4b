"""Options for the user's Python scorers, and the process that runs them during a command."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import click

from gapwatch.scorers.scoring.scorer_host import DEFAULT_TIMEOUT_SECONDS, ScorerHost

scorers_option = click.option(
    "--scorers", default=None, metavar="MODULE",
    help="Python module or .py file with the @scorer functions that the portfolios name.",
)  # fmt: skip
scorer_timeout_option = click.option(
    "--scorer-timeout", default=DEFAULT_TIMEOUT_SECONDS, show_default=True, metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True), help="Time limit for one batch of 256 spans of a @scorer function.",
)  # fmt: skip


def scorer_host(
    module: str | None, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> AbstractContextManager[ScorerHost | None]:
    """Return a context manager that runs the scorers' process; it gives None if there is no module.

    Args:
        module: Python module or `.py` file; None: no scorers.
        timeout_seconds: Time limit for one batch.

    Raises:
        UsageError: The module cannot be loaded.
    """
    return nullcontext() if module is None else ScorerHost(module, timeout_seconds)
