"""How inner loops are compiled with numba, and where their machine code is kept. numba is loaded by the call, not by the import of this module."""

from __future__ import annotations

import glob
import hashlib
import os
import pickle
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

Decorator = Callable[[Any], Any]


def cache_folder(sources: Iterable[Path]) -> Path:
    """Return where compiled code is kept: a folder for these sources, this numba and this processor, which nothing else shares.

    sources : the files of the modules that compiled code is made from; numba itself looks only at the one that a function stands in.
    It stands in NUMBA_CACHE_DIR, or in the user's own cache.   Raises OSError, RuntimeError where there can be none.
    """
    import llvmlite.binding
    import numba

    config: Any = numba.config
    made_from = [numba.__version__, llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten()]
    made_from += [path.read_text("utf-8") for path in (Path(__file__), *sources)]
    key = hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:16]
    home = config.CACHE_DIR or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reelmill"
    return Path(home) / key


@cache
def _cache_place(sources: tuple[Path, ...]) -> str | None:
    """Return the folder as text, or None where there can be none; looked up once for a library, not for every function."""
    try:
        return str(cache_folder(sources))
    except (OSError, RuntimeError):  # files that cannot be read, or a user without a home
        return None


@cache
def _safe_cache() -> Any:
    """Return numba's cache of a function, made so that keeping code can cost time and never a run.

    What is kept carries its digest, since numba believes every byte of it: a power cut leaves files that are cut or hold zeros.
    """
    from numba.core import caching, serialize

    base: Any = caching.FunctionCache
    kept: Any = caching.CompileResultCacheImpl
    pack: Any = serialize.dumps

    class Keyed(caching.UserProvidedCacheLocator):
        """A place in the folder of `cache_folder`, whose name already stands for what all sources say: copies of a project share what is compiled."""

        @classmethod
        def get_suitable_cache_subpath(cls, py_file: str) -> str:
            return Path(py_file).parent.name

        def get_source_stamp(self) -> str:
            return ""

    class Sealed(kept):  # type: ignore[misc]
        # not beside the sources, as numba would where the folder cannot be written to: its key there says nothing of other modules
        _locator_classes = (Keyed,)

        def reduce(self, result: Any) -> tuple[str, bytes]:
            data = pack(super().reduce(result))
            return hashlib.sha256(data).hexdigest(), data

        def rebuild(self, target: Any, sealed: Any) -> Any:
            digest, data = sealed
            if hashlib.sha256(data).hexdigest() != digest:
                raise ValueError("other bytes than were kept")
            return super().rebuild(target, pickle.loads(data))

    class SafeCache(base):  # type: ignore[misc]
        _impl_class = Sealed

        def load_overload(self, signature: Any, target: Any) -> Any:
            try:
                return super().load_overload(signature, target)
            except Exception:  # noqa: BLE001 (damaged bytes may raise anything as they are unpickled; the function is then compiled anew)
                self._drop()
                return None

        def save_overload(self, signature: Any, result: Any) -> None:
            try:
                super().save_overload(signature, result)
            except Exception:  # noqa: BLE001 (a full disk, one that was taken away, a damaged index that cannot be dropped: the code runs all the same)
                self._drop()

        def _drop(self) -> None:
            for file in Path(self.cache_path).glob(f"{glob.escape(self._impl.filename_base)}.*"):
                with suppress(OSError):
                    file.unlink()

    return SafeCache


def compiler(sources: Iterable[Path]) -> Decorator:
    """Return what compiles a library's functions.

    sources : as for `cache_folder`.   What comes back turns a function into machine code that leaves Python's lock free: without checks of indices,
    with integer division as in C. The code is kept, so that only the first processes of a user wait for the compiler.
    """
    found = tuple(sources)

    def compiled(function: Any) -> Any:
        import numba

        config: Any = numba.config
        options: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
        place, before = _cache_place(found), config.CACHE_DIR
        if place is None:
            return numba.njit(**options)(function)
        try:
            config.CACHE_DIR = place
            dispatcher: Any = numba.njit(**options)(function)
            dispatcher._cache = _safe_cache()(function)
            return dispatcher
        except (OSError, RuntimeError):  # it cannot be written to: each process compiles for itself
            return numba.njit(**options)(function)
        finally:
            config.CACHE_DIR = before

    return compiled


def inlined(function: Any) -> Any:
    """Return the function to be written into each compiled one that calls it."""
    import numba

    return numba.njit(inline="always")(function)
