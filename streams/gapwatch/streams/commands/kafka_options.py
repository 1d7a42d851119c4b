"""Connection options of every command that talks to Kafka; defaults come from `GAPWATCH_KAFKA_*`.

Nothing of the extra `stream` is imported at the top, so that `--help` answers without it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from gapwatch.scorers.errors import UsageError

if TYPE_CHECKING:
    from gapwatch.publisher.kafka_settings import KafkaSettings

Function = TypeVar("Function", bound=Callable[..., Any])

#: As in `gapwatch.publisher.kafka_settings`, which may not be installed; a test compares them.
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

#: Packages of the extra `stream`, and the publisher, which is a distribution of its own.
_STREAM_PACKAGES = ("gapwatch.publisher", "aiokafka", "faust", "mode", "aiohttp")


def _option(flag: str, **more: Any) -> Callable[[Function], Function]:
    """Return an option with its variable, such as GAPWATCH_KAFKA_BROKERS for --brokers."""
    variable = "GAPWATCH_KAFKA_" + flag[2:].replace("-", "_").upper()
    return click.option(flag, envvar=variable, show_envvar=True, **more)


_OPTIONS = (
    _option("--brokers", metavar="HOST:PORT,...", help="Kafka brokers."),
    _option(
        "--security-protocol", type=click.Choice(PROTOCOLS),
        help="Default: SASL_... with a user name, SSL with a certificate file, else PLAINTEXT.",
    ),
    _option("--sasl-mechanism", type=click.Choice(MECHANISMS), help="Default: SCRAM-SHA-256."),
    _option("--username", metavar="NAME", help="User name of the login."),
    _option(
        "--password-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
        help="File whose first line is the password; other users can read a command line. The variable "
        "GAPWATCH_KAFKA_PASSWORD may hold the password itself.",
    ),
    _option(
        "--ca-file", metavar="FILE", help="PEM file of the certificate authorities to trust. Default: the system's."
    ),
    _option("--cert-file", metavar="FILE", help="PEM file of the client's certificate, if the cluster requires one."),
    _option("--key-file", metavar="FILE", help="PEM file of the client's key."),
)  # fmt: skip


def kafka_options(command: Function) -> Function:
    """Add the options; the command takes them as keyword arguments and passes them to `read_kafka_options`.

    A `SettingsError` of the publisher ends the command as a `UsageError`. So does a missing package of the extra
    `stream`, with the command that installs it.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **given: Any) -> Any:
        try:
            from gapwatch.publisher.errors import SettingsError

            try:
                return command(*arguments, **given)
            except SettingsError as error:
                raise UsageError(str(error)) from error
        except ModuleNotFoundError as error:
            if (error.name or "").startswith(_STREAM_PACKAGES):
                raise UsageError(
                    f"{error.name} is not installed, which this command needs for Kafka; "
                    "run: pip install 'gapwatch[stream]' gapwatch-publisher"
                ) from error
            raise

    wrapped: Any = run
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast(Function, wrapped)


def read_kafka_options(password_file: Path | None = None, **given: str | None) -> KafkaSettings:
    """Return the connection settings from options and environment.

    Args:
        password_file: File whose first line is the password.
        given: The other options by name; None where not given.

    Raises:
        UsageError: The password file cannot be read.
        SettingsError: No brokers are given, settings contradict each other, or a file does not exist.
    """
    from gapwatch.publisher.kafka_settings import KafkaSettings

    password = None
    if password_file is not None:
        try:
            password = password_file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--password-file {password_file} cannot be read: {error}") from error
    return KafkaSettings.from_environment(os.environ, password=password, **given)
