"""Command `gapwatch`: finds the subcommands of every package and imports only the one that is run.

A package contributes its subcommands as a dict `COMMANDS` of `Command`s in `commands/index.py`; an entry point of the
group `gapwatch.commands` names it. Those modules import nothing heavy, so that `gapwatch --help` answers at once.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from gapwatch.scorers.arrow_without_pandas import hide_pandas
from gapwatch.scorers.errors import GapwatchError
from gapwatch.scorers.version import program_version

ENTRY_POINT_GROUP = "gapwatch.commands"

#: Gapwatch's own packages, imported by name: a source tree has no entry points, or those of another version.
OWN_MODULES = ("gapwatch.sinks.commands.index", "gapwatch.streams.commands.index", "gapwatch.design.commands.index")

#: Last words of the errors that DuckDB raises instead of KeyboardInterrupt when Ctrl-C interrupts a query.
_INTERRUPTED_QUERY = ("Query interrupted", "KeyboardInterrupt")

# Containers that are made before the garbage collector looks for cycles among them. With Python's 700, a start looked
# nine times at all that it imports, and scoring fifty times a slice at decoded records, which have no cycles.
COLLECTED_AFTER = 50_000

# Set at SIGTERM: what imports may turn the KeyboardInterrupt into another error, or lose it in a callback.
_stop_asked = threading.Event()


@dataclass(frozen=True)
class Command:
    """Subcommand that is not imported yet.

    Attributes:
        summary: One line for `gapwatch --help`.
        target: `module:attribute` of a click command; imported when the command is run or its help is shown.
        is_service: Returns whether the command, with these arguments and variables, runs until it is stopped. Then a
            stop by Ctrl-C or SIGTERM is its normal end, with status 0, also while it starts.
    """

    summary: str
    target: str
    is_service: Callable[[Sequence[str], Mapping[str, str]], bool] = lambda _arguments, _environment: False

    def load(self) -> click.Command:
        """Import the click command.

        Raises:
            TypeError: The target is not a click command.
        """
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.target} is not a click command but {type(command).__name__}")
        return command


def own_commands() -> dict[str, Command]:
    """Return the commands of Gapwatch, by name."""
    commands: dict[str, Command] = {}
    for module in OWN_MODULES:
        if _exists(module):
            commands.update(importlib.import_module(module).COMMANDS)
    return commands


def discover_commands() -> dict[str, Command]:
    """Return the commands of Gapwatch and of other installed packages, by name.

    Another package cannot replace a command of Gapwatch. Where its commands cannot be loaded, `gapwatch` prints a
    warning on standard error and works without them.
    """
    commands = own_commands()
    for name, foreign in _foreign_contributions():
        for command_name, command in foreign.items():
            if command_name in commands:
                click.echo(f"gapwatch: ignored a second command `{command_name}`, from {name}", err=True)
            else:
                commands[command_name] = command
    return commands


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _foreign_contributions() -> Iterator[tuple[str, dict[str, Command]]]:
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.dist is not None and entry.dist.name == "gapwatch":  # OWN_MODULES, or those of another version
            continue
        try:
            yield entry.value, dict(entry.load())
        except Exception as error:  # another package may raise anything at import
            click.echo(f"gapwatch: cannot load the commands of {entry.value}: {error}", err=True)


class SuggestingGroup(click.Group):
    """Group that suggests the nearest command for a misspelt one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names; for a misspelt name, suggest the nearest one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            error.message += nearest_command(args[0], self.list_commands(ctx))
            raise


def nearest_command(name: str, commands: Iterable[str]) -> str:
    """Return a question that names the command most similar to a misspelt one; empty if none is similar."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(commands), n=1)
    return f" Did you mean `{near[0]}`?" if near else ""


class CommandLine(SuggestingGroup):
    """Group of subcommands, each known by its summary and imported when it is used."""

    def __init__(self, commands: dict[str, Command]) -> None:
        super().__init__(
            name="gapwatch",
            help="Monitors in production whether an LLM pipeline still does what it was built to do.",
            epilog="Exit status: 0 done; 1 the job stopped or the ledger does not balance; 2 the command cannot be "
            "carried out as given.",
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )
        self._offered = commands
        self.params.append(
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_version,
                help="Show the version and exit.",
            )
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, sorted."""
        return sorted(self._offered)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command by its name; return None where no command has it."""
        offered = self._offered.get(cmd_name)
        return None if offered is None else offered.load()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries, without importing a command."""
        if rows := [(name, self._offered[name].summary) for name in self.list_commands(ctx)]:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _print_version(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        click.echo(f"gapwatch {program_version()}")
        ctx.exit()


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        arguments: Without the program's name; None for the arguments of the process.

    Returns:
        0 for success; 1 if the job failed, was interrupted, or its output could not be written; 2 if the request is
        invalid.
    """
    try:
        status = _status_of(arguments)
    except OSError as error:
        if not _output_fails():
            raise
        return _say_lost_output(error)
    try:
        if not sys.stdout.closed:
            sys.stdout.flush()
    except OSError as error:
        return _say_lost_output(error)
    return status


def _status_of(arguments: Sequence[str] | None) -> int:
    try:
        status = CommandLine(_offered(arguments)).main(args=arguments, prog_name="gapwatch", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except GapwatchError as error:
        click.echo(f"gapwatch: {error}", err=True)
        status = error.exit_status
    except (KeyboardInterrupt, click.Abort):
        status = _say_interrupted(sys.argv[1:] if arguments is None else arguments)
    except Exception as error:
        if not (_stop_asked.is_set() or _is_interrupt(error)):
            raise
        status = _say_interrupted(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as stop:  # raised by click when the reader of a pipe is gone, or by a command itself
        status = stop.code
    return status if isinstance(status, int) else 0


def _offered(arguments: Sequence[str] | None) -> dict[str, Command]:
    """Return Gapwatch's own commands if one is asked for, else all: to find others, each installed package is read."""
    asked = (sys.argv[1:] if arguments is None else arguments)[:1]
    own = own_commands()
    return own if own.keys() & set(asked) else discover_commands()


def _is_interrupt(error: Exception) -> bool:
    from_engine = isinstance(error, RuntimeError) or type(error).__module__.startswith(("duckdb", "_duckdb"))
    return from_engine and str(error).rstrip(": \n").endswith(_INTERRUPTED_QUERY)


def _say_interrupted(arguments: Sequence[str]) -> int:
    command = discover_commands().get(arguments[0]) if arguments else None
    if command is not None and command.is_service(arguments, os.environ):
        click.echo("gapwatch: stopped", err=True)
        return 0
    click.echo("gapwatch: interrupted", err=True)
    return 1


def _output_fails() -> bool:
    """Return whether standard output refuses what is written: a full disk, or a reader that is gone."""
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except (OSError, ValueError):  # ValueError: a writer of Arrow has closed it after the fault
        return True
    return False


def _say_lost_output(error: OSError) -> int:
    """Name a fault of standard output, except that its reader is gone; return the exit status."""
    _discard_output()
    if not isinstance(error, BrokenPipeError):
        why = error.strerror or error
        click.echo(f"gapwatch: the output is not complete: standard output cannot be written ({why})", err=True)
    return 1


def _discard_output() -> None:
    """Redirect standard output to /dev/null, because the flush at exit would fail again."""
    with contextlib.suppress(ValueError):  # it is closed
        number = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def program_name() -> str:
    """Return the text to type for this program: its name where the shell finds it, else its path."""
    called = Path(sys.argv[0])
    if called.name != "gapwatch" or shutil.which("gapwatch") == str(called.absolute()):
        return "gapwatch"
    return shlex.quote(near_path(called))


def near_path(path: Path) -> str:
    """Return a path relative to the current folder where it is inside it, else as it is."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def main() -> None:
    """Run the command line and end the process with its exit status; SIGTERM has the effect of Ctrl-C."""
    _open_closed_streams()
    hide_pandas()
    gc.set_threshold(COLLECTED_AFTER)
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        status = run()
    except KeyboardInterrupt:  # before the command line is read
        status = _say_interrupted(sys.argv[1:])
    if "faust" in sys.modules and "duckdb" in sys.modules:
        # Everything is closed. If a thread of the Kafka libraries is still ending, DuckDB lists its objects while the
        # interpreter shuts down: about one stop in twelve on a busy machine.
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _open_closed_streams() -> None:
    """Connect streams that the caller has closed to /dev/null: a file opened later would take their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))


def is_stop_asked() -> bool:
    """Return whether SIGTERM came; a command that takes signals itself asks when it begins to."""
    return _stop_asked.is_set()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """End as after Ctrl-C: close stores, end the processes of Python scorers, exit with status 1."""
    _stop_asked.set()
    if callable(signal.getsignal(signal.SIGINT)):
        signal.raise_signal(signal.SIGINT)
    else:  # SIGINT is ignored, which a shell sets for background jobs
        raise KeyboardInterrupt


if __name__ == "__main__":
    main()
