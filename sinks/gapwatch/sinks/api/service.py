"""What a run shows to the outside, in one object: it observes the pipeline and serves what it saw.

keeper's thread ──slice_kept──▶ metrics ─┐
stream's loop ──source_state──▶ health  ─┼──▶ API, on a thread of its own
keeper's thread ◀──────────── decisions ─┘
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.address import DEFAULT_ADDRESS, DEFAULT_LISTEN
from gapwatch.sinks.api.server import ApiServer, DecisionReader, Post
from gapwatch.sinks.metrics.health import RunHealth
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.sinks.store.decisions import Decisions
from gapwatch.sinks.store.store import Store

#: Environment variables of tokens that stay the same from start to start.
READ_TOKEN, WRITE_TOKEN = "GAPWATCH_READ_TOKEN", "GAPWATCH_WRITE_TOKEN"


def api_options(listen: str, environment: Mapping[str, str] = os.environ) -> ApiOptions | None:
    """Read where the API is to listen.

    Args:
        listen: `address:port`, `port`, `[address of IPv6]:port`, or `none` for no API.
        environment: Where tokens may be.

    Raises:
        UsageError: It says no address and port.
    """
    if listen == "none":
        return None
    address, _, port = listen.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {listen!r} is no address and port; write {DEFAULT_LISTEN}, or none")
    options = ApiOptions(address.strip("[]") or DEFAULT_ADDRESS, int(port))
    return replace(
        options,
        read_token=environment.get(READ_TOKEN) or options.read_token,
        write_token=environment.get(WRITE_TOKEN) or options.write_token,
    )


class RunService:
    """Observes a run and serves what it saw; `start` once the store is open, `stop` before it is closed.

    Args:
        store: Open for keeping.
        portfolios: In force.
        topic: That the run reads.
        store_thread: One thread, on which alone the store is written.
        options: Where the API listens; None for no API: `/metrics` is nowhere then, and decisions wait for ever.
        readers: What may be decided besides annotations, by the path that it is sent to.

    Attributes:
        metrics, health, decisions: Its parts, for those who have more to tell.
    """

    def __init__(
        self,
        store: Store,
        portfolios: Sequence[Portfolio],
        topic: str,
        store_thread: Executor,
        options: ApiOptions | None,
        readers: Mapping[str, DecisionReader] | None = None,
    ) -> None:
        self.metrics, self.health = LiveMetrics(portfolios), RunHealth()
        self.decisions = Decisions(self._wake)
        self._store, self._topic, self._store_thread = store, topic, store_thread
        self._server: ApiServer | None = None
        if options is not None:
            self._server = ApiServer(store, self.metrics, self.health, self.decisions, options, readers)

    @property
    def url(self) -> str:
        """Where the API answers; empty where there is none."""
        return self._server.url if self._server is not None else ""

    def offer(self, posts: Mapping[str, Post]) -> None:
        """Answer what is posted to these paths with the write token, on the keeper's thread; before `start`."""
        if self._server is not None:
            self._server.offer(posts, self._store_thread)

    def start(self) -> None:
        """Count what the store holds, and begin to answer; before the first slice.

        Raises:
            UsageError: The address cannot be listened on.
            JobError: The store cannot be read.
        """
        self.metrics.rebuild(self._store)
        if self._server is not None:
            self._server.start()

    def stop(self) -> None:
        """Answer nobody any more and let go of the store; at most some 5 s."""
        if self._server is not None:
            self._server.stop()

    # --- as the pipeline's observer

    def slice_stored(self, scored: ScoredSlice, seconds_by_stage: Mapping[str, float]) -> None:
        """Count a slice that is in the store; on the keeper's thread."""
        self.metrics.slice_stored(scored, seconds_by_stage)

    def source_state(self, state: SourceState) -> None:
        """Note how the source stands; about once a second."""
        positions = {(self._topic, number): (kept, end) for number, (kept, _, end) in state.positions.items()}
        self.metrics.source_state(state.state, positions, state.lost)
        self.health.source(state.state, state.waiting_for)
        self.health.note("portfolio", state.refused)

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Take the labels of the portfolios that are in force now."""
        self.metrics.portfolios_changed(portfolios)

    def work_state(self, outbox: Mapping[str, int], waits: Mapping[str, str]) -> None:
        """Show the work beside the slices; about once a second.

        Args:
            outbox: Messages that wait to be sent, by topic.
            waits: What each part waits for, by the name that `/healthz` gives it; empty where it waits for nothing.
        """
        self.metrics.show("gapwatch_outbox_waiting", {(topic,): n for topic, n in outbox.items()})
        for part, reason in waits.items():
            self.health.note(part, reason)

    # --- decisions

    def _wake(self) -> None:
        try:
            self._store_thread.submit(self._apply)
        except RuntimeError:  # the keeper has ended; `Decisions.close` tells those who wait
            return

    def _apply(self) -> None:
        try:
            self.decisions.apply(self._store)
        except JobError as error:
            self.health.store_failed(str(error))
