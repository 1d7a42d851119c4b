"""`deploy/environment` installs with uv, and with pip where uv fails or where pip has settings that uv does not read.

uv and pip are stand-ins that note how they were called: the real ones download for a minute. `tests/run` uses those.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

#: Notes how it was called, and fails.
FAILING_UV = '#!/bin/sh\necho "$@" > "$UV_CALLED"\nexit 2\n'


@pytest.mark.parametrize(
    ("setting", "is_uv_asked"),
    [({}, True), ({"PIP_RETRIES": "0"}, True), ({"PIP_INDEX_URL": "http://127.0.0.1:1/simple"}, False)],
    ids=["no setting", "a harmless one", "an index"],
)
def test_pip_installs_where_uv_fails_or_must_not_be_asked(
    tmp_path: Path, setting: dict[str, str], is_uv_asked: bool
) -> None:
    target, called, programs = tmp_path / "environment", tmp_path / "called", tmp_path / "bin"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", target], check=True)
    # A pip that says how it was called, in place of the one that would download for a minute.
    site = next(target.glob("lib/python*/site-packages"))
    (site / "pip.py").write_text(
        "import os, sys\n"
        "if 'config' in sys.argv:\n"
        "    print(*(f\":env:.{n[4:].lower().replace('_', '-')}='{v}'\" for n, v in os.environ.items()"
        " if n.startswith('PIP_')), sep='\\n')\n"
        "elif 'install' in sys.argv: print('pip', *sys.argv[1:], file=sys.stderr)\n"
    )
    programs.mkdir()
    uv = programs / "uv"
    uv.write_text(FAILING_UV)
    uv.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "PYTHONPATH"))}
    ran = subprocess.run(
        [ROOT / "deploy/environment", "stream"],
        env={**kept, "PATH": f"{programs}:{kept['PATH']}", "GAPWATCH_ENVIRONMENT": str(target),
             "UV_CALLED": str(called), **setting},
        capture_output=True, text=True,
    )  # fmt: skip

    wheels = f"-e {ROOT}/streams/publisher -e {ROOT}[stream]"
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"{target}\n"
    assert called.exists() == is_uv_asked
    if is_uv_asked:
        assert called.read_text().endswith(f"{wheels}\n")
    assert f"install --quiet {wheels}" in ran.stderr
