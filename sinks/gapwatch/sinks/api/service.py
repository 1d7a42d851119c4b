"""Connects a run with its API: observes the pipeline, serves metrics and health, and passes decisions to the store.

writer thread ──slice_stored──▶ metrics ─┐
stream's loop ──source_state──▶ health  ─┼──▶ API, in a thread of its own
writer thread ◀────────────── decisions ─┘
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.address import DEFAULT_ADDRESS, DEFAULT_LISTEN
from gapwatch.sinks.api.server import AlertPage, ApiServer, DecisionReader, Post
from gapwatch.sinks.api.store_address import READ_TOKEN, WRITE_TOKEN, read_token_file, read_token_variable
from gapwatch.sinks.metrics.health import RunHealth
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.sinks.store.decisions import Decisions
from gapwatch.sinks.store.store import Store


def api_options(listen: str, environment: Mapping[str, str] = os.environ) -> ApiOptions | None:
    """Return the options of the API from the value of --listen; None for no API.

    Args:
        listen: `address:port`, `port`, `[IPv6 address]:port`, or `none` for no API.
        environment: Environment variables, which may have tokens. With a read token, reading needs it here as well.

    Raises:
        UsageError: The text is not an address and port, or a token has characters that no token has.
    """
    if listen == "none":
        return None
    address, _, port = listen.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {listen!r} is not an address and port; write {DEFAULT_LISTEN}, or none")
    options = ApiOptions(address.strip("[]") or DEFAULT_ADDRESS, int(port))
    read, write = (read_token_variable(name, environment) for name in (READ_TOKEN, WRITE_TOKEN))
    return replace(
        options,
        read_token=read or options.read_token,
        write_token=write or options.write_token,
        asks_to_read=bool(read),
    )


def token_variables(
    read_token: Path | None, write_token: Path | None, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return environment variables in which the tokens of files replace those of the environment.

    Args:
        read_token: File with the read token; None: the environment may have it.
        write_token: File with the write token; None: the environment may have it.
        environment: Variables of the process.

    Raises:
        UsageError: A file holds no token.
    """
    files = {READ_TOKEN: read_token, WRITE_TOKEN: write_token}
    return {**environment, **{name: read_token_file(file) for name, file in files.items() if file is not None}}


class RunService:
    """Observes a run and serves its state. Call `start` after the store is open, and `stop` before it is closed.

    Args:
        store: Store that is open for writing.
        portfolios: Portfolios in force.
        topic: Topic that the run reads.
        store_thread: Executor with one thread, the writer thread.
        options: Options of the API; None for no API, and then there is no `/metrics` and decisions are never stored.
        readers: Functions that read decisions other than annotations, by path.
        alert_page: Makes the page of an alert; None without alerts.

    Attributes:
        metrics, health, decisions: Parts of the service, for other parts of the run to update.
    """

    def __init__(
        self,
        store: Store,
        portfolios: Sequence[Portfolio],
        topic: str,
        store_thread: Executor,
        options: ApiOptions | None,
        readers: Mapping[str, DecisionReader] | None = None,
        alert_page: AlertPage | None = None,
    ) -> None:
        self.metrics, self.health = LiveMetrics(portfolios), RunHealth()
        self.decisions = Decisions(self._wake)
        self._store, self._topic, self._store_thread = store, topic, store_thread
        self._server: ApiServer | None = None
        if options is not None:
            self._server = ApiServer(store, self.metrics, self.health, self.decisions, options, readers, alert_page)

    @property
    def url(self) -> str:
        """URL of the API; empty without an API."""
        return self._server.url if self._server is not None else ""

    def offer(self, posts: Mapping[str, Post]) -> None:
        """Add handlers of POST requests with the write token, which run in the writer thread; before `start`."""
        if self._server is not None:
            self._server.offer(posts, self._store_thread)

    def start(self) -> None:
        """Count the rows of the store and start the API; called before the first slice.

        Raises:
            UsageError: The API cannot listen on the address.
            JobError: The store cannot be read.
        """
        self.metrics.rebuild(self._store)
        if self._server is not None:
            self._server.start()

    def stop(self) -> None:
        """Stop the API and close its cursors; takes at most about 5 s."""
        if self._server is not None:
            self._server.stop()

    # --- observer of the pipeline

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Count a stored slice; called in the writer thread."""
        self.metrics.slice_stored(scored, seconds_by_stage)

    def source_state(self, state: SourceState) -> None:
        """Update the state of the source; called about once a second."""
        positions = {(self._topic, number): (kept, end) for number, (kept, _, end) in state.positions.items()}
        self.metrics.source_state(state.state, positions, state.lost, state.broker_silence)
        self.health.source(state.state, state.waiting_for, state.broker_silence)
        self.health.note("portfolio", state.refused)
        if state.linger_seconds is not None:
            self.metrics.show("gapwatch_linger_seconds", {(): state.linger_seconds})

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Use the labels of the portfolios now in force."""
        self.metrics.portfolios_changed(portfolios)

    def work_state(self, outbox: Mapping[str, int], waits: Mapping[str, str]) -> None:
        """Update the state of the work beside the slices; called about once a second.

        Args:
            outbox: Number of messages that are not sent yet, by topic.
            waits: Cause of the waiting of each part, by its name in `/healthz`; empty if it does not wait.
        """
        self.metrics.show("gapwatch_outbox_waiting", {(topic,): n for topic, n in outbox.items()})
        for part, reason in waits.items():
            self.health.note(part, reason)

    # --- decisions

    def _wake(self) -> None:
        try:
            self._store_thread.submit(self._apply)
        except RuntimeError:  # the writer thread has ended; `Decisions.close` fails the waiting decisions
            return

    def _apply(self) -> None:
        try:
            self.decisions.apply(self._store)
        except JobError as error:
            self.health.store_failed(str(error))
