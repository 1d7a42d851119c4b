"""Commands that talk to Kafka answer --help without the extra `stream`, and name it when it is missing."""

import inspect
import subprocess
import sys

import pytest

from gapwatch.publisher import kafka_settings
from gapwatch.streams.commands import kafka_options
from gapwatch.streams.commands.index import COMMANDS

#: Runs the command line as if neither the extra `stream` nor the publisher were installed.
WITHOUT_STREAM = """\
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "gapwatch.publisher" or name.partition(".")[0] in ("aiokafka", "faust", "mode", "aiohttp"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from gapwatch.scorers.command_line import main
sys.exit(main())
"""


def without_stream(*arguments):
    """Run `gapwatch` without the packages of Kafka."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_STREAM, *arguments], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("name", ["run", "publish", "backfill", "replay", "judge"])
def test_help_answers_without_the_packages_of_kafka(name):
    done = without_stream(name, "--help")

    assert done.returncode == 0, done.stderr
    assert "Usage: " in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--portfolio", "p.yaml", "--store", "s.duckdb"),
        ("publish", "traces.jsonl"),
        ("backfill", "--from", "2h", "--store", "s.duckdb"),
    ],
)
def test_a_missing_extra_is_named_in_one_line(arguments):
    done = without_stream(*arguments, "--brokers", "127.0.0.1:1")

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'gapwatch[stream]' gapwatch-publisher" in done.stderr


def test_the_choices_are_those_of_the_publisher():
    assert kafka_options.PROTOCOLS == kafka_settings.PROTOCOLS
    assert kafka_options.MECHANISMS == kafka_settings.MECHANISMS


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_argument_of_a_command_comes_from_an_option(name):
    command = COMMANDS[name].load()
    if command.callback is None:
        return
    parameters = inspect.signature(command.callback).parameters.values()
    wanted = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD} - {"context", "ctx"}
    takes_more = any(one.kind is one.VAR_KEYWORD for one in parameters)
    given = {option.name for option in command.params if option.expose_value}

    assert wanted <= given
    assert takes_more or given <= wanted
