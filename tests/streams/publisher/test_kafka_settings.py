"""Settings that contradict each other are refused before anything is sent, and a password is never shown."""

import pytest

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.kafka_settings import KafkaSettings


@pytest.fixture
def pem(tmp_path):
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    return str(file)


def test_the_protocol_follows_from_what_is_given(pem):
    assert KafkaSettings("a:1").security_protocol == "PLAINTEXT"
    assert KafkaSettings("a:1", ca_file=pem).security_protocol == "SSL"
    assert KafkaSettings("a:1", username="u", password="p").security_protocol == "SASL_PLAINTEXT"
    assert KafkaSettings("a:1", username="u", password="p", ca_file=pem).security_protocol == "SASL_SSL"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"brokers": ""}, "no Kafka brokers given"),
        ({"brokers": "host"}, "'host' is not HOST:PORT"),
        ({"brokers": "host:0"}, "not HOST:PORT"),
        ({"brokers": "a:1,b:99999"}, "'b:99999' is not HOST:PORT"),
        ({"brokers": "http://a:1"}, "not HOST:PORT"),
        ({"security_protocol": "TLS"}, "expected one of PLAINTEXT, SSL"),
        ({"sasl_mechanism": "MD5"}, "expected one of PLAIN, SCRAM"),
        ({"security_protocol": "SASL_SSL"}, "needs a username and a password"),
        ({"username": "u"}, "needs a username and a password"),
        ({"security_protocol": "SSL", "username": "u", "password": "p"}, "sends no login"),
        ({"ca_file": "/nowhere"}, "ca_file: the file '/nowhere' does not exist"),
    ],
)
def test_contradictions_are_refused(fields, says):
    with pytest.raises(SettingsError, match=says.replace("(", r"\(")):
        KafkaSettings(**{"brokers": "a:1", **fields})


def test_a_file_that_is_no_certificate_is_refused(pem):
    with pytest.raises(SettingsError, match="cannot be read"):
        KafkaSettings("a:1", ca_file=pem).ssl_context()


def test_a_certificate_without_encryption_is_refused(pem):
    with pytest.raises(SettingsError, match="does not encrypt"):
        KafkaSettings("a:1", security_protocol="PLAINTEXT", ca_file=pem)


def test_a_password_is_never_shown():
    settings = KafkaSettings("a:1", username="u", password="s3cret")
    assert "s3cret" not in repr(settings) + str(settings)


def test_what_is_given_wins_over_the_environment():
    environment = {"GAPWATCH_KAFKA_BROKERS": "e:1", "GAPWATCH_KAFKA_USERNAME": "u", "GAPWATCH_KAFKA_PASSWORD": "p"}
    settings = KafkaSettings.from_environment(environment, brokers="g:1", ca_file=None)

    assert (settings.brokers, settings.username) == ("g:1", "u")
