"""Posts the messages of the topic `alerts` that call somebody to one address, at least once, in order.

The store records the last posted commit, so alerts of a night without an answer are posted in the morning. Posting
delays nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from gapwatch.publisher.back_off import BackOff
from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.store.outbox import OutboxRow, last_seq, outbox_rows, relayed_seqs, waiting_seqs
from gapwatch.sinks.store.topics import ALERTS_TOPIC
from gapwatch.sinks.store.transaction import Connection
from gapwatch.streams.alerting.delivery.message import message_text
from gapwatch.streams.alerting.incidents.links import AlertLinks

log = logging.getLogger("gapwatch.webhook")

#: Name under which the store records the last posted commit.
MARK = "webhook"
TIMEOUT_SECONDS = 5.0
#: Seconds between looks for new messages, and between attempts while the address does not answer.
LOOK_SECONDS, FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 1.0, 60.0
_COMMITS_A_ROUND = 20
#: Status codes that a retry will not change: the message is skipped, and the next one is posted.
_REFUSED = (400, 401, 403, 404, 405, 410, 413, 415, 422)


def check_address(url: str) -> str:
    """Return the address.

    Raises:
        UsageError: The text is not an http or https address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("--webhook is not a valid address; write https://host/path")
    return url


class AlertWebhook:
    """Posts alerts to an address until it is cancelled.

    Args:
        url: Address; may hold a secret, and is never logged.
        cursor: Returns a connection for reading the store.
        mark: Records in the store the last commit whose messages were posted.
        links: Places where a person finds more; each message names them.

    Attributes:
        waiting_for: Reason why nothing is posted now; empty where posts succeed.
        refused: Messages that the address has refused so far.
    """

    def __init__(
        self,
        url: str,
        cursor: Callable[[], Connection],
        mark: Callable[[dict[str, int]], Awaitable[None]],
        links: AlertLinks | None = None,
    ) -> None:
        self._links = links or AlertLinks()
        self._url, self._cursor, self._mark = check_address(url), cursor, mark
        self._done: int | None = None
        self.waiting_for = ""
        self.refused = 0

    async def run(self) -> None:
        """Post new messages; ends by cancellation, or with the error that `mark` raises."""
        back_off = BackOff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        while True:
            try:
                while await self._round():
                    back_off.reset()
                self.waiting_for = ""
            except (OSError, HTTPException) as error:
                if not self.waiting_for:
                    log.warning("the webhook does not accept alerts (%s); Gapwatch posts them later", error)
                self.waiting_for = f"the webhook does not answer: {error}"
                await back_off.wait()
                continue
            await asyncio.sleep(LOOK_SECONDS)

    async def _round(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._done is None:
            known, last = await loop.run_in_executor(None, self._begin)
            if known is None:  # a new address gets no alerts from before it was set
                await self._mark({MARK: last})
            self._done = last if known is None else known
        waiting = await loop.run_in_executor(None, self._waiting)
        for seq, rows in waiting:
            for row in rows:
                if is_quiet(row):
                    continue
                await loop.run_in_executor(None, self._post, row)
            await self._mark({MARK: seq})
            self._done = seq
        return bool(waiting)

    def _begin(self) -> tuple[int | None, int]:
        with self._reading() as cursor:
            return relayed_seqs(cursor).get(MARK), last_seq(cursor, ALERTS_TOPIC)

    def _waiting(self) -> list[tuple[int, list[OutboxRow]]]:
        assert self._done is not None
        with self._reading() as cursor:
            seqs = waiting_seqs(cursor, ALERTS_TOPIC, self._done, _COMMITS_A_ROUND)
            return [(seq, outbox_rows(cursor, ALERTS_TOPIC, seq)) for seq in seqs]

    def _reading(self) -> contextlib.closing[Any]:
        return contextlib.closing(self._cursor())

    def _post(self, row: OutboxRow) -> None:
        message = json.loads(row.value)
        ident = message.get("incident_id") or message["alert_id"]
        more = {"command": self._links.command(ident)}
        if page := self._links.page_of(ident):
            more["page"] = page
        body = json.dumps({"id": row.id, "text": message_text(message), **more, **message}).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "gapwatch", "Gapwatch-Id": row.id}
        request = urllib.request.Request(self._url, body, headers, method="POST")  # noqa: S310  http or https only
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                answer.read(1_000)
        except urllib.error.HTTPError as refusal:
            with refusal:
                if refusal.code not in _REFUSED:
                    raise
            self.refused += 1
            log.error("the webhook refused alert %s with status %d; Gapwatch skips this message", row.id, refusal.code)


def is_quiet(row: OutboxRow) -> bool:
    """Return True for a message that calls nobody: a known incident has gained or lost an alert, or has a new name."""
    return bool(json.loads(row.value).get("quiet"))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: an alert goes to the configured address only."""

    def redirect_request(self, *_: Any) -> None:
        """Return None: the redirect is not followed."""
