"""What `gapwatch run` makes of the settings of judges: options of a process that keeps, or a worker of its own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.endpoint_note import read_note
from gapwatch.sinks.api.service import WRITE_TOKEN, api_options
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.secret import Secret, read_secret
from gapwatch.streams.judges.settings import load_judge_settings
from gapwatch.streams.judges.workers.judge_role import JudgeOptions


def judge_options(path: Path | None, judges_here: bool) -> JudgeOptions:
    """Return what a process that keeps does for judges.

    Args:
        path: Settings; None: the caps are those of the portfolios, and others judge.
        judges_here: Whether this process judges by them, or only keeps to their caps.

    Raises:
        UsageError: The settings are wrong, or a key is missing.
    """
    if path is None:
        return JudgeOptions()
    settings = load_judge_settings(path)
    if not judges_here:
        return JudgeOptions(settings)
    return JudgeOptions(settings, model_access(settings))


def judge_for_keeper(
    kafka: KafkaSettings, path: Path | None, store_url: str | None, store: Path | None, listen: str | None
) -> None:
    """Judge for a process that keeps, until a signal asks to end.

    Args:
        kafka: Where the topics are.
        path: Settings.
        store_url: Address of the keeper's API, whose token the environment has.
        store: Instead: a store on this machine, whose keeper has left a note beside it.
        listen: Where /metrics and /healthz of this process are; None: nowhere, for the keeper of this machine has the
            usual address, and there may be several judges.

    Raises:
        UsageError: Something of this is missing.
        JobError: The keeper refuses this worker.
    """
    if path is None:
        raise UsageError("--role judge needs --judges, the settings of the judges")
    access = model_access(load_judge_settings(path))
    url, token = _store_address(store_url, store)
    # Imported here: only this role needs a client of HTTP.
    from gapwatch.streams.judges.workers.judge_process import JudgeProcess
    from gapwatch.streams.judges.workers.keeper_client import StoreClient

    async def judge() -> None:
        page = api_options(listen or "none")
        await JudgeProcess(kafka, access, StoreClient(url, token), listen=page).run()

    asyncio.run(judge())


def _store_address(store_url: str | None, store: Path | None) -> tuple[str, Secret]:
    if store_url is not None:
        token = read_secret(WRITE_TOKEN, None, os.environ)
        assert token is not None
        return store_url, token
    if store is None:
        raise UsageError("--role judge needs --keeper, the address of the process that keeps, or its --store")
    note = read_note(store)
    if note is None:
        raise UsageError(
            f"no process keeps {store} and answers for it here; start it, or give its address with --keeper"
        )
    return note.url, Secret(note.write_token)
