"""Starts `gapwatch run` many times, quickly: everything is imported once, and each start is a fork.

    python -m tests.streams.run_children

reads one JSON object a line and answers with one: `{"start": {...}}` with `{"pid": n}`; `{"wait": pid, "seconds": s}`
with `{"status": n}`, null while it runs. What `start` may hold stands in `_be_child`.
"""

import asyncio
import functools
import json
import os
import resource
import signal
import sys
import time
import traceback


def main():
    from gapwatch.scorers.arrow_without_pandas import hide_pandas

    hide_pandas()
    import gapwatch.streams.batch.backfill
    import gapwatch.streams.commands.run
    import gapwatch.streams.judges.workers.judge_start
    import gapwatch.streams.live.run
    import gapwatch.streams.reports.replay_report  # noqa: F401  nothing here has threads or connections yet

    for line in sys.stdin:
        asked = json.loads(line)
        if "start" in asked:
            answer = {"pid": _start(asked["start"])}
        else:
            answer = {"status": _wait(asked["wait"], asked["seconds"])}
        print(json.dumps(answer), flush=True)


def _start(options):
    pid = os.fork()
    if pid == 0:
        try:
            _be_child(options)
        except BaseException:
            traceback.print_exc()  # into the file `err`, where a test that fails looks
        finally:
            sys.stderr.flush()
            os._exit(99)
    return pid


def _wait(pid, seconds):
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            return None
        time.sleep(0.01)


def _be_child(options):
    """Run the command line `arguments`, its output in the files `out` and `err`.

    To be provoked: `die_at` a named point of the n-th commit; `block_at` the n-th slice; `largest_file` in bytes;
    `max_records` of a slice; `session_seconds` of the group; `lease_seconds` of a judge's money;
    `compact_seconds` between two copies of the file, with reads of the run itself that count so many numbers as
    `slow_read` says.
    """
    for name, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(options[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # What the command imports when it is run.
    import gapwatch.streams.live.run as program
    import gapwatch.streams.sources.faust_slices as slices
    from gapwatch.scorers.command_line import run

    if "largest_file" in options:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options["largest_file"], options["largest_file"]))
    slices.SliceAppOptions = functools.partial(
        slices.SliceAppOptions,
        max_records=options.get("max_records", 8000),
        session_seconds=options.get("session_seconds", 10.0),
    )
    if "die_at" in options:
        program.Run = functools.partial(program.Run, open_store=_mortal(*options["die_at"]))
    if "block_at" in options:
        program.Run = _blocking(program.Run, options["block_at"])
    if "lease_seconds" in options:
        from gapwatch.sinks.verdicts import budget_leases

        budget_leases.LEASE_SECONDS = options["lease_seconds"]
    if "compact_seconds" in options:
        _compact_often(options["compact_seconds"], options["slow_read"])
    status = run(options["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _compact_often(seconds, slow_read):
    """Copy the file again and again, however little is free, while the relay reads slowly."""
    from gapwatch.sinks.upkeep import compaction
    from gapwatch.streams.live import compaction_loop, outbox_relay

    compaction.LEAST_FREE, compaction.MOST_RATIO = -1, 0
    compaction_loop.LOOK_SECONDS = compaction_loop._READERS_SECONDS = seconds
    count_waiting = outbox_relay.count_waiting

    def slowly(cursor):
        cursor.execute(f"SELECT count(*) FROM range({slow_read}) WHERE range % 7 = 3").fetchall()
        return count_waiting(cursor)

    outbox_relay.count_waiting = slowly


def _mortal(point, at):
    """Return what opens a store that dies before a step of its n-th transaction, `after` it, or before what was relayed
    is marked (`mark`)."""
    from gapwatch.sinks.store.store import Store

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    class Mortal(Store):
        commits = 0

        def write_slices(self, slices, kept_at):
            self.commits += 1
            is_due = self.commits >= at
            if is_due and point == "also":
                *before, (scored, also) = slices
                slices = [*before, (scored, [*also, ("die", die)])]
            seq = super().write_slices(slices, kept_at)
            if is_due and point == "after":
                die()
            return seq

        def steps(self):
            steps = list(super().steps())
            names = [name for name, _ in steps]
            if self.commits >= at and point in names:
                steps.insert(names.index(point), ("die", die))
            return steps

        def mark_relayed(self, seqs):
            if point == "mark":
                die()
            super().mark_relayed(seqs)

    return lambda path: Mortal.open(path, create=True)


def _blocking(run_class, at):
    def make(*arguments):
        made = run_class(*arguments)
        source = made.parts.source
        take, count = source._on_slice, 0

        async def block(raw):
            nonlocal count
            count += 1
            if count == at:
                time.sleep(3600)
            await take(raw)
            await asyncio.sleep(0)

        source._on_slice = block
        return made

    return make


if __name__ == "__main__":
    main()
