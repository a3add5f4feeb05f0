"""Where compiled code is kept, and that it runs where it cannot be kept."""

from __future__ import annotations

import errno
import os
import runpy
from typing import Any

import pytest

from shardwork.compiled import cache_folder, compiler


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "loops.py"
    path.write_text("a = 1")
    return path


def test_the_folder_is_the_same_for_the_same_sources(source):
    assert cache_folder([source]) == cache_folder([source])


def test_compiled_code_is_kept_apart_for_other_sources(source):
    before = cache_folder([source])
    source.write_text("a = 2")
    assert cache_folder([source]) != before


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return the folder where compiled code is kept during a test."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def divide(a, b):
    return a // b


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "zeros in the middle": lambda data: data[: len(data) // 3] + bytes(len(data) // 3) + data[len(data) // 3 * 2 :],
    "zeros at the end": lambda data: data[:-9] + bytes(9),
    "something else": lambda data: b"<html>",
}


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_code_is_compiled_anew_and_kept_again(kept, source, suffix, damage):
    assert compiler([source])(divide)(7, 2) == 3
    (file,) = kept.rglob(f"*.{suffix}")
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    again, third = compiler([source])(divide), compiler([source])(divide)
    assert again(7, 2) == 3 and sum(again.stats.cache_hits.values()) == 0
    assert third(7, 2) == 3 and sum(third.stats.cache_hits.values()) == 1


def test_sound_code_is_taken_as_it_was_kept(kept, source):
    first, second = compiler([source])(divide), compiler([source])(divide)
    assert (first(7, 2), second(7, 2)) == (3, 3)
    assert (sum(first.stats.cache_hits.values()), sum(second.stats.cache_hits.values())) == (0, 1)


def test_a_copy_of_the_sources_elsewhere_takes_what_was_compiled_for_the_first(kept, tmp_path):
    loaded: list[Any] = []
    for name in ("one", "other"):
        path = tmp_path / name / "lib" / "loops.py"
        path.parent.mkdir(parents=True)
        path.write_text("def halve(a):\n    return a // 2\n")
        os.utime(path, (len(loaded), len(loaded)))
        loaded.append(compiler([path])(runpy.run_path(str(path))["halve"]))
    assert [one(7) for one in loaded] == [3, 3]
    assert [sum(one.stats.cache_hits.values()) for one in loaded] == [0, 1]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_code_that_cannot_be_kept_runs_all_the_same(kept, source, monkeypatch, number):
    def refuse(self, name, data):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", refuse)
    assert compiler([source])(divide)(7, 2) == 3
    assert not list(kept.rglob("*.nb[ci]")), "an index without its code"


def test_code_is_kept_nowhere_where_its_folder_cannot_be_made(tmp_path, monkeypatch, source):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "file"))
    made = compiler([source])(divide)
    assert made(7, 2) == 3 and made.stats.cache_path is None


def test_a_source_that_cannot_be_read_costs_only_the_keeping(tmp_path):
    assert compiler([tmp_path / "none.py"])(lambda a, b: a // b)(7, 2) == 3


def test_the_setting_of_numba_is_left_as_it_was(source):
    import numba

    config: Any = numba.config
    before = config.CACHE_DIR
    compiler([source])(lambda a: a + 1)
    assert before == config.CACHE_DIR and "NUMBA_CACHE_DIR" not in os.environ
