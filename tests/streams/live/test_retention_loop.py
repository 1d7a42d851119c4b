from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gapwatch.streams.live import retention_loop


@pytest.mark.parametrize(("keep", "pause"), [(timedelta(minutes=30), 180.0), (timedelta(days=30), 3_600.0)])
def test_expired_rows_go_within_the_hour_or_a_tenth_of_the_time_that_they_are_kept(
    monkeypatch: pytest.MonkeyPatch, keep: timedelta, pause: float
) -> None:
    pauses, steps = list[float](), iter([SimpleNamespace(records=5), None, None])

    async def on_store_thread(*_: Any) -> Any:
        return next(steps)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(retention_loop.expire(cast(Any, None), keep, on_store_thread))

    # After each step a short pause, after the last one until the next check.
    assert pauses[1] == pause
