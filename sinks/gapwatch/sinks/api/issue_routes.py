"""Pages of triage, issues and runs, and the requests of these pages that change the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
from aiohttp import web

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.overview_page import PAGE_HEADERS
from gapwatch.sinks.api.request_body import read_object
from gapwatch.sinks.api.site import json_answer
from gapwatch.sinks.issues.issue_requests import DECIDED_BY
from gapwatch.sinks.issues.records import IssueRecords
from gapwatch.sinks.issues.triaging import SimilarIssuesError
from gapwatch.sinks.pages import issue_pages, run_pages
from gapwatch.sinks.pages.triage_page import triage_page
from gapwatch.sinks.store.decisions import HumanDecision

#: Runs a function on a cursor of the store, with the limits of queries.
Query = Callable[[Callable[[duckdb.DuckDBPyConnection], Any]], Awaitable[Any]]
#: Stores a decision; returns what the answer says of it, and its status.
Submit = Callable[[HumanDecision], Awaitable[tuple[dict[str, Any], int]]]
_SCRIPT = Path(triage_page.__code__.co_filename).with_name("triage.js")


class IssueRoutes:
    """Handlers of the pages and their requests.

    Args:
        query: Runs a function on a cursor of the store.
        submit: Stores a decision.
        may_write: The pages have forms; else they only show.
    """

    def __init__(self, query: Query, submit: Submit, may_write: bool) -> None:
        self._query, self._submit, self._may_write = query, submit, may_write

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """Return the routes."""
        return (
            web.get("/triage", self._serve_triage),
            web.get("/triage.js", self._serve_script),
            web.get("/issues", self._serve_issues),
            web.get("/issues/{issue}", self._serve_issue),
            web.get("/runs", self._serve_runs),
            web.get("/runs/{run}", self._serve_run),
            web.get("/compare", self._serve_comparison),
            *(web.post(path, self._take_decision) for path in DECIDED_BY),
        )

    async def _page(self, make: Callable[[duckdb.DuckDBPyConnection], str]) -> web.Response:
        try:
            text = await self._query(make)
        except UsageError as error:
            raise web.HTTPNotFound(text=str(error)) from None
        return web.Response(body=text.encode(), headers={"Content-Type": "text/html; charset=utf-8", **PAGE_HEADERS})

    async def _serve_triage(self, request: web.Request) -> web.Response:
        return await self._page(lambda con: triage_page(con, self._may_write, request.query.get("kind")))

    async def _serve_script(self, _: web.Request) -> web.Response:
        kind = {"Content-Type": "text/javascript; charset=utf-8", **PAGE_HEADERS}
        return web.Response(body=_SCRIPT.read_bytes(), headers=kind)

    async def _serve_issue(self, request: web.Request) -> web.Response:
        wanted = request.match_info["issue"]
        return await self._page(lambda con: issue_pages.issue_page(con, wanted, self._may_write))

    async def _serve_issues(self, _: web.Request) -> web.Response:
        return await self._page(issue_pages.issues_page)

    async def _serve_runs(self, _: web.Request) -> web.Response:
        return await self._page(run_pages.runs_page)

    async def _serve_run(self, request: web.Request) -> web.Response:
        wanted = request.match_info["run"]
        return await self._page(lambda con: run_pages.run_page(con, wanted))

    async def _serve_comparison(self, request: web.Request) -> web.Response:
        one, other = (request.query.get(name, "") for name in ("baseline", "candidate"))
        return await self._page(lambda con: run_pages.comparison_page(con, one, other))

    async def _take_decision(self, request: web.Request) -> web.Response:
        asked = await read_object(request)
        try:
            decided = await self._query(lambda con: DECIDED_BY[request.path](con, asked))
        except SimilarIssuesError as error:
            return json_answer({"error": str(error), "similar": True}, 409)
        answer, status = await self._submit(IssueRecords.read(decided.rows))
        return json_answer({**answer, "said": decided.said, "issue": decided.issue_id, "items": decided.items}, status)
