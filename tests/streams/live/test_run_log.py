"""The log on standard error lasts as long as its command: one that runs after it in the process logs as before."""

import logging

from gapwatch.streams.live.run_log import logs_on_stderr


def test_afterwards_logging_is_as_it_was(capsys, caplog):
    root, own = logging.getLogger(), logging.getLogger("gapwatch")
    before = root.handlers[:], root.level, own.level
    with logs_on_stderr(quiet=True):
        own.info("hidden")
        own.warning("shown")
    assert (root.handlers, root.level, own.level) == before
    with caplog.at_level("INFO"):
        own.info("after")

    assert capsys.readouterr().err.endswith("warning: shown\n")
    assert caplog.messages == ["after"]
