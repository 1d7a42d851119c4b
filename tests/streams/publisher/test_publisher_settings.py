"""Settings that are wrong: said once in the log, never in the way of the pipeline, unless its author asks for that."""

import subprocess
import sys

import pytest

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.trace_publisher import TracePublisher

WRONG = {
    "no brokers": ({}, "no Kafka brokers given; set GAPWATCH_KAFKA_BROKERS=HOST:PORT"),
    "no address": ({"brokers": "nowhere"}, "brokers: 'nowhere' is not HOST:PORT"),
    "login without a password": (
        {"brokers": "b:1", "security_protocol": "SASL_SSL", "username": "u"},
        "SASL_SSL needs a username and a password",
    ),
    "unknown mechanism": (
        {"brokers": "b:1", "username": "u", "password": "geheim", "sasl_mechanism": "SCRAM"},
        "sasl_mechanism is 'SCRAM'; expected one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    ),
    "certificate that does not exist": ({"brokers": "b:1", "ca_file": "/no/ca.pem"}, "ca_file: the file '/no/ca.pem'"),
    "unknown compression": ({"brokers": "b:1", "compression": "zip"}, "compression is 'zip'; expected one of gzip"),
    "file and brokers": ({"brokers": "b:1", "file": "t.jsonl"}, "file= and brokers= exclude each other"),
}


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch):
    monkeypatch.delenv("GAPWATCH_KAFKA_BROKERS", raising=False)


@pytest.mark.parametrize(("settings", "says"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_logged_once_and_the_pipeline_runs(settings, says, caplog):
    publisher = TracePublisher("bot", **settings)
    for _ in range(3):
        with publisher.trace():
            assert publisher.span("answer")(lambda question: question.upper())("why?") == "WHY?"
    assert publisher.flush()
    assert publisher.close()

    (line,) = caplog.messages
    assert line.startswith(f"the traces of pipeline 'bot' are not published: {says}")
    assert "geheim" not in line
    assert publisher.counts == {"sent": 0, "not_set_up": 3}


@pytest.mark.parametrize(("settings", "says"), WRONG.values(), ids=WRONG)
def test_they_are_raised_where_the_author_asks_for_that(settings, says, caplog):
    with pytest.raises(SettingsError) as raised:
        TracePublisher("bot", strict=True, **settings)

    assert says in str(raised.value)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("broker", "brokers"),
        ("realease", "release"),
        ("user_name", "username"),
        ("File", "file"),
    ],
)
def test_a_misspelt_argument_is_refused_with_the_nearest_one(name, near):
    with pytest.raises(TypeError, match=f"TracePublisher has no argument '{name}'; did you mean '{near}'"):
        TracePublisher("bot", **{name: "x"})


def test_an_argument_like_no_other_is_refused_with_all_there_are():
    with pytest.raises(TypeError, match=r"has no argument 'xyzzy'; it takes pipeline, topic, .*brokers"):
        TracePublisher("bot", xyzzy=1)


def test_without_the_kafka_client_the_log_says_what_to_install():
    code = (
        "import sys; sys.modules['aiokafka'] = None\n"
        "from gapwatch.publisher import TracePublisher\n"
        "print(TracePublisher('bot', brokers='b:1').span('a')(lambda: 'answer')())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.stdout == "answer\n"
    assert done.stderr == (
        "the traces of pipeline 'bot' are not published: aiokafka cannot be imported, which is needed for Kafka; "
        "run: pip install aiokafka\n"
    )
