"""The options of every command that talks to Kafka; what is not given comes from `GAPWATCH_KAFKA_*`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.kafka_settings import MECHANISMS, PROTOCOLS, KafkaSettings
from gapwatch.scorers.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--brokers", metavar="HOST:PORT,...", help="Where Kafka is. [env: GAPWATCH_KAFKA_BROKERS]"),
    click.option(
        "--security-protocol", type=click.Choice(PROTOCOLS),
        help="Default: SASL_ with a user name, SSL with a certificate file, else PLAINTEXT.",
    ),
    click.option("--sasl-mechanism", type=click.Choice(MECHANISMS), help="Default: SCRAM-SHA-256."),
    click.option("--username", metavar="NAME", help="To log in with. [env: GAPWATCH_KAFKA_USERNAME]"),
    click.option(
        "--password-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
        help="Its first line is the password; a command line can be read by all. [env: GAPWATCH_KAFKA_PASSWORD]",
    ),
    click.option("--ca-file", metavar="FILE", help="PEM of the authorities to trust. Default: those of the system."),
    click.option("--cert-file", metavar="FILE", help="PEM of a client's certificate, where the cluster asks for one."),
    click.option("--key-file", metavar="FILE", help="PEM of its key."),
)  # fmt: skip


def kafka_options(command: Function) -> Function:
    """Add the options; the command takes them as keyword arguments and hands them to `read_kafka_options`.

    A `SettingsError`, then or later, ends the command as a `UsageError`: the publisher, whose settings they are, knows
    no errors of Gapwatch.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **given: Any) -> Any:
        try:
            return command(*arguments, **given)
        except SettingsError as error:
            raise UsageError(str(error)) from error

    wrapped: Any = run
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast(Function, wrapped)


def read_kafka_options(password_file: Path | None = None, **given: str | None) -> KafkaSettings:
    """Return the settings that the options and the environment give.

    Raises:
        UsageError: The password's file cannot be read.
        SettingsError: They name no brokers, contradict each other, or name files that are not there.
    """
    password = None
    if password_file is not None:
        try:
            password = password_file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--password-file {password_file}: {error}") from error
    return KafkaSettings.from_environment(os.environ, password=password, **given)
