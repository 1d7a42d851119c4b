"""Client of the API of the process that stores, for judge processes: leases of money, and portfolios."""

from __future__ import annotations

import logging
from typing import Any

import aiohttp
import orjson

from gapwatch.publisher.back_off import BackOff
from gapwatch.scorers.errors import JobError
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.reading.stored_portfolios import PORTFOLIO_BY_SHA
from gapwatch.sinks.verdicts.budget_leases import Grant, Lease, Settlements
from gapwatch.streams.judges.secret import Secret

log = logging.getLogger("gapwatch.judges")

_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.2, 10.0
_TIMEOUT_SECONDS = 15.0
#: Seconds for which a connection is used again. Longer than the server keeps one at rest: a request may meet its end.
_IDLE_SECONDS = 5.0


class StoreClient:
    """Asks the API of one process; waits while it is away, because only it knows what may be spent.

    Args:
        url: Address of the API, such as `http://127.0.0.1:9464`.
        token: Write token of the API.

    Attributes:
        waiting_for: Error of the last attempt; empty after a success.
    """

    def __init__(self, url: str, token: Secret) -> None:
        self._url, self._token = url.rstrip("/"), token
        self._http: aiohttp.ClientSession | None = None
        self.waiting_for = ""

    async def lease(
        self, portfolio: str, metric: str, least: float, wanted: float, settled: Settlements, id_: str, keeps: bool
    ) -> Grant:
        """Settle leases and return one of at least `least` US dollars, if the cap allows it.

        Raises:
            JobError: The API refuses the request.
        """
        asked = {
            "portfolio": portfolio, "metric": metric, "least": least, "wanted": wanted, "id": id_, "keeps": keeps,
            **_settled(settled),
        }  # fmt: skip
        granted = await self._post("/v1/judges/lease", asked)
        lease = granted["lease"]
        return Grant(None if lease is None else Lease(**lease), granted["may_wait"], granted["rest"])

    async def settle(self, settled: Settlements) -> None:
        """End leases."""
        if settled:
            await self._post("/v1/judges/settle", _settled(settled))

    async def portfolio(self, sha: str) -> Portfolio | None:
        """Return the portfolio of a sha; None if the store does not have it."""
        rows = await self._post("/v1/query", {"sql": PORTFOLIO_BY_SHA, "parameters": [sha], "format": "json"})
        return parse_stored_portfolio(rows[0]["yaml"]) if rows else None

    async def close(self) -> None:
        """Close the connection."""
        if self._http is not None:
            await self._http.close()

    async def _post(self, path: str, asked: dict[str, Any]) -> Any:
        back_off = BackOff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        if self._http is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=_IDLE_SECONDS)
            self._http = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(_TIMEOUT_SECONDS))
        while True:
            try:
                async with self._http.post(
                    self._url + path, json=asked, headers={"authorization": f"Bearer {self._token.reveal()}"},
                    allow_redirects=False,
                ) as response:  # fmt: skip
                    status, text = response.status, await response.text()
            except (aiohttp.ClientError, OSError, TimeoutError, UnicodeDecodeError) as error:
                why = f"the process that stores does not answer at {self._url} ({type(error).__name__})"
            else:
                if status < 300:
                    self.waiting_for = ""
                    return orjson.loads(text)
                why = f"the process that stores at {self._url} answers with status {status}: {text[:200]}"
                if status < 500:
                    raise JobError(why)
            if why != self.waiting_for:
                log.warning("%s; trying again", why)
            self.waiting_for = why
            await back_off.wait()


def _settled(settled: Settlements) -> dict[str, Any]:
    return {"settled": [{"id": lease.id, "usd": unspent} for lease, unspent in settled]}
