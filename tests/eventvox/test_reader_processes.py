"""EventVideo in many threads and processes, without a file that stays open."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from eventvox import EventVideo
from tests.eventvox.readable import by_h5py, same, seven_voxels, values, write_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path):
    return seven_voxels(tmp_path)


def open_files():
    return sorted(os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))


@pytest.mark.parametrize("shuffle", [True, False])
def test_no_file_stays_open_between_reads(tmp_path, shuffle):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=shuffle)
    video = EventVideo(path, 2)
    video[0], video[:]
    assert str(path) not in open_files()


def test_a_closed_video_is_not_read(path):
    with EventVideo(path) as video:
        video[0]
    with pytest.raises(ValueError, match="closed"):
        video[0]
    assert video.shape == (7, 5, 270, 300)


def test_a_pickle_holds_path_and_threads_alone(path):
    video = EventVideo(path, 3)
    video[0]
    assert video.__reduce__() == (EventVideo, (str(path), 3)) and EventVideo(path).__reduce__() == (EventVideo, (str(path), None))
    again = pickle.loads(pickle.dumps(video))
    assert same(again[:], by_h5py(path)) and again.threads == 3


def test_a_relative_path_outlives_a_change_of_folder(path, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(path.parent)
    video = EventVideo("v.h5")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert same(video[0], by_h5py(path)[0])


def total(video):
    """Return a sum that depends on every value and its place."""
    return [int((voxel.astype(np.int64).ravel() * np.arange(voxel.size)).sum()) for voxel in video]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_read_what_the_parent_reads(path, monkeypatch, method):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    video = EventVideo(path, 2)
    expected = total(by_h5py(path))
    assert total(video) == expected
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map_async(total, [video] * 4).get(timeout=100) == [expected] * 4


def child_total(video, sender):
    sender.send((total(video), sum(thread.name.startswith("eventvox") for thread in threading.enumerate())))


def test_a_fork_in_the_midst_of_reading_reads_by_itself(path):
    video, expected, stop = EventVideo(path, 3), total(by_h5py(path)), threading.Event()

    def read_on():
        while not stop.is_set():
            video[:]

    readers = [threading.Thread(target=read_on) for _ in range(2)]
    for thread in readers:
        thread.start()
    try:
        for _ in range(5):
            receiver, sender = multiprocessing.Pipe(duplex=False)
            # Inherited as it is, not pickled: the child has the parent's object.
            child = multiprocessing.get_context("fork").Process(target=child_total, args=(video, sender))
            child.start()
            assert receiver.poll(100), "the child hangs"
            found, own_threads = receiver.recv()
            child.join()
            assert found == expected and own_threads > 0
    finally:
        stop.set()
        for thread in readers:
            thread.join()


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_may_share_a_video(path, threads):
    video, expected = EventVideo(path, threads), by_h5py(path)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda k: same(video[k % 7], expected[k % 7]) and same(video[k % 7 :], expected[k % 7 :]), range(40)))


def test_videos_of_one_process_share_their_threads(path):
    before = threading.active_count()
    videos = [EventVideo(path, 4) for _ in range(30)]
    for video in videos:
        video[:]
    assert threading.active_count() - before <= 4
