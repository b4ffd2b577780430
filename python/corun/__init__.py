"""How many CPUs this program can get right now, given its neighbors: libcorun from Python.

>>> import corun
>>> corun.cpus()
Cpus(threads=2, available=1.98, guaranteed=None, reason='1.98 CPUs available: ...')

The package calls libcorun through ctypes, so one wheel works with every Python 3. The environment variable CORUN_LIBRARY may name the file of
the library. Otherwise it is looked for in this package (`make wheel` puts it there), where the dynamic linker looks, and in /usr/local/lib.
"""

import contextlib
import ctypes
import ctypes.util
import os
import threading
import time
from typing import Dict, Iterator, NamedTuple, Optional

__all__ = ["Cpus", "Error", "cpus", "limits", "threads"]

_ABI = 1
_NOT_KNOWN = -1
_FORKED = -7
#: Seconds between the two readings that the first answer needs.
_FIRST_ANSWER = 0.06


class Error(RuntimeError):
    """libcorun was not found, or it returned an error; the message says which."""


class Cpus(NamedTuple):
    """How many CPUs this process can get."""

    #: How many threads to run, at least 1.
    threads: int
    #: CPUs while neighbors go on as now; None if unknown.
    available: Optional[float]
    #: CPUs while everybody competes; None if unknown.
    guaranteed: Optional[float]
    #: Why, as a sentence.
    reason: str


def _load() -> ctypes.CDLL:
    named = os.environ.get("CORUN_LIBRARY")
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libcorun.so.1")
    installed = [own, ctypes.util.find_library("corun"), "libcorun.so.1", "/usr/local/lib/libcorun.so.1"]
    for name in filter(None, [named] if named else installed):
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        raise Error("libcorun is not found: install it with `make install`, or set CORUN_LIBRARY to its file")
    if not hasattr(library, "corun_abi") or library.corun_abi() != _ABI:
        raise Error("this libcorun is of another version than the package: install both from one release")
    handle = ctypes.c_void_p
    library.corun_open.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(handle)]
    library.corun_close.argtypes = [handle]
    library.corun_close.restype = None
    library.corun_text.restype = ctypes.c_char_p
    for name in ("corun_refresh", "corun_guaranteed", "corun_available", "corun_threads"):
        getattr(library, name).argtypes = [handle]
    library.corun_reason.argtypes = [handle, ctypes.c_char_p, ctypes.c_size_t]
    return library


class _Opened:
    """The handle of libcorun for this process."""

    def __init__(self) -> None:
        self.library = _load()
        self.handle = ctypes.c_void_p()
        self.check(self.library.corun_open(_ABI, 1, 0, ctypes.byref(self.handle)))

    def check(self, code: int) -> int:
        if code < _NOT_KNOWN:
            raise Error(self.library.corun_text(code).decode())
        return code

    def ask(self, name: str) -> int:
        return self.check(getattr(self.library, name)(self.handle))

    def milli(self, name: str) -> Optional[float]:
        value = self.ask(name)
        return None if value == _NOT_KNOWN else value / 1000

    def reason(self) -> str:
        text = ctypes.create_string_buffer(512)
        self.check(self.library.corun_reason(self.handle, text, len(text)))
        return text.value.decode()


_lock = threading.Lock()
_opened: Optional[_Opened] = None


def _open() -> _Opened:
    global _opened
    with _lock:
        if _opened is not None and _opened.library.corun_threads(_opened.handle) == _FORKED:
            _opened.library.corun_close(_opened.handle)
            _opened = None
        if _opened is None:
            _opened = _Opened()
            time.sleep(_FIRST_ANSWER)
        _opened.ask("corun_refresh")
        return _opened


def cpus() -> Cpus:
    """Return how many CPUs this process can get now. The first call takes 60 ms. Later ones read files if 50 ms have passed."""
    opened = _open()
    return Cpus(
        opened.ask("corun_threads"),
        opened.milli("corun_available"),
        opened.milli("corun_guaranteed"),
        opened.reason(),
    )


def threads() -> int:
    """Return how many threads to run now, at least 1."""
    return _open().ask("corun_threads")


@contextlib.contextmanager
def limits() -> Iterator[int]:
    """Inside `with corun.limits():` the thread pools of BLAS and OpenMP have no more threads than would make progress.

    threadpoolctl finds the pools. A pool with fewer threads keeps its number. The context is the number of threads.
    """
    try:
        import threadpoolctl
    except ImportError:
        raise Error("corun.limits needs the package threadpoolctl: run `pip install threadpoolctl`") from None
    number = threads()
    most: Dict[str, int] = {}
    for pool in threadpoolctl.threadpool_info():
        most[pool["prefix"]] = min(number, pool["num_threads"], most.get(pool["prefix"], number))
    with threadpoolctl.threadpool_limits(limits=most):
        yield number
