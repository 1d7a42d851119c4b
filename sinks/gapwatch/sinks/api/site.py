"""An HTTP server at one address, with errors that name the address, and answers in JSON or for Prometheus."""

from __future__ import annotations

import asyncio
import errno
import gzip
import logging
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.connection_limit import BACKLOG, CONNECTIONS, IDLE_SECONDS, ConnectionLimit, raise_file_limit
from gapwatch.sinks.reading.json_values import to_json

#: Level of gzip, 1 to 9. Level 1 shrinks a page of 50,000 samples to a twentieth; higher ones cost more than they save.
_GZIP_LEVEL = 1


class HttpSite:
    """HTTP server for one event loop.

    Args:
        what: Name of the server in errors.
        options: Address of the server.
        option: Option of the command line that names the address, for errors.
        connections: Most connections at once.
    """

    def __init__(
        self, what: str, options: ApiOptions, option: str = "--listen", connections: int = CONNECTIONS
    ) -> None:
        self._what, self._options = what, options
        self._option, self._connections = option, connections
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._port = options.port

    @property
    def url(self) -> str:
        """URL of the server. With port 0 it is known only after `start`."""
        address = self._options.address
        return f"http://{f'[{address}]' if ':' in address else address}:{self._port}"

    async def start(self, application: web.Application, **more: Any) -> None:
        """Start the server.

        Args:
            application: Application that answers requests.
            more: Options of aiohttp's runner.

        Raises:
            UsageError: The server cannot listen on the address.
        """
        raise_file_limit()
        limit = ConnectionLimit(self._connections)
        application.middlewares.insert(0, limit.watch)
        self._runner = runner = web.AppRunner(
            application,
            access_log=None,
            logger=_server_log(),
            shutdown_timeout=1.0,
            keepalive_timeout=IDLE_SECONDS,
            **more,
        )
        await runner.setup()
        limit.server = runner.server
        address, port = self._options.address, self._options.port
        try:
            self._server = await asyncio.get_running_loop().create_server(limit, address, port, backlog=BACKLOG)
        except OSError as error:
            await self.stop()
            raise UsageError(
                f"{self._what} cannot listen on {address} port {port}: {_why(error, port, self._option)}"
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop the server."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


#: Errors of aiohttp for a request that is not HTTP, and for a body that is not what its header says.
_OF_CLIENTS = (HttpProcessingError, web.RequestPayloadError)


class _NotOfClients(logging.Filter):
    """Drops lines about bytes that are no HTTP, such as those of a port scan: the client has the answer 400."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], _OF_CLIENTS))


def _server_log() -> logging.Logger:
    log = logging.getLogger("gapwatch.http")
    if not log.filters:
        log.addFilter(_NotOfClients())
    return log


def _why(error: OSError, port: int, option: str) -> str:
    """Return why a server cannot listen, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"another process uses this port (is another `gapwatch run` running?); choose another one with {option}, "
            f"such as {option} 127.0.0.1:{port + 1 if port < 65535 else 9465}"
            + (", or do without: --listen none" if option == "--listen" else "")
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"this machine does not have the address; choose one of its own with {option}, such as 127.0.0.1"
    if error.errno == errno.EACCES:
        return f"this user may not use the port; choose one above 1023 with {option}"
    return f"{error.strerror or error}; choose another address or port with {option}"


def json_answer(answer: Any, status: int = 200) -> web.Response:
    """Return an HTTP answer with a value as JSON."""
    return web.Response(body=to_json(answer) + b"\n", status=status, content_type="application/json")


def metrics_answer(registry: CollectorRegistry, request: web.BaseRequest) -> web.Response:
    """Return the metrics of a registry, in the format and encoding that the request accepts.

    The time grows with the size of the page. This may run in any thread, because it does not need the event loop.
    """
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    body = encode(registry)
    if gzip_accepted(request.headers.get("Accept-Encoding", "")):
        body, headers["Content-Encoding"] = gzip.compress(body, _GZIP_LEVEL), "gzip"
    return web.Response(body=body, headers=headers)
