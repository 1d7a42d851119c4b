"""OTLP over gRPC: the services `TraceService` and `LogsService`; metrics are counted and dropped.

The messages pass as bytes: whoever stores them decodes them, as those of HTTP. gRPC itself inflates gzip, within
`BODY_LIMIT` bytes. Only this file imports grpcio, which is the extra `otlp-grpc`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.access import tokens_agree
from gapwatch.streams.otlp.receiving import answers
from gapwatch.streams.otlp.receiving.http_receiver import BODY_LIMIT, OtlpAddress
from gapwatch.streams.otlp.receiving.intake import (
    BusyReceiverError,
    OtlpIntake,
    OtlpRequest,
    RefusedRequestError,
    Signal,
)
from gapwatch.streams.otlp.receiving.server_thread import ServerThread

_SERVICES = {
    "opentelemetry.proto.collector.trace.v1.TraceService": Signal.TRACES,
    "opentelemetry.proto.collector.logs.v1.LogsService": Signal.LOGS,
    "opentelemetry.proto.collector.metrics.v1.MetricsService": Signal.METRICS,
}
#: Requests at once; more wait at their exporters.
_CONCURRENT = 64
_OPTIONS = [
    ("grpc.max_receive_message_length", BODY_LIMIT),
    ("grpc.so_reuseport", 0),  # a second process on this port is an error, not a second receiver
    ("grpc.max_connection_idle_ms", 300_000),
]

Method = Callable[[bytes, Any], Awaitable[bytes]]


class GrpcReceiver:
    """Receives OTLP over gRPC from `start` to `stop`.

    Args:
        at: Address, and token.
        intake: Stores the requests.
    """

    def __init__(self, at: OtlpAddress, intake: OtlpIntake) -> None:
        self._at, self._intake = at, intake
        self._port = at.port
        self._server = ServerThread("otlp-grpc", self._serve)

    @property
    def address(self) -> str:
        """Address and port that exporters need; the port is known after `start`."""
        address = self._at.address
        return f"{f'[{address}]' if ':' in address else address}:{self._port}"

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
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_CONCURRENT)
        handlers = [
            grpc.method_handlers_generic_handler(
                service, {"Export": grpc.unary_unary_rpc_method_handler(self._method(signal))}
            )
            for service, signal in _SERVICES.items()
        ]
        server.add_generic_rpc_handlers(tuple(handlers))
        try:
            self._port = server.add_insecure_port(self.address)
        except RuntimeError as error:
            raise UsageError(
                f"the OTLP receiver cannot listen on {self.address}: is another process using this port? Choose "
                f"another one with --otlp-grpc"
            ) from error
        await server.start()
        listens()
        await stopping.wait()
        await server.stop(grace=1.0)

    def _method(self, signal: Signal) -> Method:
        async def export(body: bytes, context: Any) -> bytes:
            if not self._may_send(context):
                self._intake.note_refused(signal, "401")
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "send the token of the receiver as authorization")
            if signal is Signal.METRICS or not body:
                if signal is Signal.METRICS:
                    self._intake.note_dropped(signal)
                return b""
            try:
                taken = await self._intake.take(OtlpRequest(signal, False, body))
            except RefusedRequestError as error:
                self._intake.note_refused(signal, "400")
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
                raise
            except BusyReceiverError as error:
                self._intake.note_refused(signal, "503")
                # Exporters send again after UNAVAILABLE.
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
                raise
            return answers.success_body(signal, taken, is_json=False)

        return export

    def _may_send(self, context: Any) -> bool:
        if not self._at.token:
            return True
        given = dict(context.invocation_metadata()).get("authorization", "")
        text = given if isinstance(given, str) else given.decode(errors="replace")
        return tokens_agree(text.removeprefix("Bearer ").strip(), self._at.token)
