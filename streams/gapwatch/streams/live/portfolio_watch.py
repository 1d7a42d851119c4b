"""Reloads portfolios when their files change, or at once on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.streams.pipeline.regime import Regime, make_regime

log = logging.getLogger("gapwatch.portfolios")

#: Seconds between two checks of the files.
LOOK_SECONDS = 1.0

Stamp = tuple[tuple[int, int, int] | None, ...]


class PortfolioWatch:
    """Watches the files of portfolios.

    Args:
        paths: Their files.
        in_force: The portfolios, as they were loaded.
        scorers: Host of the Python scorers.
        switch: Called with the new portfolios, compiled.

    Attributes:
        refused: Error of the present files; empty if they are in force.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        in_force: Sequence[Portfolio],
        scorers: ScorerHost | None,
        switch: Callable[[Regime], Awaitable[None]],
    ) -> None:
        self._paths, self._in_force, self._scorers, self._switch = list(paths), list(in_force), scorers, switch
        self._asked = asyncio.Event()
        self._stamp = self._look()
        self.refused = ""

    def ask(self) -> None:
        """Read the files again now, even if they have not changed."""
        self._asked.set()

    async def run(self) -> None:
        """Watch the files until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), LOOK_SECONDS)
            stamp = self._look()
            if stamp != self._stamp or self._asked.is_set():
                is_asked = self._asked.is_set()
                self._asked.clear()
                self._stamp = stamp
                await self._read(is_asked)

    def _look(self) -> Stamp:
        stamps: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                found = path.stat()
            except OSError:
                stamps.append(None)
            else:
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return tuple(stamps)

    async def _read(self, is_asked: bool) -> None:
        try:
            loaded = await asyncio.to_thread(lambda: [load_portfolio(path) for path in self._paths])
            if [portfolio.sha for portfolio in loaded] == [portfolio.sha for portfolio in self._in_force]:
                if is_asked or self.refused:
                    log.info("the portfolios are unchanged")
                self.refused = ""
                return
            regime = await asyncio.to_thread(make_regime, loaded, self._scorers)
            await self._switch(regime)
        except UsageError as error:
            self.refused = str(error)
            log.error("the changed portfolio is refused, the old version stays in force: %s", error)
            return
        for new in loaded:
            if new.sha not in {portfolio.sha for portfolio in self._in_force}:
                log.info("portfolio %s version %d (%s) is in force from the next slice on", new.portfolio, new.version,
                         new.sha[:12])  # fmt: skip
        self._in_force, self.refused = loaded, ""
