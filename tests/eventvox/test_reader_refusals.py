"""EventVideo leaves other layouts to h5py, and names what it cannot read."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from eventvox import EventVideo, reader
from eventvox.inflate import LIBRARIES, load_inflater
from eventvox.validate import validate_file
from shardwork.errors import DataError
from shardwork.watched import WatchedFile
from tests.eventvox.readable import by_h5py, chunks_of, is_read_without_hdf5, planes, same, seven_voxels, streams_of, values, write_file, write_raw, write_sides

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path):
    return seven_voxels(tmp_path)


# Other layouts


LAYOUTS: dict[str, dict[str, Any]] = {
    "no shuffle": {"shuffle": False},
    "no compression": {"compression": None},
    "lzf": {"compression": "lzf"},
    "checksum": {"fletcher32": True},
    "contiguous": {"compression": None, "shuffle": False, "chunks": None, "maxshape": None},
    "two voxels a chunk": {"chunks": (2, 5, 256, 256)},
    "one bin a chunk": {"chunks": (1, 1, 256, 256)},
    "small chunks": {"chunks": (1, 5, 64, 64)},
    "big endian": {"dtype": ">i2"},
    "8 bits": {"dtype": "i1"},
    "32 bits": {"dtype": "<i4"},
    "unsigned": {"dtype": "<u2"},
    "floats": {"dtype": "<f4"},
    "another fill value": {"fillvalue": 7},
    "user block": {"userblock": 512},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_layout_is_left_to_h5py(tmp_path, layout):
    path = write_file(tmp_path / "v.h5", values((5, 5, 260, 300)), **LAYOUTS[layout])
    expected = by_h5py(path)
    if np.can_cast(expected.dtype, np.int16):
        expected = expected.astype(np.int16)
    video = EventVideo(path)
    assert not is_read_without_hdf5(path)
    assert same(video[:], expected) and same(video[3], expected[3]) and same(video[4:0:-3], expected[4:0:-3]) and same(video[2:2], expected[2:2])


@pytest.mark.parametrize("mask", [1, 2, 3])
def test_a_chunk_with_filters_left_out_is_left_to_h5py(tmp_path, mask):
    events = values((2, 5, 30, 30))
    plain, shuffled = events[1].astype("<i2").tobytes(), planes(events, 1, 0, 0)
    stored = {1: zlib.compress(plain), 2: shuffled, 3: plain}[mask]
    path = write_raw(tmp_path / "v.h5", events.shape, {**streams_of(events, zlib.compress), (1, 0, 0): (stored, mask)})
    assert not is_read_without_hdf5(path) and same(by_h5py(path), events) and same(EventVideo(path)[:], events)


@pytest.mark.parametrize("link", ["soft", "external", "virtual"])
def test_events_that_lie_elsewhere_are_left_to_h5py(tmp_path, link):
    events = values((4, 5, 20, 30))
    other = write_file(tmp_path / "other.h5", events)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        if link == "soft":
            file.create_dataset("elsewhere", data=events, chunks=chunks_of(events.shape), compression="gzip", shuffle=True)
            file["events"] = h5py.SoftLink("/elsewhere")
        elif link == "external":
            file["events"] = h5py.ExternalLink("other.h5", "events")
        else:
            layout = h5py.VirtualLayout(events.shape, "<i2")
            layout[...] = h5py.VirtualSource(other, "events", shape=events.shape)
            file.create_virtual_dataset("events", layout)
        write_sides(file, events.shape)
    assert not is_read_without_hdf5(tmp_path / "v.h5")
    assert same(EventVideo(tmp_path / "v.h5")[:], events)


def test_a_damaged_chunk_of_another_layout_is_named(tmp_path):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=False)
    damage(path, 1)
    with pytest.raises(DataError, match=r"v\.h5: cannot be read as an event file \(voxel 1: "):
        EventVideo(path)[1]


# What cannot be read


def damage(path, t, y=0, x=0):
    """Change one byte in the middle of a stored chunk."""
    with h5py.File(path, "r") as file:
        info = file["events"].id.get_chunk_info_by_coord((t, 0, y, x))
    with open(path, "r+b") as file:
        file.seek(info.byte_offset + info.size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0xFF]))


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_first_damaged_chunk_is_named(path, monkeypatch, threads, library):
    pytest.importorskip(LIBRARIES[library][0])
    monkeypatch.setattr(reader, "best_inflater", lambda: load_inflater(library))
    for place in ((5, 0, 0), (3, 256, 256), (3, 0, 256), (6, 0, 0)):
        damage(path, *place)
    video = EventVideo(path, threads)
    with pytest.raises(DataError) as caught:
        video[:]
    assert (caught.value.code, caught.value.where) == ("invalid_hdf5", f"{path}: voxel 3, chunk (3, 0, 0, 256)")
    assert video[:3].shape[0] == 3 and video[4].any()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("how", ["cut", "empty", "too short", "too long", "no checksum"])
def test_a_stream_that_is_not_one_whole_chunk_is_named(tmp_path, monkeypatch, library, how):
    pytest.importorskip(LIBRARIES[library][0])
    monkeypatch.setattr(reader, "best_inflater", lambda: load_inflater(library))
    events = values((2, 5, 20, 30))
    whole = planes(events, 1, 0, 0)
    made = {
        "cut": zlib.compress(whole)[:-20],
        "empty": b"\0",
        "too short": zlib.compress(whole[:-1]),
        "too long": zlib.compress(whole + b"\0"),
        "no checksum": zlib.compress(whole)[:-4],
    }
    path = write_raw(tmp_path / "v.h5", events.shape, {**streams_of(events, zlib.compress), (1, 0, 0): (made[how], 0)})
    video = EventVideo(path)
    assert same(video[0], events[0])
    with pytest.raises(DataError, match=r"v\.h5: voxel 1, chunk \(1, 0, 0, 0\)"):
        video[1]


def test_a_failing_disk_is_an_os_error_that_names_the_chunk(path, monkeypatch):
    def fail(file, size, offset):
        raise OSError(errno.EIO, "Input/output error")

    video = EventVideo(path, 2)
    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(OSError, match=r"voxel 2, chunk \(2, 0, 0, 0\)") as caught:
        video[2:4]
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: failing reads are not tried")
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("which", [1, 2, 4, 8, 12, 16])
def test_a_read_that_fails_anywhere_is_an_os_error_or_changes_nothing(tmp_path, shuffle, which):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=shuffle)
    code = f"""
from eventvox import EventVideo
try:
    print(EventVideo({str(path)!r})[:].sum())
except OSError as error:
    print("OSError", error.errno)
"""
    line = ["strace", "-f", "-qq", "-o", os.devnull, "-P", str(path), "-e", "trace=read,pread64", "-e", f"inject=read,pread64:error=EIO:when={which}+"]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([*line, sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.stdout in (f"OSError {errno.EIO}\n", f"{by_h5py(path).sum()}\n"), done.stderr
    assert which > 12 or done.stdout.startswith("OSError"), "the fault was not hit"


def test_a_missing_file_is_missed_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        EventVideo(tmp_path / "nope.h5")


def test_a_file_that_is_no_event_file_is_refused_at_once(tmp_path):
    (tmp_path / "text.h5").write_text("no HDF5")
    (tmp_path / "empty.h5").touch()
    (tmp_path / "folder.h5").mkdir()
    (tmp_path / "cut.h5").write_bytes(write_file(tmp_path / "v.h5", values((2, 5, 20, 30))).read_bytes()[:-2000])
    h5py.File(tmp_path / "other.h5", "w").close()
    for name, change in {
        "3d.h5": lambda file: replace(file, "events", np.zeros((2, 5, 4), np.int16)),
        "text_events.h5": lambda file: replace(file, "events", "words"),
        "short.h5": lambda file: replace(file, "voxel_event_count", np.zeros(1, np.int32)),
        "no_starts.h5": lambda file: file.pop("voxel_event_start"),
        "no_fps.h5": lambda file: file.attrs.pop("fps"),
        "fps_of_text.h5": lambda file: file.attrs.create("fps", "fast"),
        "group.h5": lambda file: (file.pop("events"), file.create_group("events")),
    }.items():
        with h5py.File(write_file(tmp_path / name, values((2, 5, 20, 30))), "r+") as file:
            change(file)
    (tmp_path / "v.h5").unlink()
    for foreign in sorted(tmp_path.iterdir()):
        with pytest.raises(DataError, match=foreign.name) as caught:
            EventVideo(foreign)
        assert caught.value.code == "invalid_hdf5", foreign


@pytest.mark.parametrize("name", ["voxel_event_start", "voxel_event_count", "events"])
@pytest.mark.parametrize("length", [2**42, 2**62])
def test_a_damaged_length_is_refused_before_its_room_is_taken(tmp_path, name, length):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)))
    with h5py.File(path, "r+") as file:
        file[name].resize(length, axis=0)
    found = f"3 entries in voxel_event_start, expected {length}" if name == "events" else f"{length} entries in {name}, expected 3"
    with pytest.raises(DataError, match=rf"{found}.*\[invalid_hdf5\]"):
        EventVideo(path)


def test_an_address_beyond_63_bits_is_damage_of_the_file(tmp_path):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)))
    data = bytearray(path.read_bytes())
    assert data[48:56] == b"\xff" * 8, "no block of a driver's information: its place in a superblock of version 0"
    data[49] = 0x90
    path.write_bytes(data)
    with pytest.raises(DataError, match="invalid_hdf5"):
        EventVideo(path)
    assert [problem.where for problem in validate_file(path)] == ["file"]


def test_no_file_is_moved_in_beyond_63_bits(tmp_path):
    (tmp_path / "v").touch()
    with WatchedFile(tmp_path / "v") as watched:
        with pytest.raises(OSError, match="Invalid argument") as caught:
            watched.seek(2**63)
        assert caught.value.errno == errno.EINVAL and watched.error is None


def test_a_damaged_fill_value_is_refused_or_changes_nothing(tmp_path):
    events = values((3, 5, 20, 30))
    whole, message = (
        write_file(tmp_path / "v.h5", events).read_bytes(),
        bytes.fromhex("0500 0800 01000000 02 03 02 01 00000000"),
    )  # of no bytes, as h5py writes it
    places = [match.end() - 8 + byte for match in re.finditer(re.escape(message), whole) for byte in range(8)]
    assert len(places) == 3 * 8
    for at in places:
        (tmp_path / f"{at}.h5").write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    code = """
import sys
from eventvox import EventVideo
from shardwork.errors import DataError
for path in sys.argv[1:]:
    try:
        print(EventVideo(path)[:].sum())
    except DataError as error:
        print(error.code)
"""
    line = [sys.executable, "-c", code, *(str(tmp_path / f"{at}.h5") for at in places)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=100, check=False, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == 0 and set(done.stdout.split()) <= {"invalid_hdf5", str(events.sum())}, (done.returncode, done.stdout)


def replace(file, name, value):
    del file[name]
    file[name] = value


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_threads_that_make_no_sense_are_refused(path, threads):
    with pytest.raises(DataError, match="threads"):
        EventVideo(path, threads)


@pytest.mark.parametrize("locking", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_file_that_h5py_holds_open_is_read(tmp_path, shuffle, locking):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=shuffle)
    with h5py.File(path, "r", locking=locking) as file:
        video = EventVideo(path)
        assert same(video[:], file["events"][()])


@pytest.mark.parametrize("read_before", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_file_that_was_replaced_is_noticed(tmp_path, read_before, shuffle):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=shuffle)
    video = EventVideo(path)
    if read_before:
        video[0]
    write_file(tmp_path / "new.h5", values((3, 5, 20, 30), 5), shuffle=shuffle).replace(path)
    with pytest.raises(DataError) as caught:
        video[1]
    assert caught.value.code == "source_changed"
    assert same(EventVideo(path)[1], by_h5py(path)[1])
