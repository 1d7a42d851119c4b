"""HTTP server of the process that writes a store: /metrics, /healthz, /readyz, queries, decisions, page.

It has a thread and an event loop of its own, so that a slow client never delays the stream.

    GET  /metrics                  Prometheus          GET  /healthz, /readyz       supervisors
    GET  /v1/query?sql=&format=    one SELECT          POST /v1/query               the same, as JSON
    GET  /v1/ledger                the balance         POST /v1/annotations         a note; needs the write token
    GET  /v1/about                 version and store
    GET  /                         a page for people   POST /v1/snapshots           Parquet files; write token
    GET  /alerts/ID                page of one alert   GET  /triage, /issues, /runs pages for people
                                                       POST further decisions, such as /v1/alerts/ack
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import Any

import duckdb
from aiohttp import web

from gapwatch.scorers.errors import GapwatchError, JobError, UsageError
from gapwatch.scorers.version import program_version
from gapwatch.sinks.api.access import ApiOptions, LoginNeededError, asks_for_page, check_caller
from gapwatch.sinks.api.api_version import API_HEADER, API_VERSION
from gapwatch.sinks.api.endpoint_note import ApiNote, remove_note, write_note
from gapwatch.sinks.api.issue_routes import IssueRoutes
from gapwatch.sinks.api.login import Login
from gapwatch.sinks.api.overview_page import PAGE_HEADERS, PATHS, error_page, read_page
from gapwatch.sinks.api.query import CONTENT_TYPES, FORMS, BusyError, Form, LiveQueries, QueryLimitError
from gapwatch.sinks.api.request_body import read_object
from gapwatch.sinks.api.sessions import Sessions
from gapwatch.sinks.api.site import HttpSite, json_answer, metrics_answer
from gapwatch.sinks.api.snapshots import LiveSnapshots
from gapwatch.sinks.api.token_attempts import TokenAttempts
from gapwatch.sinks.issues.records import record_reader
from gapwatch.sinks.metrics.health import RunHealth
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.store.decisions import Annotation, Decisions, HumanDecision
from gapwatch.sinks.store.ledger import Balance, read_balance
from gapwatch.sinks.store.store import Store

log = logging.getLogger("gapwatch.api")


_REQUEST_LIMIT = 2**20  # bytes
#: POST requests that change no store.
_READING_POSTS = ("/v1/query", "/login", "/logout")
#: Seconds that a request waits for its decision to be stored; then the answer is that it still waits.
_DECISION_SECONDS = 10.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
#: Returns the decision of a JSON object; raises UsageError if the object is not valid.
DecisionReader = Callable[[Mapping[str, Any]], HumanDecision]
#: Returns the HTML of the page of an alert, by its id; raises UsageError if the store has no such alert.
AlertPage = Callable[[duckdb.DuckDBPyConnection, str], str]
Post = Callable[[dict[str, Any]], dict[str, Any]]


class ApiServer:
    """Serves one store that this process writes, from `start` to `stop`.

    Args:
        store: Store that is open for writing. Call `stop` before its `close`.
        metrics: Live metrics, updated with every slice.
        health: State of the run.
        decisions: Queue that the writer thread empties.
        options: Address, tokens and limits.
        readers: Functions that read further kinds of decisions, by path.
        alert_page: Makes the page of an alert; None: there are no such pages.
        finished_lane: Lane to show of a store that no process writes: requests that change the store are refused, and
            no note is written. Empty: this process writes the store, and the lane is `live`.
    """

    def __init__(
        self,
        store: Store,
        metrics: LiveMetrics,
        health: RunHealth,
        decisions: Decisions,
        options: ApiOptions | None = None,
        readers: Mapping[str, DecisionReader] | None = None,
        alert_page: AlertPage | None = None,
        finished_lane: str = "",
    ) -> None:
        self._finished_lane = finished_lane
        self._alert_page = alert_page
        self.options = options or ApiOptions()
        self._readers = {"/v1/annotations": _read_annotation, **record_reader(), **(readers or {})}
        self._store_path, self._cursor = store.path, store.cursor
        self._metrics, self._health, self._decisions = metrics, health, decisions
        self._queries: LiveQueries | None = None
        self._snapshots = LiveSnapshots(store.cursor, store.path)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._posts: dict[str, tuple[Executor, Post]] = {}
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._site = HttpSite("the API", self.options)
        self._note: ApiNote | None = None
        self._sessions = Sessions(self.options.read_token, self.options.port)
        self._attempts = TokenAttempts()
        self._login = Login(self.options, self._sessions, self._attempts)

    @property
    def url(self) -> str:
        """URL of the API."""
        return self._site.url

    def offer(self, posts: Mapping[str, Post], store_thread: Executor) -> None:
        """Add handlers of POST requests, by path, which run in the writer thread; called before `start`."""
        self._posts |= {path: (store_thread, post) for path, post in posts.items()}

    def start(self) -> None:
        """Start the server, and write the note beside the store.

        Raises:
            UsageError: The server cannot listen on the address.
            JobError: The note cannot be written.
        """
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        if self._finished_lane:
            return
        note = ApiNote(self.url, os.getpid(), self.options.read_token, self.options.write_token)
        try:
            write_note(self._store_path, note)
        except JobError:
            self.stop()
            raise
        self._note = note
        log.debug("page, metrics and queries at %s", self.url)

    def stop(self) -> None:
        """End the queries, stop the server, close its cursors and remove the note; takes at most about 5 s."""
        if self._note is not None:
            remove_note(self._store_path, self._note)
            self._note = None
        self._decisions.close()
        if self._loop is not None and self._stopping is not None and self._thread is not None:
            with contextlib.suppress(RuntimeError):  # the server has failed, and its loop has ended
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(timeout=5.0)
            self._loop = None

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.is_set():
                log.exception("the API has failed; the stream continues without it")
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._queries = LiveQueries(self._cursor, self.options.limits)
        application = web.Application(middlewares=[self._guard], client_max_size=_REQUEST_LIMIT)
        application.add_routes(
            [
                *(web.get(path, self._serve_page) for path in PATHS),
                *self._login.routes(),
                web.get("/alerts/{alert}", self._serve_alert),
                *IssueRoutes(self._queries.run, self._submit, not self._finished_lane).routes(),
                web.get("/metrics", self._serve_metrics),
                web.get("/healthz", self._serve_alive),
                web.get("/readyz", self._serve_ready),
                web.get("/v1/query", self._serve_query),
                web.post("/v1/query", self._serve_query),
                web.get("/v1/ledger", self._serve_ledger),
                web.get("/v1/about", self._serve_about),
                *(web.post(path, self._take_decision) for path in self._readers),
                web.post("/v1/snapshots", self._take_snapshot),
                *(web.post(path, self._take_post) for path in self._posts),
            ]
        )
        try:
            # A query ends when its client disconnects.
            await self._site.start(application, handler_cancellation=True)
            self._started.set()
            await self._stopping.wait()
        finally:
            await self._snapshots.close()
            await self._queries.close()
            await self._site.stop()

    # --- access

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the caller, answer every error as JSON or as a page, and name the version of the API."""
        answer = await self._answer(request, handler)
        answer.headers[API_HEADER] = API_VERSION
        return answer

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            check_caller(request, self.options, self.url, self._attempts, self._sessions)
            if self._finished_lane and request.method == "POST" and request.path not in _READING_POSTS:
                raise web.HTTPConflict(text="nothing can be changed here: gapwatch serve only shows the store")
            return await handler(request)
        except LoginNeededError:
            return self._login.refer(request)
        except web.HTTPException as error:
            return _error(request, error.status, error.text or error.reason)
        except QueryLimitError as error:
            return _error(request, 422, str(error), limit=error.limit)
        except BusyError as error:
            return _error(request, 503, str(error))
        except UsageError as error:
            return _error(request, 400, str(error))
        except GapwatchError as error:
            return _error(request, 500, str(error))
        except Exception:
            log.exception("a request for %s failed", request.path)
            return _error(request, 500, "this is a defect of Gapwatch; its log has the details")

    # --- handlers

    async def _serve_page(self, request: web.Request) -> web.Response:
        has_session = self._sessions.holds(request.cookies.get(self._sessions.cookie, ""))
        body, headers = await asyncio.to_thread(read_page, request.path, has_session, self._finished_lane or "live")
        return web.Response(body=body, headers=headers)

    async def _serve_alert(self, request: web.Request) -> web.Response:
        make, wanted = self._alert_page, request.match_info["alert"]
        if make is None:
            raise web.HTTPNotFound(text="this process has no pages of alerts: it runs with --no-alerts")
        assert self._queries is not None
        try:
            text = await self._queries.run(lambda con: make(con, wanted))
        except UsageError as error:
            raise web.HTTPNotFound(text=str(error)) from None
        return web.Response(body=text.encode(), headers={"Content-Type": "text/html; charset=utf-8", **PAGE_HEADERS})

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        assert self._queries is not None
        self._metrics.show("gapwatch_queries_total", {(name,): n for name, n in self._queries.outcomes.items()})
        self._metrics.show("gapwatch_queries_running", {(): self._queries.running})
        return await asyncio.to_thread(metrics_answer, self._metrics.registry, request)

    async def _serve_alive(self, _request: web.Request) -> web.Response:
        good, answer = self._health.alive()
        return json_answer(answer, 200 if good else 503)

    async def _serve_ready(self, _request: web.Request) -> web.Response:
        good, answer = self._health.ready()
        return json_answer(answer, 200 if good else 503)

    async def _serve_query(self, request: web.Request) -> web.Response:
        asked = await read_object(request) if request.method == "POST" else dict(request.query)
        sql, form = asked.get("sql"), asked.get("format", "json")
        parameters: Any = asked.get("parameters", [])
        rows = asked.get("rows")
        if not isinstance(sql, str):
            raise UsageError("send the query as `sql`, a text")
        if form not in FORMS:
            raise UsageError(f"format must be one of {', '.join(FORMS)}")
        if not isinstance(parameters, list):
            raise UsageError("parameters must be a list, with one value for each ? of the query")
        assert self._queries is not None
        answer = await self._queries.answer(sql, parameters, _form(form), _whole(rows))
        headers = {"Content-Type": CONTENT_TYPES[_form(form)], "Gapwatch-Rows": str(answer.rows)}
        if answer.truncated:
            headers["Gapwatch-Truncated"] = answer.truncated
        return web.Response(body=answer.body, headers=headers)

    async def _serve_ledger(self, _request: web.Request) -> web.Response:
        def read(con: duckdb.DuckDBPyConnection) -> Balance:
            con.execute("BEGIN TRANSACTION READ ONLY")  # its queries see one commit
            try:
                return read_balance(con)
            finally:
                con.execute("ROLLBACK")

        assert self._queries is not None
        return json_answer(dataclasses.asdict(await self._queries.run(read)))

    async def _serve_about(self, _request: web.Request) -> web.Response:
        return json_answer(
            {"program": "gapwatch", "version": program_version(), "store": str(self._store_path.absolute())}
        )

    async def _take_post(self, request: web.Request) -> web.Response:
        store_thread, post = self._posts[request.path]
        asked = await read_object(request)  # shielded: work that has begun in the writer thread is finished
        return json_answer(await asyncio.shield(asyncio.get_running_loop().run_in_executor(store_thread, post, asked)))

    async def _take_decision(self, request: web.Request) -> web.Response:
        return json_answer(*await self._submit(self._readers[request.path](await read_object(request))))

    async def _submit(self, decision: HumanDecision) -> tuple[dict[str, Any], int]:
        """Store a decision; return the answer and its status."""
        applied = asyncio.wrap_future(self._decisions.submit(decision))
        try:
            said = await asyncio.wait_for(asyncio.shield(applied), _DECISION_SECONDS)
        except TimeoutError:
            applied.add_done_callback(lambda done: done.cancelled() or done.exception())
            return {"applied": False, "waiting": "for the next transaction of the store"}, 202
        return {"applied": True, **({"said": said} if said else {})}, 200

    async def _take_snapshot(self, request: web.Request) -> web.Response:
        name = (await read_object(request)).get("name")
        if not isinstance(name, str | None):
            raise UsageError("send the `name` of the snapshot as a text, or leave it out")
        return json_answer(dataclasses.asdict(await self._snapshots.take(name)))


def _read_annotation(asked: Mapping[str, Any]) -> Annotation:
    texts = {name: asked.get(name) for name in ("text", "pipeline", "by", "at")}
    if any(not isinstance(value, str | None) for value in texts.values()) or texts["text"] is None:
        raise UsageError("send the annotation as `text`; `pipeline`, `by` and `at` are optional; all are texts")
    return Annotation.read(texts["text"], texts["pipeline"], texts["by"], texts["at"])


def _error(request: web.Request, status: int, message: str, **more: str) -> web.Response:
    if asks_for_page(request):
        body, headers = error_page(request.path, status, message)
        return web.Response(body=body, status=status, headers=headers)
    return json_answer({"error": message, **more}, status)


def _form(form: Any) -> Form:
    return next(known for known in FORMS if known == form)


def _whole(rows: Any) -> int | None:
    if rows is None:
        return None
    try:
        return int(rows)
    except (TypeError, ValueError):
        raise UsageError("rows must be a whole number") from None
