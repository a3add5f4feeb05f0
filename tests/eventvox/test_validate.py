"""Validation: a good file has no problems, and each planted fault is found by its name."""

from __future__ import annotations

import time
import zlib

import h5py
import numpy as np
import pytest

from eventvox import validate
from eventvox.reader import EventVideo
from eventvox.settings import VoxelSettings
from eventvox.validate import info, validate_file
from shardwork.errors import DataError
from tests.eventvox.readable import by_h5py, streams_of, values, write_raw
from tests.eventvox.test_hdf5 import write


@pytest.fixture
def good(tmp_path):
    """Return the path of a valid file: 13 slices, 3 voxels, the last one of 3 slices."""
    write(tmp_path / "v.h5", 13, 16, 20)
    return tmp_path / "v.h5"


def planted(path, change):
    """Change a file by hand and return what validation finds, as text."""
    with h5py.File(path, "r+") as file:
        change(file)
    return [str(problem) for problem in validate_file(path)]


def remake(file, name, **changes):
    """Put a dataset in the place of another, with some of its properties changed."""
    old = file[name]
    values = changes.pop("data", old[()])
    made = {"chunks": old.chunks, "compression": old.compression, "shuffle": old.shuffle, "dtype": old.dtype, "maxshape": (None, *old.shape[1:])} | changes
    del file[name]
    file.create_dataset(name, data=values, **made)


def test_a_good_file_has_no_problems(good):
    assert validate_file(good) == [] == validate_file(good, timeout_seconds=60)


@pytest.mark.parametrize(("f", "interpolate"), [(2, False), (2, True), (3, False)])
def test_files_of_other_settings_are_valid_when_asked_for(tmp_path, f, interpolate):
    write(tmp_path / "v.h5", 17, frames_per_bin=f, interpolate_bins=interpolate)
    assert validate_file(tmp_path / "v.h5", frames_per_bin=f) == []
    assert validate_file(tmp_path / "v.h5") != []


CASES = {
    "an extra dataset": (lambda f: f.create_dataset("extra", data=[1]), "extra: an extra name at the root"),
    "an extra group": (lambda f: f.create_group("notes"), "notes: an extra name"),
    "a missing dataset": (lambda f: f.__delitem__("voxel_event_count"), "voxel_event_count: missing"),
    "a group for a dataset": (lambda f: (f.__delitem__("events"), f.create_group("events")), "events: a group"),
    "a soft link": (lambda f: (f.move("events", "e"), f.__setitem__("events", h5py.SoftLink("/e"))), "events: a link to elsewhere"),
    "a missing attribute": (lambda f: f.attrs.__delitem__("fps"), "attribute fps: missing"),
    "an extra attribute": (lambda f: f.attrs.__setitem__("author", 1), "attribute author: an extra attribute"),
    "fps as text": (lambda f: f.attrs.__setitem__("fps", "25.0"), "attribute fps: object"),
    "fps of 32 bits": (lambda f: f.attrs.create("fps", np.float32(25)), "attribute fps: float32"),
    "fps nan": (lambda f: f.attrs.create("fps", np.nan), "attribute fps: nan"),
    "fps infinite": (lambda f: f.attrs.create("fps", np.inf), "attribute fps: inf"),
    "fps zero": (lambda f: f.attrs.create("fps", 0.0), "attribute fps: 0.0"),
    "another height": (lambda f: f.attrs.create("height", np.int64(17)), "attribute height: 17, expected 16"),
    "another width": (lambda f: f.attrs.create("width", np.int64(21)), "attribute width: 21, expected 20"),
    "width as an array": (lambda f: f.attrs.create("width", np.array([20])), "attribute width: int64 of shape (1,)"),
    "num_bins 6": (lambda f: f.attrs.create("num_bins", np.int64(6)), "attribute num_bins: 6, expected 5"),
    "interpolate_bins as a number": (lambda f: f.attrs.create("interpolate_bins", np.int64(0)), "attribute interpolate_bins: int64"),
    "events of 32 bits": (lambda f: remake(f, "events", dtype="i4"), "events: dtype int32, expected int16"),
    "events big-endian": (lambda f: remake(f, "events", dtype=">i2"), "events: dtype >i2, expected int16"),
    "events with lzf": (lambda f: remake(f, "events", compression="lzf"), "events: filters shuffle, lzf, expected shuffle, gzip"),
    "events without shuffle": (lambda f: remake(f, "events", shuffle=False), "events: filters gzip, expected shuffle, gzip"),
    "events with other chunks": (lambda f: remake(f, "events", chunks=(1, 5, 8, 20)), "events: chunks (1, 5, 8, 20), expected (1, 5, 16, 20)"),
    "events without chunks": (
        lambda f: remake(f, "events", chunks=None, compression=None, shuffle=False, maxshape=None),
        "events: chunks None, expected (1, 5, 16, 20)",
    ),
    "six bins": (lambda f: remake(f, "events", data=np.zeros((3, 6, 16, 20), "i2"), maxshape=None, chunks=(1, 6, 16, 20)), "events: 6 bins, expected 5"),
    "three dimensions": (lambda f: remake(f, "events", data=np.zeros((3, 5, 16), "i2"), chunks=(1, 5, 16), maxshape=None), "events: shape (3, 5, 16)"),
    "starts with gzip": (lambda f: remake(f, "voxel_event_start", compression="gzip"), "voxel_event_start: filters shuffle, gzip, expected shuffle, lzf"),
    "starts of 32 bits": (lambda f: remake(f, "voxel_event_start", dtype="i4"), "voxel_event_start: dtype int32, expected int64"),
    "starts with other chunks": (lambda f: remake(f, "voxel_event_start", chunks=(3,)), "voxel_event_start: chunks (3,), expected (1024,)"),
    "counts of 64 bits": (lambda f: remake(f, "voxel_event_count", dtype="i8"), "voxel_event_count: dtype int64, expected int32"),
    "a count too few": (lambda f: f["voxel_event_count"].resize((2,)), "voxel_event_count: 2 entries, expected 3"),
    "a start off by one": (lambda f: f["voxel_event_start"].__setitem__(1, 6), "voxel_event_start: 6 for voxel 1 (1 wrong in all), expected 5"),
    "a count in the middle": (lambda f: f["voxel_event_count"].__setitem__(1, 4), "voxel_event_count: 4 for voxel 1 (1 wrong in all), expected 5"),
    "a last count of zero": (lambda f: f["voxel_event_count"].__setitem__(2, 0), "voxel_event_count: 0 for voxel 2 (1 wrong in all), expected 5 or fewer"),
    "a last count of six": (lambda f: f["voxel_event_count"].__setitem__(2, 6), "voxel_event_count: 6 for voxel 2"),
    "a value beyond the count": (lambda f: f["events"].__setitem__((2, 4, 0, 0), 1), "events: values beyond the count in bins 3 to 4"),
    "a chunk never written": (lambda f: f["events"].resize(4, axis=0), "events: 3 chunks stored, expected 4"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_planted_fault_is_named(good, name):
    change, expected = CASES[name]
    found = planted(good, change)
    assert any(expected in line for line in found), found


def test_two_faults_are_both_named(good):
    found = planted(good, lambda f: (f.attrs.__delitem__("fps"), f["voxel_event_start"].__setitem__(0, 9)))
    assert len(found) == 2


def test_a_flipped_byte_is_named_with_its_voxel(tmp_path):
    write(tmp_path / "v.h5", 50, 64, 64)
    data = bytearray((tmp_path / "v.h5").read_bytes())
    with h5py.File(tmp_path / "v.h5") as file:
        place = file["events"].id.get_chunk_info_by_coord((6, 0, 0, 0))
    data[place.byte_offset + place.size // 2] ^= 0xFF
    (tmp_path / "v.h5").write_bytes(data)
    (problem,) = validate_file(tmp_path / "v.h5")
    assert problem.where == "events" and problem.found.startswith("voxels that cannot be read: 6 (1 of 10;")


def index_nodes(data):
    """Return where the nodes of the chunk indices stand in a file, and how many children each has."""
    places = [at for at in range(len(data) - 8) if data.startswith(b"TREE\x01", at)]
    return {at: int.from_bytes(data[at + 6 : at + 8], "little") for at in places}


@pytest.mark.parametrize("bit", [1, 64])
def test_a_wrong_byte_in_an_index_of_chunks_is_named_wherever_it_changes_what_h5py_reads(tmp_path, bit):
    path = tmp_path / "v.h5"
    events, _ = write(path, 13, 9, 11)
    whole, changed = path.read_bytes(), 0
    # keys of 8 + 5 * 8 bytes and addresses of 8 take turns after 24 bytes of head; side datasets have keys of 8 + 2 * 8
    for at, children in index_nodes(whole).items():
        for place in range(at + 24, at + 24 + children * 56 + 48):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            try:
                found = by_h5py(path)
            except (OSError, RuntimeError, ValueError):
                found = None
            if found is None or not np.array_equal(found, events):
                changed += 1
                assert validate_file(path) != [], place
            try:  # the reader never takes what h5py refuses for anything but what was written
                assert np.array_equal(EventVideo(path)[:], events if found is None else found), place
            except DataError as error:
                assert error.code == "invalid_hdf5"
    assert changed > 20


def test_a_chunk_without_its_filters_is_named(tmp_path):
    events = values((2, 5, 30, 30))
    plain = events[1].astype("<i2").tobytes()
    path = write_raw(tmp_path / "v.h5", events.shape, {**streams_of(events, zlib.compress), (1, 0, 0): (plain, 3)})
    (problem,) = validate_file(path)
    assert "otherwise than they are stored: 1 (1 of 2; chunk (1, 0, 0, 0) leaves out filters (mask 3))" in problem.found


def test_a_chunk_that_has_the_bytes_of_another_is_named(tmp_path):
    path = tmp_path / "v.h5"
    events, _ = write(path, 13, 9, 11, codec="zlib:0")
    with h5py.File(path) as file:
        first, second = (file["events"].id.get_chunk_info_by_coord((t, 0, 0, 0)).byte_offset.to_bytes(8, "little") for t in (0, 1))
    assert path.read_bytes().count(second) == 1
    path.write_bytes(path.read_bytes().replace(second, first))
    assert np.array_equal(by_h5py(path)[1], events[0]), "HDF5 takes no notice"
    (problem,) = validate_file(path)
    assert "chunk (1, 0, 0, 0) has the bytes of chunk (0, 0, 0, 0)" in problem.found


def test_every_cut_and_many_flips_are_problems_and_never_tracebacks(good):
    whole = good.read_bytes()
    for share in (0.01, 0.3, 0.75, 0.99):
        good.write_bytes(whole[: int(len(whole) * share)])
        assert validate_file(good, timeout_seconds=20) != []
    # the first kilobytes hold the file's own structure
    for place in range(9, 2000, 331):
        data = bytearray(whole)
        data[place] ^= 0x41
        good.write_bytes(data)
        assert all(problem.where for problem in validate_file(good, timeout_seconds=20))


def test_what_is_no_event_file_is_named(tmp_path):
    (tmp_path / "text.h5").write_text("not HDF5")
    (tmp_path / "empty.h5").touch()
    (tmp_path / "folder.h5").mkdir()
    (tmp_path / "link.h5").symlink_to("nowhere")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    for name, found in (
        ("text", "begins with b'not HDF5'"),
        ("empty", "begins with b''"),
        ("folder", "a folder"),
        ("link", "a link"),
        ("none", "no such file"),
    ):
        (problem,) = validate_file(tmp_path / f"{name}.h5")
        assert problem.where == "file" and problem.found.startswith(found)
    assert {problem.where for problem in validate_file(tmp_path / "other.h5")} >= {"x", "events", "attribute fps"}


def test_a_look_that_never_ends_is_given_up(good, monkeypatch):
    monkeypatch.setattr(validate, "CHILD", "import time; time.sleep(60)")
    started = time.monotonic()
    (problem,) = validate_file(good, timeout_seconds=0.5)
    assert problem.found == "not read within 0.5 s" and time.monotonic() - started < 30


def test_a_look_that_dies_is_a_problem(good, monkeypatch):
    monkeypatch.setattr(validate, "CHILD", "import os; os.kill(os.getpid(), 11)")
    (problem,) = validate_file(good, timeout_seconds=20)
    assert "signal 11" in problem.found


def test_an_unreadable_file_is_an_error_of_the_machine(good, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError):
        validate_file(good)


@pytest.mark.parametrize("limit", [None, 60])
def test_info_tells_what_the_file_holds(good, limit):
    found = info(good, timeout_seconds=limit)
    assert found["events"]["shape"] == [3, 5, 16, 20] and found["events"]["filters"] == ["shuffle", "gzip"]
    assert (found["fps"], found["fps_num"], found["fps_den"], found["slices"], found["height"]) == (25.0, 25, 1, 13, 16)
    assert found["interpolate_bins"] is False and found["bytes"] == good.stat().st_size


@pytest.mark.parametrize("limit", [None, 60])
@pytest.mark.parametrize("name", ["voxel_event_start", "voxel_event_count", "events"])
def test_info_never_reads_a_damaged_length(good, name, limit):
    with h5py.File(good, "r+") as file:
        file[name].resize(2**42, axis=0)
    with pytest.raises(DataError, match=rf"{name} \[{2**42}\].*\[invalid_hdf5\]"):
        info(good, timeout_seconds=limit)


@pytest.mark.parametrize("limit", [None, 60])
def test_info_of_another_file_is_refused(tmp_path, limit):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(DataError, match="invalid_hdf5"):
        info(tmp_path / "other.h5", timeout_seconds=limit)


def test_the_format_has_one_number_of_bins():
    assert VoxelSettings().num_bins == validate.NUM_BINS
