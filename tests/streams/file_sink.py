"""A process for tests that reads a topic by a `SliceSource` into files, one line a slice: the line is the transaction.

Run by `python -m tests.streams.file_sink FOLDER JSON`; what the JSON may hold stands in `main`.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.scorers.errors import GapwatchError
from gapwatch.streams.sources.faust_slices import SliceAppOptions
from gapwatch.streams.sources.quiet_logs import quieten_logs
from gapwatch.streams.sources.slice_source import SliceSource, SourceOptions, StallLimits
from tests.streams.slice_files import FileSink


def main(folder: str, options: dict) -> int:
    """Read until told to stop, or `until_caught_up`.

    To be provoked: `slow` seconds a slice; `fail_at`, `hang_at`, `block_at` the n-th slice; `pause` fetching.
    """
    logging.basicConfig(level=logging.WARNING)
    quieten_logs()
    sink = FileSink(Path(folder))
    lock, count = asyncio.Lock(), 0

    async def on_slice(raw) -> None:
        nonlocal count
        count += 1
        if count == 1:
            note_known(source, Path(folder) / "known_at_first")
        if count == options.get("fail_at"):
            raise RuntimeError("the disk is full")
        if count == options.get("hang_at"):
            await asyncio.sleep(3600)
        if count == options.get("block_at"):
            time.sleep(3600)
        if options.get("slow"):
            await asyncio.sleep(options["slow"])
        async with lock:  # first come, first served: slices are stored in their order
            await asyncio.to_thread(sink.add, raw)

    app = SliceAppOptions(options["topic"], options["group"], **options.get("app", {}))
    source_options = SourceOptions(
        app,
        slices_in_work=options.get("in_work", 2),
        drain_seconds=options.get("drain", 8.0),
        stall=StallLimits(**options.get("stall", {})),
    )
    kafka = KafkaSettings(**options["kafka"])
    store_id = options.get("store_id", "")
    stored = sink.stored_offsets if options.get("stored", True) else (lambda partitions: {})
    source = SliceSource(source_options, kafka, on_slice, stored, store_id)
    return asyncio.run(run(source, options, Path(folder)))


def note_known(source: SliceSource, path: Path) -> None:
    """Write down which records are known to be there, by partition."""
    path.write_text(json.dumps({partition: ends for (_, partition), ends in source.progress.known_ends().items()}))


async def run(source: SliceSource, options: dict, folder: Path) -> int:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, source.stop)

    async def report() -> None:
        while True:
            (folder / "state.tmp").write_text(
                json.dumps([source.state, source.waiting_for, source.progress.positions()])
            )
            (folder / "state.tmp").rename(folder / "state")
            if options.get("until_caught_up") and source.is_caught_up():
                note_known(source, folder / "known_at_last")
                source.stop()
            if options.get("pause") and any(folder.glob("*.jsonl")):
                source._app.consumer.pause_partitions(source._app.consumer.assignment())
            await asyncio.sleep(0.1)

    reporting = asyncio.create_task(report())
    status = 0
    try:
        await source.run()
    except BaseException as error:
        print(f"gapwatch: {error if isinstance(error, GapwatchError) else repr(error)}", file=sys.stderr, flush=True)
        status = getattr(error, "exit_status", 1)
    reporting.cancel()
    if not source.is_clean:
        os._exit(status)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2])))
