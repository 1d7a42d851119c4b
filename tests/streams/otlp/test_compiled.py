"""The compiled modules pass the tests of the Python ones: the same envelopes, the same answers to bad input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.streams.otlp.compiled import make_compiled

_HERE = Path(__file__).parent
_CHECK = "from gapwatch.streams.otlp.mapping import mapper; assert not mapper.__file__.endswith('.py'), mapper.__file__"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_compiled_modules_pass_the_tests_of_spans(tmp_path: Path) -> None:
    environment = make_compiled(tmp_path)
    rooms = [str(_HERE / room) for room in ("assembly", "decoding", "files", "mapping", "receiving")]
    for command in (["-c", _CHECK], ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *rooms]):
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
