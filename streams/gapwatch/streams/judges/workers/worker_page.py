"""/metrics, /healthz and /readyz of a judge process, in its own event loop.

They count the calls, the cost and the waiting requests of one worker; the process that stores counts answered requests.
The names differ, so that a sum over all processes counts nothing twice.
"""

from __future__ import annotations

import logging
import platform
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from aiohttp import web
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.version import program_version
from gapwatch.sinks.api.access import ApiOptions, check_caller
from gapwatch.sinks.api.site import HttpSite, json_answer, metrics_answer
from gapwatch.sinks.api.token_attempts import TokenAttempts
from gapwatch.sinks.metrics.family_samples import FamilySamples, make_registry
from gapwatch.sinks.verdicts.call_counts import SECONDS_BOUNDS
from gapwatch.streams.judges.calls.provider import Provider

log = logging.getLogger("gapwatch.judges")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_NAME = "gapwatch_judge_worker_"
_STATES = ("closed", "half_open", "open")


class WorkerPage(Collector):
    """HTTP endpoints of a judge process; they share its event loop, so that a supervisor notices a blocked loop.

    Args:
        providers: Returns the providers asked so far, by vendor.
        waiting: Returns the number of read and unanswered requests, by entry of `providers`.
        waits_for: Returns the reasons why the worker cannot judge now; empty texts if there are none.
        outages: Returns the present outages of providers, in words.

    Attributes:
        registry: Prometheus registry with these metrics and those of the process.
    """

    def __init__(
        self,
        providers: Callable[[], Mapping[str, Provider]],
        waiting: Callable[[], Mapping[str, int]],
        waits_for: Callable[[], Sequence[str]],
        outages: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._providers, self._waiting, self._waits_for = providers, waiting, waits_for
        self._outages = outages
        self._ended: Counter[tuple[str, ...]] = Counter()
        self._calls: Counter[tuple[str, ...]] = Counter()
        self._tokens: Counter[tuple[str, ...]] = Counter()
        self._usd: dict[tuple[str, ...], float] = {}
        self._seconds: dict[str, list[int]] = {}
        self._second_sums: dict[str, float] = {}
        self._options = ApiOptions()
        self._site: HttpSite | None = None
        self._attempts = TokenAttempts()
        self.registry = make_registry(self)

    def count(self, judgements: Iterable[Judgement]) -> None:
        """Count judgements of this worker, including those that the store drops as duplicates."""
        for judgement in judgements:
            self._ended[(judgement.state,)] += 1
            for call in judgement.calls:
                vendor = call.model.partition("/")[0] if "/" in call.model else "-"
                self._calls[vendor, call.kind] += 1
                self._tokens[vendor, "in"] += call.input_tokens
                self._tokens[vendor, "out"] += call.output_tokens
                self._usd[(vendor,)] = self._usd.get((vendor,), 0.0) + call.usd
                cells = self._seconds.setdefault(vendor, [0] * (len(SECONDS_BOUNDS) + 1))
                cells[bisect_left(SECONDS_BOUNDS, call.seconds)] += 1
                self._second_sums[vendor] = self._second_sums.get(vendor, 0.0) + call.seconds

    def collect(self) -> list[Metric]:
        """Return the metrics of this worker, for `registry`."""
        page = FamilySamples()
        providers = {vendor or "-": provider for vendor, provider in self._providers().items()}
        page.add(_NAME + "requests_total", self._ended)
        page.add(_NAME + "calls_total", self._calls)
        page.add(_NAME + "tokens_total", self._tokens)
        page.add(_NAME + "usd_total", self._usd)
        seconds = [((vendor,), cells, self._second_sums[vendor]) for vendor, cells in self._seconds.items()]
        page.add_histogram(_NAME + "call_seconds", SECONDS_BOUNDS, seconds)
        states = {
            (vendor, state): int(p.breaker.state == state) for vendor, p in providers.items() for state in _STATES
        }
        page.add(_NAME + "breaker_state", states)
        page.add(_NAME + "outage_seconds", {(vendor,): p.outage_seconds for vendor, p in providers.items()})
        page.add(_NAME + "calls_under_way", {(vendor,): p.under_way for vendor, p in providers.items()})
        page.add(_NAME + "waiting_requests", {(lane,): n for lane, n in self._waiting().items()})
        page.add("gapwatch_build_info", {(program_version(), "", platform.python_version()): 1})
        return page.metrics()

    async def start(self, options: ApiOptions) -> None:
        """Start to listen.

        Raises:
            UsageError: The address cannot be listened on.
        """
        application = web.Application(middlewares=[self._guard])
        application.add_routes(
            [
                web.get("/metrics", self._serve_metrics),
                web.get("/healthz", self._serve_alive),
                web.get("/readyz", self._serve_ready),
            ]
        )
        self._options, self._site = options, HttpSite("/metrics", options)
        await self._site.start(application)
        log.info("metrics are served at %s", self._site.url)

    async def stop(self) -> None:
        """Stop listening."""
        if self._site is not None:
            await self._site.stop()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            assert self._site is not None
            check_caller(request, self._options, self._site.url, self._attempts)
            return await handler(request)
        except web.HTTPException as error:
            return json_answer({"error": error.text or error.reason}, error.status)

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        return metrics_answer(self.registry, request)  # in the loop: what it collects changes there

    async def _serve_alive(self, _request: web.Request) -> web.Response:
        return json_answer({"status": "ok", **self._state()}, 200)

    async def _serve_ready(self, _request: web.Request) -> web.Response:
        state = self._state()
        ready = not state.get("waits_for")
        return json_answer({"status": "ready" if ready else "not ready", **state}, 200 if ready else 503)

    def _state(self) -> dict[str, object]:
        waits_for = [text for text in self._waits_for() if text]
        down = sorted(vendor or "-" for vendor, p in self._providers().items() if p.outages())
        return {
            **({"waits_for": waits_for} if waits_for else {}),
            **({"providers_down": down, "outages": list(self._outages())} if down else {}),
        }
