"""Traces in a file: whole lines, whoever writes beside, and a full disk that the pipeline does not notice."""

import json
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.trace_publisher import TracePublisher


def run_python(code, folder, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, **environment},
    )  # fmt: skip


def lines_of(path):
    text = path.read_bytes()
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


def test_each_trace_is_one_line_that_a_replay_reads(tmp_path):
    path = tmp_path / "traces.jsonl"
    with TracePublisher("bot", release="r1", file=path) as publisher:
        for i in range(20):
            with publisher.trace(f"t{i}"), publisher.span("answer", input="a\nb\u2028") as span:
                span.output = {"i": i}
        assert publisher.flush(60.0)
        assert publisher.counts == {"sent": 20, "waiting": 0}

    traces = lines_of(path)
    assert [trace["trace_id"] for trace in traces] == [f"t{i}" for i in range(20)]
    assert traces[3]["pipeline"] == "bot"
    assert traces[3]["spans"][0]["input"] == "a\nb\u2028"
    assert traces[3]["spans"][0]["output"] == {"i": 3}


def test_a_second_run_appends(tmp_path):
    for name in ("one", "two"):
        with TracePublisher("bot", file=str(tmp_path / "t.jsonl")) as publisher, publisher.trace(name):
            pass

    assert [trace["trace_id"] for trace in lines_of(tmp_path / "t.jsonl")] == ["one", "two"]


def test_threads_and_processes_may_share_a_file(tmp_path):
    code = """
        import sys, threading
        from gapwatch.publisher import TracePublisher
        publisher = TracePublisher("bot", file="t.jsonl")
        def work(thread):
            for i in range(100):
                publisher.span(f"{sys.argv[1]}-{thread}")(lambda: "x" * 5000)()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for one in threads: one.start()
        for one in threads: one.join()
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    running = [subprocess.Popen([*command, str(n)], cwd=tmp_path, stderr=subprocess.PIPE) for n in range(3)]

    for one in running:
        assert one.communicate(timeout=120)[1] == b""
    components = [trace["spans"][0]["component"] for trace in lines_of(tmp_path / "t.jsonl")]
    assert {name: components.count(name) for name in components} == {
        f"{process}-{thread}": 100 for process in range(3) for thread in range(3)
    }


def test_a_forked_child_writes_its_own_traces_and_only_those(tmp_path):
    code = """
        import os
        from gapwatch.publisher import TracePublisher
        publisher = TracePublisher("bot", file="t.jsonl")
        publisher.span("before")(lambda: 1)()
        child = os.fork()
        publisher.span("after")(lambda: 1)()
        if child == 0:
            publisher.close()
            os._exit(0)
        os.waitpid(child, 0)
    """
    done = run_python(code, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    components = sorted(trace["spans"][0]["component"] for trace in lines_of(tmp_path / "t.jsonl"))
    assert components == ["after", "after", "before"]


def test_a_file_needs_no_kafka_client_and_no_brokers(tmp_path):
    code = """
        import sys
        from gapwatch.publisher import TracePublisher
        publisher = TracePublisher("bot", file="t.jsonl")
        publisher.span("a")(lambda: 1)()
        print(publisher.flush(60), "aiokafka" in sys.modules)
    """
    done = run_python(code, tmp_path, GAPWATCH_KAFKA_BROKERS="127.0.0.1:1")

    assert (done.stdout, done.stderr) == ("True False\n", "")


def test_a_file_that_was_moved_away_is_made_again(tmp_path):
    path = tmp_path / "t.jsonl"
    with TracePublisher("bot", file=path) as publisher:
        for name in ("one", "two"):
            with publisher.trace(name):
                pass
            assert publisher.flush(60.0)
            path.rename(tmp_path / name)

    assert [lines_of(tmp_path / name)[0]["trace_id"] for name in ("one", "two")] == ["one", "two"]


def test_of_a_write_that_a_full_disk_cuts_off_nothing_stays_and_the_traces_arrive_when_there_is_room(tmp_path, caplog):
    path = tmp_path / "t.jsonl"
    publisher = TracePublisher("bot", file=path)
    room = threading.Event()
    write = os.write

    def write_on_a_full_disk(descriptor, data):
        if room.is_set():
            return write(descriptor, data)
        write(descriptor, data[:7])
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gapwatch.publisher.file_sender.os.write", write_on_a_full_disk)
        for i in range(5):
            publisher.span("a")(lambda i=i: i)()
        assert not publisher.flush(1.0)
        assert path.read_bytes() == b""
        room.set()
        assert publisher.flush(60.0)

    assert len(lines_of(path)) == 5
    begin, end = caplog.messages
    assert begin == f"{path} cannot be written: No space left on device; traces wait in the buffer, " + (
        "the publisher tries again"
    )
    assert end.startswith(f"{path} can be written again, after ")
    publisher.close()


def test_a_full_device_is_logged_once_and_what_finds_no_room_is_counted(caplog):
    publisher = TracePublisher("bot", file="/dev/full", max_buffered_traces=10)
    for _ in range(50):
        publisher.span("a")(lambda: 1)()

    assert not publisher.flush(0.5)
    assert publisher.counts == {"sent": 0, "buffer_full": 40, "waiting": 10}
    assert not publisher.close(0.0)
    assert caplog.messages[0].startswith("/dev/full cannot be written: No space left on device; ")
    assert caplog.messages[1:] == ["the publisher closed with 10 traces unsent; they are lost"]


def test_a_folder_that_is_missing_is_logged_and_costs_the_pipeline_nothing(tmp_path, caplog):
    publisher = TracePublisher("bot", file=tmp_path / "no" / "t.jsonl")
    assert publisher.span("a")(lambda: "answer")() == "answer"

    assert caplog.messages == [
        f"the traces of pipeline 'bot' are not published: {tmp_path}/no/t.jsonl cannot be written: "
        "No such file or directory"
    ]
    assert publisher.counts == {"sent": 0, "not_set_up": 1}
    with pytest.raises(SettingsError, match="cannot be written"):
        TracePublisher("bot", file=tmp_path, strict=True)


def test_a_relative_path_stays_where_the_program_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with TracePublisher("bot", file="t.jsonl") as publisher:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        publisher.span("a")(lambda: 1)()

    assert len(lines_of(tmp_path / "t.jsonl")) == 1
