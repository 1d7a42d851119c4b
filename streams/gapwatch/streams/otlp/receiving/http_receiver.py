"""OTLP over HTTP: protobuf and JSON, gzip, with the answers of the OTLP specification.

    POST /v1/traces, /api/public/otel/v1/traces, /v1/logs     200, once a kill loses nothing of it
    POST /v1/metrics                                          200, counted and dropped: SDKs send them unasked

It has a thread and an event loop of its own, so that neither slow exporters nor the scoring delay the other.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.sinks.api.access import ApiOptions, is_foreign, names_this_machine, tokens_agree
from gapwatch.sinks.api.site import HttpSite
from gapwatch.sinks.api.token_attempts import TOO_MANY_WRONG, TokenAttempts
from gapwatch.streams.otlp.receiving import answers
from gapwatch.streams.otlp.receiving.inflating import InflateError, InflateLimitError, inflate
from gapwatch.streams.otlp.receiving.intake import (
    BusyReceiverError,
    OtlpIntake,
    OtlpRequest,
    RefusedRequestError,
    Signal,
)
from gapwatch.streams.otlp.receiving.server_thread import ServerThread

log = logging.getLogger("gapwatch.otlp")

#: Most bytes of a body as it is sent. Exporters send some MB at most.
BODY_LIMIT = 20 << 20
#: Most bytes of all bodies that are being read and stored. More: 503, and the exporter sends again.
BODIES_LIMIT = 128 << 20
#: Most inflated bodies at once, each of at most `INFLATED_LIMIT` bytes. Fewer: small ones wait for the disk together
#: less often, and each has an fsync of its own.
_INFLATED_AT_ONCE = 16
#: Seconds in which the body of a request must come.
BODY_SECONDS = 10.0
#: Most connections at once: each process of a pipeline keeps one to three.
CONNECTIONS = 512

#: Compressed bytes up to which a body is inflated at once: a thread costs more.
_SHORT_BYTES = 1 << 14

TRACES_PATHS = ("/v1/traces", "/api/public/otel/v1/traces")
LOGS_PATH, METRICS_PATH = "/v1/logs", "/v1/metrics"
_SIGNALS = {**dict.fromkeys(TRACES_PATHS, Signal.TRACES), LOGS_PATH: Signal.LOGS, METRICS_PATH: Signal.METRICS}

#: gRPC's code for an HTTP status.
_CODES = {
    400: answers.INVALID_ARGUMENT, 401: answers.UNAUTHENTICATED, 403: answers.PERMISSION_DENIED,
    404: answers.NOT_FOUND, 405: answers.UNIMPLEMENTED, 408: answers.DEADLINE_EXCEEDED, 413: answers.RESOURCE_EXHAUSTED,
    415: answers.INVALID_ARGUMENT, 429: answers.RESOURCE_EXHAUSTED, 503: answers.UNAVAILABLE,
}  # fmt: skip


@dataclass(frozen=True)
class OtlpAddress:
    """Address of a receiver.

    Attributes:
        address: IP address or `localhost`.
        port: Port; 0 for any free one.
        token: Token that exporters send; empty: none is needed, which only this machine's addresses allow.
    """

    address: str
    port: int
    token: str = ""


class HttpReceiver:
    """Receives OTLP over HTTP from `start` to `stop`.

    Args:
        at: Address, and token.
        intake: Stores the requests.
    """

    def __init__(self, at: OtlpAddress, intake: OtlpIntake) -> None:
        self._token, self._intake = at.token, intake
        self._options = ApiOptions(at.address, at.port)
        self._site = HttpSite("the OTLP receiver", self._options, option="--otlp", connections=CONNECTIONS)
        self._attempts = TokenAttempts()
        self._server = ServerThread("otlp", self._serve)
        self._bytes = 0
        self._inflating = asyncio.Semaphore(_INFLATED_AT_ONCE)

    @property
    def url(self) -> str:
        """URL that exporters need; its port is known after `start`."""
        return self._site.url

    def start(self) -> None:
        """Start to listen.

        Raises:
            UsageError: The server cannot listen on the address.
        """
        self._server.start()

    def stop(self, seconds: float = 3.0) -> bool:
        """Stop listening, after the requests under way are answered; False if that took longer than `seconds`."""
        return self._server.stop(seconds)

    async def _serve(self, stopping: asyncio.Event, listens: Callable[[], None]) -> None:
        application = web.Application(middlewares=[self._guard])
        application.add_routes(web.post(path, self._receive) for path in _SIGNALS)
        try:
            await self._site.start(application, auto_decompress=False)
            listens()
            await stopping.wait()
        finally:
            await self._site.stop()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer every error as a status, in the encoding of the request."""
        headers: dict[str, str] = {}
        try:
            self._check_caller(request)
            return await handler(request)
        except web.HTTPException as error:
            status, text = error.status, error.text or error.reason
            if "Allow" in error.headers:
                headers["Allow"] = error.headers["Allow"]
        except BusyReceiverError as error:
            status, text = 503, str(error)
            headers["Retry-After"] = str(error.retry_seconds)
        except JobError as error:
            log.error("%s", error)
            status, text = 503, str(error)
            headers["Retry-After"] = "10"
        except Exception:
            log.exception("an OTLP request failed")
            status, text = 500, "this is a defect of Gapwatch; its log has the details"
        signal = _SIGNALS.get(request.path)
        if signal is not None and request.method == "POST":
            self._intake.note_refused(signal, str(status))
        is_json = request.content_type != answers.PROTOBUF
        body = answers.status_body(_CODES.get(status, answers.INTERNAL), text, is_json)
        answer = web.Response(body=body, status=status, headers=headers, content_type=_type(is_json))
        if not request.content.at_eof():  # the rest of a body that is not wanted is not waited for
            answer.force_close()
        return answer

    def _check_caller(self, request: web.Request) -> None:
        if is_foreign(request):
            raise web.HTTPForbidden(text="web pages of other origins may not send spans")
        if self._options.is_local and not self._token and not names_this_machine(request.host, self._options.address):
            raise web.HTTPForbidden(text=f"use the address of this receiver, {self.url}")
        if not self._token:
            return
        address = request.remote or ""
        if self._attempts.are_blocked(address):
            raise web.HTTPTooManyRequests(text=TOO_MANY_WRONG)
        given = _given_token(request.headers.get("Authorization", ""))
        is_right = tokens_agree(given, self._token)
        if given:
            self._attempts.note(address, is_right=is_right)
        if not is_right:
            raise web.HTTPUnauthorized(
                text="send the token of the receiver: OTEL_EXPORTER_OTLP_HEADERS='Authorization=Bearer TOKEN'"
            )

    async def _receive(self, request: web.Request) -> web.Response:
        signal = _SIGNALS[request.path]
        is_json = request.content_type == answers.JSON
        if not is_json and request.content_type != answers.PROTOBUF:
            raise web.HTTPUnsupportedMediaType(text=f"Content-Type must be {answers.PROTOBUF} or {answers.JSON}")
        coding = request.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
        if coding not in ("identity", "gzip"):
            raise web.HTTPUnsupportedMediaType(text="Content-Encoding must be gzip, or absent")
        if (request.content_length or 0) > BODY_LIMIT:
            raise _too_large(f"the body has more than {BODY_LIMIT >> 20} MiB")
        if signal is Signal.METRICS:
            await self._skip(request)
            self._intake.note_dropped(signal)
            return _success(signal, is_json)
        body = bytearray()
        try:
            await self._read(request, body)
            if coding != "gzip" or not body:
                return await self._take(signal, is_json, bytes(body))
            async with self._inflating:  # the inflated bytes are bounded, too
                return await self._take(signal, is_json, await _inflated(bytes(body)))
        finally:
            self._bytes -= len(body)

    async def _take(self, signal: Signal, is_json: bool, body: bytes) -> web.Response:
        if not body:
            return _success(signal, is_json)
        try:
            taken = await self._intake.take(OtlpRequest(signal, is_json, body))
        except RefusedRequestError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        return web.Response(body=answers.success_body(signal, taken, is_json), content_type=_type(is_json))

    async def _read(self, request: web.Request, body: bytearray) -> None:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.content.iter_any():
                    if self._bytes + len(piece) > BODIES_LIMIT:
                        raise BusyReceiverError("too many large requests at once")
                    body += piece
                    self._bytes += len(piece)
                    if len(body) > BODY_LIMIT:
                        raise _too_large(f"the body has more than {BODY_LIMIT >> 20} MiB")
        except TimeoutError:
            raise web.HTTPRequestTimeout(text=f"the body did not come within {BODY_SECONDS:.0f} s") from None
        except (web.RequestPayloadError, ConnectionError):
            raise web.HTTPBadRequest(text="the body is not what its headers say") from None

    async def _skip(self, request: web.Request) -> None:
        """Read a body without keeping it."""
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.content.iter_any():
                    size += len(piece)
                    if size > BODY_LIMIT:
                        raise _too_large(f"the body has more than {BODY_LIMIT >> 20} MiB")
        except TimeoutError:
            raise web.HTTPRequestTimeout(text=f"the body did not come within {BODY_SECONDS:.0f} s") from None
        except (web.RequestPayloadError, ConnectionError):
            raise web.HTTPBadRequest(text="the body is not what its headers say") from None


def read_otlp_address(text: str, option: str, token: str) -> OtlpAddress:
    """Return the address that an option names.

    Args:
        text: `address:port`, `port` or `[IPv6 address]:port`.
        option: Name of the option, for errors.
        token: Token that exporters send; may be empty.

    Raises:
        UsageError: The text is not an address and port, or other machines reach the address and there is no token.
    """
    address, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{option} {text!r} is not an address and port; write 127.0.0.1:4318")
    found = OtlpAddress(address.strip("[]") or "127.0.0.1", int(port), token)
    if not token and not ApiOptions(found.address, found.port).is_local:
        raise UsageError(
            f"{option} {text}: other machines reach this address, so exporters must send a token; set "
            "GAPWATCH_OTLP_TOKEN to a secret here, and in the pipeline "
            "OTEL_EXPORTER_OTLP_HEADERS='Authorization=Bearer SECRET'"
        )
    return found


async def _inflated(body: bytes) -> bytes:
    try:
        return await asyncio.to_thread(inflate, body) if len(body) > _SHORT_BYTES else inflate(body)
    except InflateLimitError as error:
        raise _too_large(str(error)) from None
    except InflateError as error:
        raise web.HTTPBadRequest(text=str(error)) from None


def _too_large(text: str) -> web.HTTPException:
    return web.HTTPRequestEntityTooLarge(BODY_LIMIT, BODY_LIMIT, text=text)


def _success(signal: Signal, is_json: bool) -> web.Response:
    return web.Response(body=b"{}" if is_json else b"", content_type=_type(is_json))


def _type(is_json: bool) -> str:
    return answers.JSON if is_json else answers.PROTOBUF


def _given_token(header: str) -> str:
    """Return the token of a Bearer header, or the password of a Basic one, as Langfuse's SDK sends its secret key."""
    kind, _, value = header.partition(" ")
    if kind.lower() != "basic":
        return value.strip() if kind.lower() == "bearer" else ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
