"""What a pipeline's author relies on: the trace says what happened, and the pipeline never notices."""

import asyncio
import json
import random
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.recording import encode_trace
from gapwatch.publisher.trace_publisher import TracePublisher, publisher_draw


class KeptTraces:
    """Stands where the sender stands and keeps each record as a consumer would read it."""

    def __init__(self):
        self.records = []
        self.counts = {}
        self.pending = 0

    def offer(self, trace, spans, size):
        self.records.append(json.loads(encode_trace(trace, spans)))
        return True


def make_publisher(**options):
    publisher = TracePublisher("bot", enabled=False, **options)
    publisher._sender = KeptTraces()
    return publisher


def only_trace(publisher):
    (record,) = publisher._sender.records
    return record


def only_span(publisher):
    (span,) = only_trace(publisher)["spans"]
    return span


class TestATrace:
    def test_says_what_the_publisher_and_the_caller_know(self):
        publisher = make_publisher(release="r7", environment="staging")
        with publisher.trace("t-1", session_id="s-1", attributes={"task": 12}) as trace:
            trace.attributes["customer"] = "gold"

        record = only_trace(publisher)

        assert record.pop("ended_at") >= record.pop("started_at") > 1.6e9
        assert record == {
            "trace_id": "t-1",
            "pipeline": "bot",
            "environment": "staging",
            "release": "r7",
            "session_id": "s-1",
            "sampling_probability": 1.0,
            "attributes": {"host.name": socket.gethostname(), "task": 12, "customer": "gold"},
            "spans": [],
        }

    def test_a_host_that_the_pipeline_names_stays(self):
        publisher = make_publisher()
        with publisher.trace("t-2", attributes={"host.name": "blue"}):
            pass
        assert only_trace(publisher)["attributes"] == {"host.name": "blue"}

    def test_ids_are_random_even_where_the_pipeline_seeds_its_own(self):
        publisher = make_publisher()
        for _ in range(2):
            random.seed(0)
            with publisher.trace(), publisher.span("a"):
                pass

        first, second = publisher._sender.records
        assert first["trace_id"] != second["trace_id"]
        assert first["spans"][0]["span_id"] != second["spans"][0]["span_id"]
        assert len(first["trace_id"]) == 32

    def test_parents_are_the_spans_around(self):
        publisher = make_publisher()
        with publisher.trace():
            with publisher.span("outer"), publisher.span("inner"):
                pass
            with publisher.span("next"):
                pass

        spans = {span["component"]: span for span in only_trace(publisher)["spans"]}
        assert spans["inner"]["parent_id"] == spans["outer"]["span_id"]
        assert "parent_id" not in spans["outer"]
        assert "parent_id" not in spans["next"]

    def test_a_span_alone_is_a_trace_of_its_own(self):
        publisher = make_publisher()
        with publisher.span("outer"), publisher.span("inner"):
            pass

        assert [span["component"] for span in only_trace(publisher)["spans"]] == ["inner", "outer"]

    def test_two_publishers_do_not_mix_their_spans(self):
        one, two = make_publisher(), make_publisher()
        with one.trace("one"), two.trace("two"), one.span("a"), two.span("b"):
            pass

        assert [record["trace_id"] for record in two._sender.records] == ["two"] or len(two._sender.records) == 2
        assert all(span["component"] == "b" for record in two._sender.records for span in record["spans"])
        assert all(span["component"] == "a" for record in one._sender.records for span in record["spans"])

    def test_as_a_decorator_each_call_is_a_trace(self):
        publisher = make_publisher()

        @publisher.trace(session_id="s")
        def work(n):
            with publisher.span("step"):
                return n + 1

        assert [work(1), work(2)] == [2, 3]
        assert len({record["trace_id"] for record in publisher._sender.records}) == 2


class TestASpan:
    def test_takes_what_is_assigned(self):
        publisher = make_publisher()
        with publisher.span("generator", kind="llm", tier="primary", model="m-1", input="q?") as span:
            span.output = {"answer": [1, "two"]}
            span.set_usage(input_tokens=3, output_tokens=5)
            span.set_usage(cost_usd=0.25)
            span.attributes["finish_reason"] = "stop"
            span.model = "m-2"

        span = only_span(publisher)
        assert span["ended_at"] >= span["started_at"]
        assert (span["kind"], span["tier"], span["model"], span["status"]) == ("llm", "primary", "m-2", "ok")
        assert (span["input"], span["output"]) == ("q?", {"answer": [1, "two"]})
        assert span["usage"] == {"input_tokens": 3, "output_tokens": 5, "cost_usd": 0.25}
        assert span["attributes"] == {"finish_reason": "stop"}

    def test_an_input_is_noted_as_it_was_at_the_start(self):
        publisher = make_publisher()
        messages = [{"role": "user"}]
        with publisher.span("a", input=messages):
            messages.append({"role": "assistant"})

        assert only_span(publisher)["input"] == [{"role": "user"}]

    def test_a_handled_error_is_noted(self):
        publisher = make_publisher()
        with publisher.span("a") as span:
            span.fail("rate_limited")

        assert (only_span(publisher)["status"], only_span(publisher)["error_type"]) == ("error", "rate_limited")

    def test_an_exception_passes_unchanged_and_is_noted(self):
        publisher = make_publisher()
        error = TimeoutError("model did not answer")

        with pytest.raises(TimeoutError) as caught, publisher.trace(), publisher.span("a"):
            raise error

        assert caught.value is error
        span = only_span(publisher)
        assert (span["status"], span["error_type"]) == ("error", "TimeoutError")
        assert span["attributes"] == {"error_message": "model did not answer"}
        assert only_trace(publisher)["attributes"]["error_type"] == "TimeoutError"

    def test_an_error_whose_text_cannot_be_had_is_still_noted(self):
        class NastyError(Exception):
            def __str__(self):
                raise RuntimeError("no text")

        publisher = make_publisher()
        with pytest.raises(NastyError), publisher.span("a"):
            raise NastyError

        assert only_span(publisher)["status"] == "error"

    def test_one_that_ends_after_its_trace_is_counted(self):
        publisher = make_publisher()
        with publisher.trace():
            late = publisher.span("a")
            late.open()
        late.close(None)

        assert only_trace(publisher)["spans"] == []
        assert publisher.counts["late_spans"] == 1


class TestADecoratedFunction:
    def test_one_argument_is_the_input(self):
        publisher = make_publisher()

        @publisher.span("retriever", kind="retrieval")
        def retrieve(question):
            """Find."""
            return [question.upper()]

        assert retrieve("a") == ["A"]
        assert retrieve.__doc__ == "Find."
        assert (only_span(publisher)["input"], only_span(publisher)["output"]) == ("a", ["A"])

    def test_several_arguments_are_the_input_by_name(self):
        publisher = make_publisher()

        class Bot:
            @publisher.span("generator")
            def generate(self, question, *rest, style="plain"):
                return question

        Bot().generate("q", 1, style="short")

        assert only_span(publisher)["input"] == {"question": "q", "rest": 1, "style": "short"}

    def test_capture_can_be_left_out(self):
        publisher = make_publisher()
        publisher.span("a", capture_input=False, capture_output=False)(lambda secret: secret)("s3cret")

        assert "s3cret" not in json.dumps(only_trace(publisher))

    def test_an_exception_passes_unchanged(self):
        publisher = make_publisher()
        error = ValueError("no")

        @publisher.span("a")
        def work():
            raise error

        with pytest.raises(ValueError) as caught:
            work()
        assert caught.value is error
        assert only_span(publisher)["error_type"] == "ValueError"

    def test_the_function_can_reach_its_span(self):
        publisher = make_publisher()

        @publisher.span("a")
        def work():
            publisher.current_span().tier = "cache"

        work()
        assert only_span(publisher)["tier"] == "cache"

    def test_outside_of_any_span_the_current_one_takes_everything_and_tells_nobody(self):
        publisher = make_publisher()
        span = publisher.current_span()
        span.tier = "cache"
        span.set_usage(input_tokens=1)
        span.fail("x")

        assert publisher._sender.records == []

    def test_a_generator_ends_with_its_last_item(self):
        publisher = make_publisher()

        @publisher.span("generator", kind="llm")
        def stream(n):
            for i in range(n):
                yield f"t{i} "
            return "done"

        def reader():
            return (yield from stream(3))

        with publisher.trace():
            items = []
            running = reader()
            try:
                while True:
                    items.append(next(running))
                    with publisher.span("between"):
                        pass
            except StopIteration as end:
                assert end.value == "done"

        spans = {span["component"]: span for span in only_trace(publisher)["spans"]}
        assert spans["generator"]["output"] == "t0 t1 t2 "
        assert "parent_id" not in spans["between"]

    def test_a_generator_takes_what_is_sent_and_thrown(self):
        publisher = make_publisher()

        @publisher.span("a")
        def echo():
            try:
                got = yield "first"
                yield got
            except KeyError:
                yield "caught"

        running = echo()
        assert next(running) == "first"
        assert running.send("sent") == "sent"
        assert running.throw(KeyError()) == "caught"
        running.close()
        assert only_span(publisher)["status"] == "ok"
        assert only_span(publisher)["output"] == "firstsentcaught"

    def test_coroutines_and_asynchronous_generators(self):
        publisher = make_publisher()

        @publisher.span("retriever")
        async def retrieve(question):
            await asyncio.sleep(0)
            return [question]

        @publisher.span("generator", kind="llm")
        async def stream():
            yield "a"
            yield "b"

        async def main():
            async with publisher.trace():
                await retrieve("q")
                async with publisher.span("reader"):
                    return [item async for item in stream()]

        assert asyncio.run(main()) == ["a", "b"]
        spans = {span["component"]: span for span in only_trace(publisher)["spans"]}
        assert spans["retriever"]["output"] == ["q"]
        assert spans["generator"]["output"] == "ab"
        assert spans["generator"]["parent_id"] == spans["reader"]["span_id"]

    def test_a_cancelled_coroutine_is_noted_and_stays_cancelled(self):
        publisher = make_publisher()

        @publisher.span("a")
        async def hang():
            await asyncio.sleep(60)

        async def main():
            task = asyncio.create_task(hang())
            await asyncio.sleep(0)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
        assert only_span(publisher)["error_type"] == "CancelledError"


class TestAModelsAnswer:
    answers = (
        {
            "model": "m",
            "choices": [{"message": {"content": "hi"}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        },
        SimpleNamespace(
            model="m",
            choices=[SimpleNamespace(message=SimpleNamespace(content="hi"))],
            usage=SimpleNamespace(prompt_tokens=1, completion_tokens=2),
        ),
        SimpleNamespace(
            model="m",
            content=[SimpleNamespace(text="hi", type="text")],
            usage=SimpleNamespace(input_tokens=1, output_tokens=2),
        ),
        SimpleNamespace(model="m", output_text="hi", usage=SimpleNamespace(input_tokens=1, output_tokens=2)),
    )

    @pytest.mark.parametrize("answer", answers)
    def test_text_model_and_usage_are_read(self, answer):
        publisher = make_publisher()

        assert publisher.span("g", kind="llm", model="asked")(lambda: answer)() is answer
        span = only_span(publisher)
        assert (span["output"], span["model"]) == ("hi", "m")
        assert span["usage"] == {"input_tokens": 1, "output_tokens": 2}

    def test_an_unknown_client_is_read_by_a_function(self):
        publisher = make_publisher()
        decorate = publisher.span("g", kind="llm", usage=lambda result: {"input_tokens": result["in"]})
        decorate(lambda: {"in": 7, "text": "x"})()

        assert only_span(publisher)["usage"] == {"input_tokens": 7}

    def test_other_kinds_keep_their_result(self):
        publisher = make_publisher()
        publisher.span("t", kind="tool")(lambda: self.answers[0])()

        assert only_span(publisher)["output"] == self.answers[0]


class TestConcurrency:
    def test_tasks_keep_to_their_own_trace(self):
        publisher = make_publisher()

        async def work(i):
            async with publisher.trace(f"t{i}"), publisher.span("outer"):
                await asyncio.sleep(random.random() / 100)
                await asyncio.to_thread(publisher.span("inner")(lambda: None))

        async def main():
            await asyncio.gather(*(work(i) for i in range(50)))

        asyncio.run(main())
        assert len(publisher._sender.records) == 50
        for record in publisher._sender.records:
            inner, outer = record["spans"]
            assert inner["parent_id"] == outer["span_id"]

    def test_a_thread_is_part_of_the_trace_that_it_was_given(self):
        publisher = make_publisher()
        step = publisher.span("step")(lambda n: n * 2)
        with ThreadPoolExecutor(4) as pool, publisher.trace(), publisher.span("fan-out"):
            results = list(pool.map(publisher.carry(step), range(8)))

        *steps, outer = only_trace(publisher)["spans"]
        assert results == [n * 2 for n in range(8)]
        assert {span["parent_id"] for span in steps} == {outer["span_id"]}

    def test_a_thread_that_was_given_nothing_makes_its_own(self):
        publisher = make_publisher()
        with publisher.trace("mine"):
            thread = threading.Thread(target=publisher.span("alone")(lambda: None))
            thread.start()
            thread.join()

        assert [len(record["spans"]) for record in publisher._sender.records] == [1, 0]


class TestSampling:
    def test_a_share_is_kept_with_its_weight_and_the_rest_is_counted(self):
        publisher = make_publisher(sampling_probability=0.25)
        for i in range(2000):
            with publisher.trace(f"t{i}"), publisher.span("a") as span:
                span.output = "x"

        kept = publisher._sender.records
        assert 400 < len(kept) < 600
        assert {record["sampling_probability"] for record in kept} == {0.25}
        assert publisher.counts["sampled_out"] == 2000 - len(kept)

    def test_a_smaller_share_is_a_part_of_a_larger_one(self):
        kept = {}
        for share in (0.1, 0.5):
            publisher = make_publisher(sampling_probability=share)
            for i in range(500):
                with publisher.trace(f"t{i}"):
                    pass
            kept[share] = {record["trace_id"] for record in publisher._sender.records}

        assert kept[0.1] < kept[0.5]

    def test_the_choice_is_independent_of_the_watchers(self):
        import hashlib

        def watchers_draw(trace_id):
            return int(hashlib.sha256(b"gapwatch/1/" + trace_id.encode()).hexdigest()[:13], 16) / 2**52

        ids = [f"t{i}" for i in range(4000)]
        both = sum(publisher_draw(i) < 0.5 and watchers_draw(i) < 0.5 for i in ids)
        assert 900 < both < 1100

    @pytest.mark.parametrize("share", [2.0, "half"])
    def test_a_share_that_is_none_is_ignored_where_the_pipeline_runs(self, share):
        publisher = make_publisher()
        with publisher.trace(sampling_probability=share):
            pass

        assert only_trace(publisher)["sampling_probability"] == 1.0
        assert publisher.counts["own_errors"] == 1

    @pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
    def test_no_share_is_refused(self, share):
        with pytest.raises(SettingsError, match="from 0 to 1"):
            make_publisher(sampling_probability=share)


class TestNothingBreaksThePipeline:
    def circle():
        value = []
        value.append(value)
        return value

    class Hostile:
        def __repr__(self):
            raise RuntimeError("no")

    @dataclass
    class Point:
        x: int

    values = (
        (float("nan"), None),
        (2**70, 2**70),
        ({1: "a"}, {"1": "a"}),
        ({"a": {1, 2}}, {"a": [1, 2]}),
        (b"\xff", "\ufffd"),
        (Point(3), {"x": 3}),
        (ValueError("x"), "ValueError: x"),
    )

    @pytest.mark.parametrize(("value", "seen"), values, ids=repr)
    def test_strange_values_have_a_form(self, value, seen):
        publisher = make_publisher()
        with publisher.span("a", input=value) as span:
            span.output = value

        assert only_span(publisher).get("output") == seen
        assert only_span(publisher).get("input") == seen

    @pytest.mark.parametrize("value", [circle(), Hostile(), [Hostile()], "\ud83d", ["\ud83d"], object()], ids=type)
    def test_hostile_values_do_no_harm(self, value):
        publisher = make_publisher()
        with publisher.trace(), publisher.span("a", input=value) as span:
            span.output = value
            span.attributes["x"] = value

        assert len(only_trace(publisher)["spans"]) == 1

    @given(
        st.recursive(
            st.none() | st.text() | st.integers() | st.floats(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
        )
    )
    def test_any_value_gives_a_record(self, value):
        publisher = make_publisher()
        with publisher.span("a", input=value) as span:
            span.output = value

        assert only_span(publisher)["component"] == "a"

    def test_a_value_over_the_limit_is_left_out_and_named(self):
        publisher = make_publisher(max_value_bytes=100)
        with publisher.span("a") as span:
            span.output = "x" * 101

        assert "output" not in only_span(publisher)
        assert only_span(publisher)["attributes"] == {"omitted_output": "101 bytes"}

    def test_redaction_sees_each_value_once(self):
        seen = []
        publisher = make_publisher(redact=lambda value: seen.append(value) or "***")
        publisher.span("a")(lambda q: "secret answer")("secret question")

        assert seen == ["secret question", "secret answer"]
        assert "secret" not in json.dumps(only_trace(publisher))

    def test_where_redaction_fails_nothing_leaks(self, caplog):
        publisher = make_publisher(redact=lambda value: value["nope"])
        for _ in range(3):
            publisher.span("a")(lambda q: None)("secret")

        assert "secret" not in json.dumps(publisher._sender.records)
        assert publisher.counts["own_errors"] == 3
        assert len(caplog.records) == 1

    def test_attributes_that_are_none_do_no_harm(self):
        publisher = make_publisher()
        with publisher.trace(attributes=17), publisher.span("a", attributes=17) as span:
            span.attributes = None
            span.usage = "many"

        assert publisher.counts["own_errors"] == 2

    def test_switched_off_it_needs_no_broker(self):
        publisher = TracePublisher("bot", enabled=False)
        assert publisher.span("a")(lambda n: n + 1)(1) == 2
        assert publisher.close()


class TestItIsLight:
    def test_it_imports_the_standard_library_and_orjson(self):
        code = (
            "import sys; before = set(sys.modules); import gapwatch.publisher;"
            "names = {name.partition('.')[0] for name in set(sys.modules) - before};"
            "print(*sorted(names - set(sys.stdlib_module_names)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

        assert set(done.stdout.split()) == {"orjson", "gapwatch"}

    def test_a_publisher_adds_aiokafka_and_nothing_heavy(self):
        code = (
            "import sys; before = set(sys.modules); import gapwatch.publisher;"
            "gapwatch.publisher.TracePublisher('bot', brokers='b:1');"
            "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

        heavy = {"pydantic", "duckdb", "pyarrow", "numpy", "faust", "rich", "click", "yaml"}
        assert "aiokafka" in done.stdout.split()
        assert not heavy & set(done.stdout.split())


class TestSettings:
    def test_the_environment_says_where(self, monkeypatch):
        monkeypatch.setenv("GAPWATCH_KAFKA_BROKERS", "a:1,b:2")
        assert TracePublisher("bot")._sender._settings.addresses == ["a:1", "b:2"]
