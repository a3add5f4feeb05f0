"""Where compiled code is kept, and that it runs where it cannot be kept."""

from __future__ import annotations

import os

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


def test_an_empty_file_of_compiled_code_is_removed(tmp_path, monkeypatch, source):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    folder = cache_folder([source]) / "library"
    folder.mkdir(parents=True)
    (folder / "kernel.nbi").touch()
    (folder / "kernel.1.nbc").write_bytes(b"x")
    cache_folder([source])
    assert [path.name for path in folder.iterdir()] == ["kernel.1.nbc"]


def test_a_source_that_cannot_be_read_costs_only_the_keeping(tmp_path):
    assert compiler([tmp_path / "none.py"])(lambda a, b: a // b)(7, 2) == 3


def test_the_setting_of_numba_is_left_as_it_was(source):
    from numba import config

    before = vars(config)["CACHE_DIR"]
    compiler([source])(lambda a: a + 1)
    assert before == vars(config)["CACHE_DIR"] and "NUMBA_CACHE_DIR" not in os.environ
