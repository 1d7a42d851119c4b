"""The threads of a run share few arenas of malloc, so that what one of them has freed serves the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

_ARENAS = """
import ctypes, sys, threading
from gapwatch.streams.live.run import _limit_malloc_arenas
if sys.argv[1] == "limited":
    _limit_malloc_arenas()
together = threading.Barrier(21)

def work():
    kept = [bytearray(100_000) for _ in range(10)]
    together.wait()

threads = [threading.Thread(target=work) for _ in range(20)]
for thread in threads:
    thread.start()
together.wait()
libc, told, size = ctypes.CDLL(None), ctypes.c_char_p(), ctypes.c_size_t()
libc.open_memstream.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(told), ctypes.byref(size)))
libc.malloc_info(0, stream)
libc.fclose(stream)
print(told.value.decode().count("<heap nr"))
"""


@pytest.mark.parametrize(("how", "least", "most"), [("limited", 1, 2), ("as glibc does", 3, 1_000)])
def test_twenty_threads_share_two_arenas(how: str, least: int, most: int) -> None:
    ran = subprocess.run([sys.executable, "-c", _ARENAS, how], capture_output=True, text=True, check=True)

    assert least <= int(ran.stdout) <= most
