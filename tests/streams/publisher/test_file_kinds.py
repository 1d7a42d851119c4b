"""Files as a first day finds them: with a torn last line, as a named pipe, and shared with forked children."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.trace_publisher import TracePublisher


def publish_one(publisher, trace_id):
    with publisher.trace(trace_id):
        pass
    assert publisher.flush(60.0)


def trace_ids(text):
    return [json.loads(line)["trace_id"] for line in text.splitlines()]


@pytest.mark.parametrize("torn", [b'{"trace_id": "half', b'{"trace_id": "whole, without newline"}'])
def test_a_trace_begins_a_line_of_its_own_behind_a_torn_last_line(tmp_path, torn):
    path = tmp_path / "t.jsonl"
    path.write_bytes(torn)
    with TracePublisher("bot", file=path) as publisher:
        publish_one(publisher, "one")
        publish_one(publisher, "two")

    first, rest = path.read_bytes().split(b"\n", 1)
    assert first == torn
    assert trace_ids(rest) == ["one", "two"]


def test_a_line_torn_by_another_program_between_two_writes_is_ended_as_well(tmp_path):
    path = tmp_path / "t.jsonl"
    with TracePublisher("bot", file=path) as publisher:
        publish_one(publisher, "one")
        with path.open("ab") as file:
            file.write(b"torn")
        publish_one(publisher, "two")

    lines = path.read_bytes().splitlines()
    assert lines[1] == b"torn"
    assert trace_ids(b"\n".join([lines[0], lines[2]])) == ["one", "two"]


def test_a_file_that_may_be_written_and_not_read_takes_traces(tmp_path, monkeypatch):
    path = tmp_path / "t.jsonl"
    true_open = os.open

    def open_unreadable(name, flags, *mode):
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return true_open(name, flags, *mode)

    monkeypatch.setattr("gapwatch.publisher.file_sender.os.open", open_unreadable)
    with TracePublisher("bot", file=path, strict=True) as publisher:
        publish_one(publisher, "one")

    assert trace_ids(path.read_bytes()) == ["one"]


def test_a_named_pipe_without_a_reader_delays_nothing_and_its_reader_gets_each_trace_once(tmp_path, caplog):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    publisher = TracePublisher("bot", file=path, strict=True)  # blocks here if it waits for a reader
    with publisher.trace("early"):
        pass
    assert not publisher.flush(0.3)
    assert caplog.messages == [
        f"{path} cannot be written: no process reads this named pipe; traces wait in the buffer, "
        "the publisher tries again"
    ]
    taken = []
    reader = threading.Thread(target=lambda: taken.append(path.read_bytes()))
    reader.start()
    assert publisher.flush(60.0)
    publish_one(publisher, "late")
    assert publisher.close()
    reader.join(60.0)

    assert trace_ids(taken[0]) == ["early", "late"]


def test_a_named_pipe_that_may_not_be_written_is_a_wrong_setting(tmp_path, monkeypatch):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr("gapwatch.publisher.file_sender.os.access", lambda *_args: False)  # root may write anything
    with pytest.raises(SettingsError, match="pipe cannot be written: Permission denied"):
        TracePublisher("bot", file=path, strict=True)


def test_a_child_forked_during_a_write_holds_no_lock_on_the_file(tmp_path):
    """The parent is killed in the middle of its write; then only the child could still hold the lock."""
    code = """
        import os, signal, sys, time
        from gapwatch.publisher import TracePublisher
        publisher = TracePublisher("bot", file="t.jsonl")
        write = os.write
        def write_and_fork(descriptor, data):
            child = os.fork()
            if child:
                os.kill(os.getpid(), signal.SIGKILL)
            print(os.getpid(), flush=True)
            signal.pause()
        os.write = write_and_fork
        publisher.span("a")(lambda: 1)()
        publisher.flush(60)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    child = int(parent.stdout.readline())
    try:
        parent.wait(60)
        with (tmp_path / "t.jsonl").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while anybody holds it
    finally:
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()


def test_a_child_forked_between_opening_and_locking_holds_no_lock_after_the_write(tmp_path):
    """Such a child has a copy of a descriptor that its parent locks later."""
    code = """
        import fcntl, os, signal
        from gapwatch.publisher import TracePublisher, file_sender
        publisher = TracePublisher("bot", file="t.jsonl")
        open_file, children = file_sender.FileSender._open, []
        def open_and_fork(sender):
            descriptor = open_file(sender)
            child = os.fork()
            if child == 0:
                signal.pause()
                os._exit(0)
            children.append(child)
            return descriptor
        file_sender.FileSender._open = open_and_fork
        publisher.span("a")(lambda: 1)()
        publisher.flush(60)
        with open("t.jsonl", "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                print("free")
            finally:
                for child in children:
                    os.kill(child, signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )

    assert (done.stdout, done.stderr) == ("free\n", "")
