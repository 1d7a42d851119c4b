"""One address at which a process answers HTTP: where it is, what keeps it from listening, answers in JSON."""

from __future__ import annotations

import gzip
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.reading.json_values import to_json

#: Of 1 to 9. A page of 50,000 samples shrinks to a twentieth at once; higher levels cost more time than they save.
_GZIP_LEVEL = 1


class HttpSite:
    """For one event loop.

    Args:
        what: Answers there, as an error names it.
        options: Where.
    """

    def __init__(self, what: str, options: ApiOptions) -> None:
        self._what, self._options = what, options
        self._runner: web.AppRunner | None = None
        self._port = options.port

    @property
    def url(self) -> str:
        """Where it answers; of any port that is free only after `start`."""
        address = self._options.address
        return f"http://{f'[{address}]' if ':' in address else address}:{self._port}"

    async def start(self, application: web.Application, **more: Any) -> None:
        """Begin to answer.

        Args:
            application: What is answered.
            more: Options of aiohttp's runner.

        Raises:
            UsageError: The address cannot be listened on.
        """
        self._runner = runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0, **more)
        await runner.setup()
        address, port = self._options.address, self._options.port
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            await self.stop()
            raise UsageError(
                f"{self._what} cannot listen on {address} port {port}: {error}; give another address or port"
            ) from error
        self._port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Answer nobody any more."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


def json_answer(answer: Any, status: int = 200) -> web.Response:
    """Return an answer in JSON."""
    return web.Response(body=to_json(answer) + b"\n", status=status, content_type="application/json")


def metrics_answer(registry: CollectorRegistry, request: web.BaseRequest) -> web.Response:
    """Collect a registry for Prometheus, in the format and the encoding that the request accepts.

    It takes as long as the page is large; nothing here needs the event loop, so another thread may do it.
    """
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    body = encode(registry)
    if gzip_accepted(request.headers.get("Accept-Encoding", "")):
        body, headers["Content-Encoding"] = gzip.compress(body, _GZIP_LEVEL), "gzip"
    return web.Response(body=body, headers=headers)
