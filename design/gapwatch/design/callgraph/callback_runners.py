"""Library functions that run or return their arguments."""

from __future__ import annotations

#: Library functions that run an argument, with its position or keyword.
RUNNERS: dict[str, tuple[int | str, ...]] = {
    "asyncio.to_thread": (0,),
    "threading.Thread": (1, "target"),
    "multiprocessing.Process": (1, "target"),
    "threading.Timer": (1, "function"),
    "atexit.register": (0,),
    "signal.signal": (1,),
    "anyio.to_thread.run_sync": (0,),
    "asyncio.run": (0,),
    "functools.reduce": (0,),
    "fastapi.concurrency.run_in_threadpool": (0,),
    "starlette.concurrency.run_in_threadpool": (0,),
    "asgiref.sync.sync_to_async": (0,),
    "dspy.streamify": (0,),
    "dspy.asyncify": (0,),
    "dspy.Parallel": (0,),
}
#: Methods of any library object that run an argument, with its position or keyword.
RUNNER_METHODS: dict[str, tuple[int | str, ...]] = {
    "submit": (0,),
    "run_in_executor": (1,),
    "add_task": (0,),
    "apply_async": (0,),
    "start_soon": (0,),
    "call_soon": (0,),
    "call_later": (1,),
    "add_done_callback": (0,),
    "run_sync": (0,),
    "map": (0,),
    "imap": (0,),
    "starmap": (0,),
    "add_job": (0,),
    "add_node": (1, 0, "node", "action"),
    "add_conditional_edges": (1, "path"),
    "add_api_route": (1, "endpoint"),
    "register": (0, 1),
    "subscribe": (0, 1),
    "on_event": (1,),
}
#: Library functions that return their first argument.
TRANSPARENT = frozenset(
    [
        "asyncio.gather",
        "asyncio.create_task",
        "asyncio.ensure_future",
        "asyncio.wait_for",
        "asyncio.shield",
        "asyncio.run",
        "copy.copy",
        "copy.deepcopy",
        "typing.cast",
        "dataclasses.replace",
        "contextlib.nullcontext",
        "contextlib.closing",
        "contextlib.aclosing",
        "functools.update_wrapper",
        "inspect.unwrap",
        "itertools.chain",
        "itertools.islice",
        "itertools.cycle",
        "tqdm.tqdm",
        "tqdm.auto.tqdm",
        "tqdm.asyncio.tqdm",
    ]
)
