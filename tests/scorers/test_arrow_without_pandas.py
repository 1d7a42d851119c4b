"""A process of `gapwatch` does without pandas, wherever it is installed; other packages of the process have it."""

import subprocess
import sys

import pytest

CODE = """
import sys
from gapwatch.scorers.arrow_without_pandas import hide_pandas

hide_pandas()
own, other = {"__name__": "gapwatch.scorers.any"}, {"__name__": "another_package.commands"}
exec("import pyarrow as pa; made = pa.array([1, None]).to_pylist()", own)
print(own["made"], "pandas" in sys.modules)
exec("import importlib.util; found = importlib.util.find_spec('pandas') is not None", other)
print(other["found"])
"""


def test_arrow_makes_arrays_without_pandas_and_another_package_finds_it():
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[1, None] False", "True"], done.stderr
