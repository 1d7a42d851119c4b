"""The end of a program: every trace that any of its threads publishes is sent, and drops after a close are logged."""

import json
import subprocess
import sys
import textwrap

import pytest

from gapwatch.publisher.trace_publisher import TracePublisher

BEGIN = """
    import sys, threading, time
    from concurrent.futures import ThreadPoolExecutor
    from gapwatch.publisher import TracePublisher
    publisher = TracePublisher("bot", file="t.jsonl")
    def publish(name):
        with publisher.trace(name):
            pass
    def serve():
        threading.main_thread().join()  # the main thread has ended
        for number in range(3):
            time.sleep(0.05)
            publish(f"late-{number}")
"""
LATE = ["late-0", "late-1", "late-2"]

PROGRAMS = {
    "a thread goes on": ("""publish("early"); threading.Thread(target=serve).start()""", ["early", *LATE]),
    "the first trace comes from a thread that goes on": ("threading.Thread(target=serve).start()", LATE),
    "a thread that goes on begins another one": (
        "threading.Thread(target=lambda: (time.sleep(0.1), threading.Thread(target=serve).start())).start()",
        LATE,
    ),
    "tasks of an executor wait": (
        """
        executor = ThreadPoolExecutor(1)
        for number in range(3):
            executor.submit(lambda name: (time.sleep(0.05), publish(name)), f"late-{number}")
        """,
        LATE,
    ),
    "an executor is idle": ("""ThreadPoolExecutor(1).submit(publish, "early").result()""", ["early"]),
    "a task of an executor is under way": (
        """publish("early"); ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.1), publish("late")))""",
        ["early", "late"],
    ),
    "a daemon thread goes on": (
        """publish("early"); threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()""",
        ["early"],
    ),
    "a child process ends": (
        """
        import multiprocessing
        child = multiprocessing.get_context("fork").Process(
            target=lambda: (publish("early"), threading.Thread(target=serve).start())
        )
        child.start()
        child.join()
        """,
        ["early", *LATE],
    ),
    "an exit hook publishes": (
        """import atexit; atexit.register(publish, "late"); publish("early")""",
        ["early", "late"],
    ),
}


@pytest.mark.parametrize(("code", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_what_the_threads_of_a_program_publish_is_sent(tmp_path, code, expected):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BEGIN) + textwrap.dedent(code)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    assert [json.loads(line)["trace_id"] for line in lines] == expected


def test_an_interrupt_while_the_program_waits_for_its_threads_loses_no_trace(tmp_path):
    code = """
        import os, signal
        publish("early")
        release = threading.Event()
        thread = threading.Thread(target=release.wait, daemon=False)
        thread.start()
        def interrupt():
            threading.main_thread().join()
            publish("late")
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            release.set()
        threading.Thread(target=interrupt).start()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BEGIN) + textwrap.dedent(code)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert "KeyboardInterrupt" in done.stderr
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    assert [json.loads(line)["trace_id"] for line in lines] == ["early", "late"]


def test_traces_after_a_close_are_logged_once_and_counted(tmp_path, caplog):
    publisher = TracePublisher("bot", file=tmp_path / "t.jsonl")
    assert publisher.close()
    for _ in range(5):
        with publisher.trace():
            pass

    assert caplog.messages == [
        "the publisher is closed: this trace and all later ones are dropped and counted as `closed`; close it after "
        "the last trace"
    ]
    assert publisher.counts["closed"] == 5
