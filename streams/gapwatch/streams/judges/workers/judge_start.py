"""Starts the judging of `gapwatch run`: options of a process that stores, or a judge process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.endpoint_note import read_note
from gapwatch.sinks.api.service import api_options
from gapwatch.sinks.api.store_address import WRITE_TOKEN, read_token_file
from gapwatch.streams.judges.batches.batch_maker import refuse_batches
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.secret import Secret, read_secret
from gapwatch.streams.judges.settings import load_judge_settings
from gapwatch.streams.judges.workers.judge_role import JudgeOptions


def judge_options(path: Path | None, judges_here: bool) -> JudgeOptions:
    """Return the judging options of a process that stores.

    Args:
        path: Settings file; None: only the caps of the portfolios hold, and judges run elsewhere.
        judges_here: True if this process asks models; False if it only enforces the caps.

    Raises:
        UsageError: The settings are invalid, or a key is missing.
    """
    if path is None:
        return JudgeOptions()
    settings = load_judge_settings(path)
    if not judges_here:
        return JudgeOptions(settings)
    return JudgeOptions(settings, model_access(settings))


def run_judge_process(
    kafka: KafkaSettings,
    path: Path | None,
    store_url: str | None,
    store: Path | None,
    listen: str | None,
    write_token_file: Path | None = None,
) -> None:
    """Run a judge process until SIGTERM or SIGINT.

    Args:
        kafka: The cluster.
        path: Settings file.
        store_url: Address of the process that stores; the environment has its write token.
        store: Alternatively a store on this machine; its process has left a note beside it.
        listen: Address of /metrics and /healthz of this process; None: not served, because the process that stores has
            the usual address, and there may be several judge processes.
        write_token_file: File with the write token of the process that stores, in place of the environment.

    Raises:
        UsageError: Settings, address or token are missing.
        JobError: The process that stores refuses this worker.
    """
    if path is None:
        raise UsageError("--role judge requires --judges, the settings of the judges")
    settings = load_judge_settings(path)
    refuse_batches(settings)
    access = model_access(settings)
    url, token = _store_address(store_url, store, write_token_file)
    # Imported here: only this role needs an HTTP client.
    from gapwatch.streams.judges.workers.judge_process import JudgeProcess
    from gapwatch.streams.judges.workers.keeper_client import StoreClient

    async def judge() -> None:
        page = api_options(listen or "none")
        await JudgeProcess(kafka, access, StoreClient(url, token), listen=page).run()

    asyncio.run(judge())


def _store_address(store_url: str | None, store: Path | None, token_file: Path | None) -> tuple[str, Secret]:
    if store_url is not None:
        if token_file is not None:
            return store_url, Secret(read_token_file(token_file))
        token = read_secret(WRITE_TOKEN, None, os.environ)
        assert token is not None
        return store_url, token
    if store is None:
        raise UsageError("--role judge requires --keeper, the address of the process that stores, or its --store")
    note = read_note(store)
    if note is None:
        raise UsageError(
            f"no running gapwatch run serves the store {store} on this machine; start it, or give the address of the "
            f"process that stores with --keeper"
        )
    return note.url, Secret(note.write_token)
