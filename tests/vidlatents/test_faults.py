"""Faults of disks and of copies that other files of tests do not plant: a disk that fills up, tails of zeros, videos that took each other's place."""

from __future__ import annotations

import errno

import numpy as np
import pytest
import torch

from tests.vidlatents.full_disk import full_after
from tests.vidlatents.pairs import frames_of, sample_of, write_mp4, write_pair
from tests.vidlatents.tiny_models import content
from vidlatents import store
from vidlatents.codes import SampleRefused
from vidlatents.read import read_pair
from vidlatents.store import save_sample
from vidlatents.verify import Look, verify_file, zip_fault

NAME = "a_33_32_48.pt"


@pytest.mark.parametrize("room", [0, 100, 2000, 60_000])
def test_a_disk_that_fills_up_at_any_byte_is_a_fault_of_the_machine(tmp_path, monkeypatch, room):
    monkeypatch.setattr(store, "open", full_after(room), raising=False)
    with pytest.raises(OSError, match="No space left") as caught:
        save_sample(tmp_path / NAME, content())
    assert caught.value.errno == errno.ENOSPC and list(tmp_path.iterdir()) == []


def test_a_file_that_reads_back_otherwise_than_it_was_written_gets_no_name(tmp_path, monkeypatch):
    save = torch.save

    def spoilt(values, file):
        save(values, file)
        file.seek(3000)
        file.write(b"\xff\x00\xff")

    monkeypatch.setattr(torch, "save", spoilt)
    with pytest.raises(OSError, match="not what was written"):
        save_sample(tmp_path / NAME, content())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", range(0, 2100, 100))
def test_a_beginning_of_any_length_is_no_sample(tmp_path, length):
    save_sample(tmp_path / NAME, content())
    data = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(data[:length])
    assert [finding.code for finding in verify_file(tmp_path / NAME, Look("zip"))] == ["E_FILE_SIZE" if length < 1024 else "E_FILE_ZIP"]


@pytest.mark.parametrize("zeros", [22, 23, 512, 4096, 40_000])
def test_a_tail_of_zeros_of_any_length_is_no_sample(tmp_path, zeros):
    save_sample(tmp_path / NAME, content())
    data = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(data[:-zeros] + bytes(zeros))
    found = [finding.code for finding in verify_file(tmp_path / NAME, Look("full"))]
    assert found == ["E_FILE_ZIP"]


def test_no_beginning_of_a_sample_has_a_zip_directory(tmp_path):
    save_sample(tmp_path / NAME, content())
    data = (tmp_path / NAME).read_bytes()
    wrong = []
    for length in range(len(data) - 1, len(data) - 400, -1):
        (tmp_path / "cut").write_bytes(data[:length])
        wrong += [length] if zip_fault(tmp_path / "cut") is None else []
    assert wrong == []


@pytest.mark.parametrize("folder", ["videos", "control_videos"])
@pytest.mark.parametrize("part", [0.3, 0.7, 0.95])
def test_a_video_whose_tail_is_zeros_is_refused(tmp_path, folder, part):
    write_pair(tmp_path)
    path = tmp_path / folder / "a.mp4"
    data = path.read_bytes()
    kept = int(part * len(data))
    path.write_bytes(data[:kept] + bytes(len(data) - kept))
    with pytest.raises(SampleRefused) as caught:
        read_pair(sample_of(tmp_path))
    assert caught.value.code in ("E_DECODE", "E_FRAME_MISMATCH")


@pytest.mark.parametrize("part", [0.4, 0.8])
def test_an_mp4_whose_tail_is_zeros_is_refused(tmp_path, part):
    write_pair(tmp_path)
    data = write_mp4(tmp_path / "videos" / "a.mp4", frames_of(49)).read_bytes()
    kept = int(part * len(data))
    (tmp_path / "videos" / "a.mp4").write_bytes(data[:kept] + bytes(len(data) - kept))
    with pytest.raises(SampleRefused) as caught:
        read_pair(sample_of(tmp_path))
    assert caught.value.code in ("E_DECODE", "E_FRAME_MISMATCH")


def test_videos_that_took_each_others_place_are_read_as_they_lie(tmp_path):
    rgb, control = write_pair(tmp_path)
    (tmp_path / "videos").rename(tmp_path / "aside")
    (tmp_path / "control_videos").rename(tmp_path / "videos")
    (tmp_path / "aside").rename(tmp_path / "control_videos")
    pair = read_pair(sample_of(tmp_path))
    assert np.array_equal(pair.rgb, control) and np.array_equal(pair.control, rgb)


def test_a_lack_of_memory_while_reading_is_no_verdict(tmp_path, monkeypatch):
    write_pair(tmp_path)

    def no_room(*args, **more):
        raise MemoryError

    monkeypatch.setattr("vidlatents.read.np.zeros", no_room)
    with pytest.raises(MemoryError):
        read_pair(sample_of(tmp_path))
