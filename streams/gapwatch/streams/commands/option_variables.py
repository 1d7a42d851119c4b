"""Variables of the environment for the options of a command: `--thin-rows` is `GAPWATCH_THIN_ROWS`.

A value of a variable that is refused is reported by the name of the variable, because nobody has typed the option.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from gapwatch.scorers.errors import GapwatchError

log = logging.getLogger("gapwatch.run")

_PREFIX = "GAPWATCH_"


def with_variables(command: click.Command) -> click.Command:
    """Give each option of a command a variable, unless it has one; the help shows it, and errors name it."""
    for option in _options(command):
        option.envvar = option.envvar or _PREFIX + _flag(option)[2:].replace("-", "_").upper()
        option.show_envvar = True
        if option.multiple:  # click splits paths at the separator of PATH, and all else at spaces
            splitter = os.pathsep if option.type.envvar_list_splitter else "spaces."
            option.help = f"{option.help} In the variable, separate them by {splitter}"
    if command.callback is not None:
        command.callback = _naming_variables(command.callback)
    return command


def _naming_variables(callback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(callback)
    def run(*arguments: Any, **given: Any) -> Any:
        context = click.get_current_context()
        try:
            return callback(*arguments, **given)
        except click.UsageError as error:
            error.message = _with_names(context, error.message)
            if not _is_logged(context, error.message):
                raise
            raise SystemExit(error.exit_code) from error
        except GapwatchError as error:
            text = _with_names(context, str(error))
            if text != str(error):
                error.args = (text,)
            if not _is_logged(context, text):
                raise
            raise SystemExit(error.exit_status) from error

    return run


def _is_logged(context: click.Context, text: str) -> bool:
    """Log the error that ends a command if its log is for programs; else it is printed for people, after this."""
    if context.params.get("log_format") != "json":
        return False
    log.error("%s", text)
    return True


def _with_names(context: click.Context, text: str) -> str:
    """Return an error with the names of variables in place of the options whose values came from there."""
    for option in _options(context.command):
        name = option.name or ""
        if context.get_parameter_source(name) is not ParameterSource.ENVIRONMENT:
            continue
        variable = str(option.envvar)
        text = re.sub(rf"(?<![\w-]){re.escape(_flag(option))}(?![\w-])", variable, text)
        text = re.sub(rf"^{re.escape(name)}(?=[: ])", variable, text)
    return text


def _options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option)]


def _flag(option: click.Option) -> str:
    return next(text for text in option.opts if text.startswith("--"))
