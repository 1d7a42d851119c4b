"""A thread with an event loop of its own, in which a receiver serves until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable

log = logging.getLogger("gapwatch.otlp")


class ServerThread:
    """Runs a server beside the caller.

    Args:
        name: Name of the thread.
        serve: Serves until the event is set; calls the function once it listens.
    """

    def __init__(self, name: str, serve: Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]) -> None:
        self._name, self._serve = name, serve
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread; return when the server listens, or raise why it cannot."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self, seconds: float) -> bool:
        """Stop listening, after the requests under way are answered; False if that took longer than `seconds`."""
        if self._loop is None or self._stopping is None or self._thread is None:
            return True
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(timeout=seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._begin())
        except BaseException as error:
            if self._started.is_set():
                log.exception("the receiver %s has failed; exporters keep what they cannot send", self._name)
            self._failure = error
        finally:
            self._started.set()

    async def _begin(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        await self._serve(self._stopping, self._started.set)
