"""Asks judges again what ended as an error: `gapwatch judge retry`, by command or over the API.

A retry opens the request again under a new id; the old request, its row, its tick and its ledger entry stay. The new
verdict is stored as an override of the row, so `verdicts` shows it, and rates, ledger and detectors do not count the
span a second time.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.ensemble import ENSEMBLE, Vote, decide
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import JudgeRequest, request_id
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.author import check_author
from gapwatch.sinks.reading.since import parse_since
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.schema import RETRIED_VERDICTS
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.topics import JUDGE_REQUESTS_TOPIC
from gapwatch.sinks.verdicts.budget_leases import Caps, JudgeMoney, week_of

RETRY_PATH = "/v1/judges/retry"
#: Author of the overrides that verdicts of retries write; who asked again stands in `annotations`.
RETRIED = "judge retry"
#: Outcomes with which a judge or an ensemble has decided.
DECIDED = ("pass", "warn", "fail")
_MARK = "-again"
_IF_MISSING = RETRIED_VERDICTS.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)
_TEXT_LIMIT = 1_000
#: State, score and position of an answer.
Answer = tuple[str, float | None, float | None]
_NAMES = ("reason", "metric", "judge", "since")
_IDENTITY = (
    "lane", "source_topic", "source_partition", "source_offset", "span_index", "metric", "metric_version", "judge",
)  # fmt: skip
_ERRORS = f"""SELECT {", ".join(_IDENTITY)}, split_part(coalesce(reason, 'unknown'), ':', 1), portfolio_sha
    FROM verdicts WHERE judge <> '{ENSEMBLE}' AND scored_outcome = 'error' AND outcome = 'error'
        AND (? IS NULL OR metric = ?) AND (? IS NULL OR judge = ?) AND (? IS NULL OR kept_at >= ?)"""
_LAST_IDS = f"""SELECT split_part(r.id, '{_MARK}', 1), r.id, bool_or(c.id IS NOT NULL)
    FROM internal.judge_requests r LEFT JOIN internal.judge_closed c USING (id)
    WHERE split_part(r.id, '{_MARK}', 1) IN (SELECT unnest(?)) GROUP BY r.id ORDER BY len(r.id), r.id"""
_AGAIN = """SELECT ?::BIGINT AS seq, n.again AS id, any_value(r."key") AS "key", any_value(r."value") AS "value"
    FROM internal.judge_requests r JOIN (SELECT unnest(?) AS id, unnest(?) AS again) n ON r.id = n.id
    GROUP BY n.again"""
_MEAN_USD = (
    """SELECT metric, judge, sum(usd) / count(DISTINCT request_id) FROM judge_calls WHERE usd > 0 GROUP BY ALL"""
)


def is_retry(id_: str) -> bool:
    """Return whether a request asks again what another request asked."""
    return _MARK in id_


def first_id(id_: str) -> str:
    """Return the id of the request that a request asks again; its own id if it is no retry."""
    return id_.partition(_MARK)[0]


def _next_id(id_: str) -> str:
    first, _, number = id_.partition(_MARK)
    return f"{first}{_MARK}{int(number or 0) + 1}"


@dataclass(frozen=True)
class Retry:
    """A person's decision to ask judges again.

    Attributes:
        where: Conditions on the errors: reason, metric, judge, since.
        by: Name of the person.
    """

    where: Mapping[str, str]
    by: str

    @classmethod
    def read(cls, asked: Mapping[str, Any]) -> Retry:
        """Return the retry from the values of a request or of a command line.

        Args:
            asked: `where`, a list of texts such as `reason=refused_key`, and `by`, a name.

        Raises:
            UsageError: A condition is missing, unknown or given twice, or there is no author.
        """
        given = asked.get("where")
        if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
            raise UsageError(f"send `where`, a list of conditions NAME=VALUE; the names are {', '.join(_NAMES)}")
        where: dict[str, str] = {}
        for text in given:
            name, _, value = text.partition("=")
            if name not in _NAMES or not value or len(value) > _TEXT_LIMIT:
                raise UsageError(f"--where {text[:100]!r}: expected NAME=VALUE; the names are {', '.join(_NAMES)}")
            if name in where:
                raise UsageError(f"--where {name} is given twice; run the command once for each value")
            where[name] = value
        author = check_author(asked.get("by"), "retry")
        if len(author) > _TEXT_LIMIT:
            raise UsageError(f"by must be a text of at most {_TEXT_LIMIT} characters")
        if "since" in where:
            parse_since(where["since"], datetime.now(UTC), "--where since")
        return cls(where, author)

    def apply(self, store: Store, at: datetime) -> dict[str, Any]:
        """Open the matching requests again, in one transaction, and record who asked for it.

        Args:
            store: Store that is open for writing.
            at: Current time, with a time zone.

        Returns:
            Counts by what became of the errors, the expected cost in US dollars, and the budgets it is paid from.

        Raises:
            UsageError: No error has this reason; the message names the reasons that exist.
            JobError: The store could not be written. Nothing is asked again.
        """
        with closing(store.cursor()) as cursor:
            errors = self._errors(cursor, at)
            ids = [request_id(*row[: len(_IDENTITY)]) for row in errors]
            last = {first: (id_, bool(done)) for first, id_, done in cursor.execute(_LAST_IDS, [ids]).fetchall()}
            open_now = [id_ for id_ in ids if id_ in last and not last[id_][1]]
            chosen = [
                (row, last[id_][0]) for row, id_ in zip(errors, ids, strict=True) if last.get(id_, ("", False))[1]
            ]
            cost = _cost(cursor, [row for row, _ in chosen])
        if chosen:
            store.record("asking judges again", lambda con, seq: self._write(con, seq, chosen, at))
        return {
            "asked_again": len(chosen),
            "by_reason": dict(Counter(row[-2] for row, _ in chosen)),
            "still_waiting": len(open_now),
            "expired": len(ids) - len(chosen) - len(open_now),
            **cost,
            "budgets": _budgets(store, sorted({row[-1] for row, _ in chosen}), at),
        }

    def _errors(self, con: duckdb.DuckDBPyConnection, at: datetime) -> list[tuple[Any, ...]]:
        since = parse_since(self.where["since"], at) if "since" in self.where else None
        metric, judge, reason = (self.where.get(name) for name in ("metric", "judge", "reason"))
        rows = con.execute(_ERRORS, [metric, metric, judge, judge, since, since]).fetchall()
        if reason is None:
            return rows
        found = [row for row in rows if row[-2] == reason]
        if not found:
            counts = Counter(row[-2] for row in con.execute(_ERRORS, [None] * 6).fetchall())
            if reason not in counts:
                there = ", ".join(f"{name} ({n:,})" for name, n in counts.most_common()) or "none: no error is stored"
                raise UsageError(f"no error has the reason {reason[:100]!r}; the reasons in this store are: {there}")
        return found

    def _write(
        self, con: duckdb.DuckDBPyConnection, seq: int, chosen: Sequence[tuple[tuple[Any, ...], str]], at: datetime
    ) -> None:
        before = [id_ for _, id_ in chosen]
        con.execute(f"INSERT INTO internal.judge_requests {_AGAIN}", [seq, before, [_next_id(id_) for id_ in before]])
        live = [id_ for row, id_ in chosen if row[0] == "live"]
        if live:
            con.execute(
                f"""INSERT INTO internal.outbox (seq, id, topic, "key", "value", headers)
                SELECT seq, id, '{JUDGE_REQUESTS_TOPIC}', "key", "value", '{{}}' FROM ({_AGAIN})""",
                [seq, live, [_next_id(id_) for id_ in live]],
            )
        clause = " ".join(f"--where {name}={value}" for name, value in self.where.items())
        said = f"gapwatch judge retry {clause}: {len(before):,} requests are asked again"
        stamp = at.astimezone(UTC).replace(tzinfo=None)
        insert_row(con, "annotations", {"at": stamp, "pipeline": None, "text": said, "by": self.by})


def _cost(con: duckdb.DuckDBPyConnection, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Return the expected cost by what a request to the same judge of the same metric has cost on average so far."""
    mean = {(metric, judge): usd for metric, judge, usd in con.execute(_MEAN_USD).fetchall()}
    priced = [mean[row[5], row[7]] for row in rows if (row[5], row[7]) in mean]
    return {"expected_usd": sum(priced), "without_known_cost": len(rows) - len(priced)}


def _budgets(store: Store, shas: Sequence[str], at: datetime) -> list[dict[str, Any]]:
    """Return the weekly cap of each portfolio, and what is left of it; None where it has no cap."""
    found = {}
    texts = store.query("SELECT DISTINCT yaml FROM portfolios WHERE portfolio_sha IN (SELECT unnest(?))", [list(shas)])
    for (text,) in texts:
        portfolio = parse_stored_portfolio(text)
        cap = portfolio.budget.judge_usd_per_week if portfolio.budget is not None else None
        caps = Caps({} if cap is None else {portfolio.portfolio: cap}, {})
        left = JudgeMoney(store, caps).left(portfolio.portfolio, "", week_of(at))
        found[portfolio.portfolio] = {"portfolio": portfolio.portfolio, "usd_per_week": cap, "left_usd": left}
    return [found[name] for name in sorted(found)]


class RetriedVotes:
    """Answers of the members of ensembles: the first of each, and the last with a verdict among its retries."""

    def __init__(self) -> None:
        self._first: dict[str, Answer] = {}
        self._last: dict[str, Answer] = {}

    def take(self, id_: str, state: str, score: float | None, position: float | None) -> None:
        """Add an answer, in the order in which they were stored."""
        first = first_id(id_)
        if not is_retry(id_):
            self._first[first] = (state, score, position)
        if first not in self._last or state in DECIDED:
            self._last[first] = (state, score, position)

    def decisions(self, request: JudgeRequest) -> tuple[tuple[str, float | None], tuple[str, float | None]]:
        """Return state and score of the ensemble of a request without and with the retries."""
        return self._decision(request, self._first), self._decision(request, self._last)

    def _decision(self, request: JudgeRequest, answers: Mapping[str, Answer]) -> tuple[str, float | None]:
        named = ((judge, answers.get(request.id_of(judge))) for judge in request.members)
        votes = [Vote(judge, answer[0], answer[2]) for judge, answer in named if answer is not None]
        decision = decide(votes, request.quorum, request.passes_from)
        return decision.state, decision.score


def retried_override(
    request: JudgeRequest, judge: str, judgement: Judgement, at: datetime, outcome: str, score: float | None,
    label: str | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the row of `overrides` for the verdict of a retry.

    Args:
        request: Request that was asked again.
        judge: Judge of the row that the verdict replaces: the request's own, or the ensemble.
        judgement: Answer of the judge.
        at: Time of closing, naive UTC.
        outcome: Outcome of the row from now on.
        score: Its score; None without one.
        label: Its word of the scale; None without one.
    """
    triple = judgement.triple
    pinned = {
        "model": triple.model_id if triple else None,
        "prompt_sha": triple.prompt_sha if triple else judgement.prompt_sha,
        "sampling_params_sha": triple.sampling_params_sha if triple else judgement.sampling_params_sha,
        "request_sha": judgement.request_sha,
        "request": judgement.id,
    }
    said = judgement.evidence.get("justification") or judgement.reason or "asked again"
    why = f"{said} [{', '.join(f'{name} {value}' for name, value in pinned.items() if value)}]"
    place = {name: getattr(request, name) for name in _IDENTITY}
    return {
        "override_id": secrets.token_hex(16), **place, "judge": judge, "outcome": outcome, "score": score,
        "label": label, "why": why, "by": RETRIED, "at": at,
    }  # fmt: skip


def insert_retried(
    con: duckdb.DuckDBPyConnection, overrides: Sequence[Mapping[str, Any]], judgements: Sequence[Judgement]
) -> None:
    """Insert the overrides of retries and what their requests are rebuilt from, except where a person has decided.

    Args:
        con: Connection of the transaction.
        overrides: Rows of `overrides`.
        judgements: The answer behind each of them.
    """
    if overrides:
        con.execute(_IF_MISSING)
    names = ", ".join(_IDENTITY)
    said = set(con.execute(f'SELECT {names} FROM overrides WHERE "by" IS DISTINCT FROM ?', [RETRIED]).fetchall())
    for override, judgement in zip(overrides, judgements, strict=True):
        if tuple(override[name] for name in _IDENTITY) not in said:
            insert_row(con, "overrides", override)
            if override["judge"] != ENSEMBLE:
                insert_row(con, "retried_verdicts", _retried_row(override["override_id"], judgement))


def _retried_row(override_id: str, judgement: Judgement) -> dict[str, Any]:
    triple = judgement.triple
    return {
        "override_id": override_id,
        "request_id": judgement.id,
        "judge_model_id": triple.model_id if triple else None,
        "judge_prompt_sha": triple.prompt_sha if triple else judgement.prompt_sha,
        "judge_request_sha": judgement.request_sha,
        "judge_input_sha": judgement.input_sha,
        "evidence": orjson.dumps(judgement.evidence).decode(),
    }


def retry_posts(store: Store) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return the handlers of POST requests that ask judges again, by path."""
    return {RETRY_PATH: lambda asked: Retry.read(asked).apply(store, datetime.now(UTC))}
