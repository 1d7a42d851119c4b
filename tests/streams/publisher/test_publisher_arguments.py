"""Arguments of the publisher: whatever is given, it works as given or one sentence says what is expected."""

import logging
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.trace_publisher import TracePublisher

#: Arguments whose error ends the constructor: they are constants of the program.
OF_PROGRAM = {
    "pipeline": ([None, "", 5, b"bot", "\ud800"], "expected a text that is not empty"),
    "environment": ([None, "", 5], "expected a text that is not empty"),
    "topic": ([None, "", 5, b"traces"], "expected a text that is not empty"),
    "release": (["", 5, b"r1"], "expected a text that is not empty, or None"),
    "sampling_probability": (
        ["0.5", None, True, -0.1, 1.5, float("nan"), float("inf"), b"1"],
        "expected a number from 0 to 1",
    ),
    "max_buffered_traces": ([0, -1, "10", None, 1.5, True, float("nan")], "expected a whole number from 1"),
    "max_buffered_bytes": ([0, -1, "10", None, 1.5, True, float("inf")], "expected a whole number from 1"),
    "max_value_bytes": ([-1, "10", None, 1.5, False], "expected a whole number from 0"),
    "redact": (["secret", 5, True], "expected a function of one value, or None"),
    "enabled": (["false", None, 1, 0], "expected True or False"),
    "strict": (["false", None, 1], "expected True or False"),
}
#: Arguments whose error is logged, or raised with `strict`: they often come from the machine that runs the program.
OF_TARGET = {
    "file": ([5, "", b"", "a\0b", True], "expected the path of a file, or None"),
    "compression": ([5, "zip", b"gzip", ["gzip"]], "expected one of gzip, lz4, zstd, snappy"),
    "brokers": ([["a:1", "b:2"], 5, b"a:1", "\ud800:1"], "expected a text"),
    "password": ([5, b"geheim"], "expected a text"),
    "ca_file": ([5, ["/ca.pem"]], "expected a text"),
}
EACH_OF_PROGRAM = [(name, value, says) for name, (values, says) in OF_PROGRAM.items() for value in values]
EACH_OF_TARGET = [(name, value, says) for name, (values, says) in OF_TARGET.items() for value in values]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch, tmp_path):
    monkeypatch.delenv("GAPWATCH_KAFKA_BROKERS", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "value", "says"), EACH_OF_PROGRAM)
def test_a_wrong_constant_is_refused_with_its_name_its_value_and_what_is_expected(name, value, says):
    with pytest.raises(SettingsError) as raised:
        TracePublisher(**{"pipeline": "bot", "file": "t.jsonl", name: value})

    assert str(raised.value) == f"{name} is {value!r}; {says}"


@pytest.mark.parametrize(("name", "value", "says"), EACH_OF_TARGET)
def test_a_wrong_target_is_logged_and_raised_with_strict(name, value, says, caplog):
    target = {name: value} if name == "file" else {"brokers": "b:1", name: value}
    publisher = TracePublisher("bot", **target)
    assert publisher.span("a")(lambda: "answer")() == "answer"

    (line,) = caplog.messages
    assert line.startswith(f"the traces of pipeline 'bot' are not published: {name} is ")
    assert says in line
    assert "geheim" not in line
    assert publisher.counts["not_set_up"] == 1
    with pytest.raises(SettingsError, match=re.escape(says)):
        TracePublisher("bot", strict=True, **target)


@pytest.mark.parametrize("topic", ["with space", "ä", ".", "..", "x" * 250, "a/b"])
def test_a_name_that_no_topic_can_have_is_a_wrong_target(topic):
    with pytest.raises(SettingsError, match="expected 1 to 249 letters, digits, dots, hyphens and underscores"):
        TracePublisher("bot", topic=topic, brokers="b:1", strict=True)


@pytest.mark.parametrize("file", [b"t.jsonl", "t.jsonl", Path("t.jsonl")])
def test_a_path_may_be_bytes_a_text_or_a_path(file, tmp_path):
    with TracePublisher("bot", file=file, strict=True) as publisher:
        publisher.span("a")(lambda: 1)()

    assert (tmp_path / "t.jsonl").read_text().count("\n") == 1


def test_a_certificate_may_be_a_path(tmp_path):
    with pytest.raises(SettingsError, match=r"ca_file: the file '/no/ca.pem' does not exist"):
        TracePublisher("bot", brokers="b:1", ca_file=Path("/no/ca.pem"), strict=True)


def test_a_trace_larger_than_the_whole_buffer_is_logged_once(caplog):
    publisher = TracePublisher("bot", file="t.jsonl", max_buffered_bytes=1)
    for _ in range(3):
        publisher.span("a")(lambda: 1)()

    assert publisher.counts["buffer_full"] == 3
    (line,) = caplog.messages
    assert re.fullmatch(
        r"a trace of about \d+ bytes is larger than the whole buffer and is dropped; raise max_buffered_bytes, "
        "which is 1",
        line,
    )
    assert publisher.close()


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=8), st.just([]),
    st.just(Path("t.jsonl")), st.just(print), st.builds(object), st.fractions(), st.just(10**400),
)  # fmt: skip
NAMES = [*OF_PROGRAM, *OF_TARGET, "security_protocol", "sasl_mechanism", "username", "cert_file", "key_file"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(set(NAMES) - {"strict", "file"})), ANYTHING, max_size=3), st.booleans())
def test_any_arguments_work_or_give_one_sentence(caplog, arguments, to_file):
    """Only a `SettingsError` leaves the constructor, and each trace of what was made is counted once."""
    caplog.clear()
    caplog.set_level(logging.WARNING)
    target = {"file": "t.jsonl"} if to_file else {"brokers": "127.0.0.1:1"}
    try:
        publisher = TracePublisher(**{"pipeline": "bot", **target, **arguments})
    except SettingsError as error:
        assert "\n" not in str(error)
        return
    if any("not published" in line for line in caplog.messages):
        assert publisher.span("a")(lambda: "answer")() == "answer"
        assert publisher.counts["not_set_up"] == 1
    elif to_file:
        assert publisher.span("a")(lambda: "answer")() == "answer"
        assert publisher.flush(60.0)
        counts = publisher.counts
        assert sum(counts.values()) == (1 if arguments.get("enabled", True) else 0)
        assert not counts.get("own_errors")
        publisher.close()
