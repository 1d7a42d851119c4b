"""Builds the request of a verdict again from its row, byte for byte, by the hashes in it; or says why it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import zstandard

from scorers.errors import UsageError
from scorers.judges.chat_model import ChatCall
from scorers.judges.prompt import JudgePrompt, input_sha, judge_prompt, request_sha, template_sha
from scorers.plan import compile_plan
from scorers.policy import fixed_policy
from scorers.portfolio import Portfolio, parse_portfolio
from scorers.score import Scorer, score
from scorers.slices import RecordSlice
from sinks.row_place import find_row, place_of
from sinks.store_reader import StoreReader

_COLUMNS = (
    "portfolio_sha", "outcome", "score", "band", "judge_model_id", "judge_prompt_sha", "judge_sampling_params_sha",
    "judge_request_sha", "judge_input_sha", "evidence",
)  # fmt: skip
_ANY_SIZE = 1 << 31


@dataclass(frozen=True)
class Rebuilt:
    """A request as it was sent.

    Attributes:
        row: Of the verdict, by column.
        call: Equal in every byte to what was sent.
        prompt: To read an answer by.
        nonce: Of the call.
    """

    row: dict[str, Any]
    call: ChatCall
    prompt: JudgePrompt
    nonce: str


def verdict_row(con: StoreReader, place: str) -> dict[str, Any]:
    """Return the row of one judge at a place.

    Raises:
        UsageError: There is no such row, or more than one.
    """
    return find_row(con, place, _COLUMNS)


class Rebuilder:
    """Rebuilds requests; what is compiled for one portfolio is kept for the next row."""

    def __init__(self, con: StoreReader) -> None:
        self._con = con
        self._scorers: dict[str, tuple[Portfolio, Scorer]] = {}

    def rebuild(self, row: dict[str, Any]) -> Rebuilt:
        """Return the request of a row.

        Raises:
            UsageError: It cannot be rebuilt; the message says what is missing.
        """
        place = place_of(row)
        sent = (orjson.loads(row["evidence"] or "{}")).get("request")
        if sent is None or row["judge_request_sha"] is None:
            raise UsageError(f"{place}: no request was sent for this row ({row['outcome']})")
        portfolio, scorer = self._scorer(row["portfolio_sha"], place)
        metric = next(m for m in portfolio.metrics if m.name == row["metric"])
        prompt = self._prompt(judge_prompt(metric.claim), row["judge_prompt_sha"], place)  # type: ignore[arg-type]
        inputs = self._inputs(row, portfolio, scorer, place)
        call = prompt.call(sent["model"], sent["params"], inputs, sent["nonce"])
        if request_sha(call) != row["judge_request_sha"]:
            raise UsageError(f"{place}: the request can be built, but its hash is not the row's; it is not the same")
        return Rebuilt(row, call, prompt, sent["nonce"])

    def _scorer(self, sha: str, place: str) -> tuple[Portfolio, Scorer]:
        if sha not in self._scorers:
            found = self._con.execute("SELECT yaml FROM portfolios WHERE portfolio_sha = ?", [sha]).fetchall()
            if not found:
                raise UsageError(f"{place}: the store has no portfolio {sha[:12]}")
            portfolio = parse_portfolio(found[0][0])
            self._scorers[sha] = (portfolio, Scorer(compile_plan([_judged_only(portfolio)])))
        return self._scorers[sha]

    def _prompt(self, prompt: JudgePrompt, sha: str, place: str) -> JudgePrompt:
        found = self._con.execute("SELECT text FROM templates WHERE sha = ?", [sha]).fetchall()
        if not found:
            raise UsageError(f"{place}: the store has no template {sha[:12]}")
        if template_sha(found[0][0]) != sha:
            raise UsageError(f"{place}: the template {sha[:12]} in the store does not have that hash; it was changed")
        return JudgePrompt(found[0][0], sha, prompt.scale, prompt.response_format)

    def _inputs(self, row: dict[str, Any], portfolio: Portfolio, scorer: Scorer, place: str) -> dict[str, str | None]:
        found = self._con.execute(
            """SELECT record FROM samples WHERE lane = ? AND source_topic = ? AND source_partition = ?
                AND source_offset = ? LIMIT 1""",
            [row[name] for name in ("lane", "source_topic", "source_partition", "source_offset")],
        ).fetchall()
        if not found:
            raise UsageError(
                f"{place}: the sample of the trace is gone (retention), so the input is not known any more"
            )
        record = zstandard.ZstdDecompressor().decompress(found[0][0], max_output_size=_ANY_SIZE)
        for request in _requests(portfolio, scorer, row, record):
            same = all(request[name] == row[name] for name in ("span_index", "metric", "judge"))
            if same and input_sha(request["inputs"]) == row["judge_input_sha"]:
                inputs: dict[str, str | None] = request["inputs"]
                return inputs
        raise UsageError(
            f"{place}: the sample of the trace does not give the input that was judged; redaction changed it more "
            "in the whole record than in the field"
        )


def _judged_only(portfolio: Portfolio) -> Portfolio:
    """Leave out what needs Python scorers: they are not at hand here, and judge nothing."""
    metrics = tuple(m for m in portfolio.metrics if m.claim.form in ("judge", "compare"))
    return portfolio.model_copy(update={"metrics": metrics})


def _requests(portfolio: Portfolio, scorer: Scorer, row: dict[str, Any], record: bytes) -> list[dict[str, Any]]:
    offset = row["source_offset"]
    records = RecordSlice(
        row["lane"], row["source_topic"], row["source_partition"], offset, offset + 1,
        np.array([offset], dtype=np.int64), pa.array([record], pa.binary()),
    )  # fmt: skip
    scored = score(scorer, fixed_policy([scorer.plan.portfolios[0]]), records)
    return [orjson.loads(value) for value in scored.tables["judge_requests"].column("value").to_pylist()]
