"""The event file: its layout for every size, its bytes, and the digest of its values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xxhash

from eventvox.codecs import compressor
from eventvox.hdf5 import create_events, read_values_digest
from eventvox.reader import EventVideo
from eventvox.settings import VoxelSettings, parse_codec
from eventvox.validate import validate_file
from eventvox.voxels import Voxel, group_slices
from shardwork.errors import Fault

CODECS = ("auto", "rle", "isal:0", "isal:1", "isal:3", "zlib-ng:1", "zlib-ng:4", "libdeflate:2", "libdeflate:6", "zlib:0", "zlib:4")


def write(path, count, height=3, width=4, *, seed=0, fps=25.0, threads=1, **settings):
    """Write a file of `count` slices; returns (events, digest)."""
    chosen = VoxelSettings(**settings)
    rng = np.random.default_rng(seed)
    kept = []
    with create_events(path, height, width, fps, chosen, threads) as writer:
        for voxel in group_slices((rng.integers(-3, 4, (height, width), np.int32) for _ in range(count)), chosen):
            writer.append(voxel)
            kept.append(voxel.events)
    return np.array(kept, np.int16).reshape(-1, 5, height, width), writer.values_digest()


@pytest.mark.parametrize("voxels", [0, 1, 7, 1023, 1024, 1025])
def test_the_side_chunks_are_1024_for_every_length(tmp_path, voxels):
    events, _ = write(tmp_path / "v.h5", 5 * voxels, 1, 1)
    with h5py.File(tmp_path / "v.h5") as file:
        assert file["voxel_event_start"].chunks == file["voxel_event_count"].chunks == (1024,)
        assert file["voxel_event_start"][()].tolist() == list(range(0, 5 * voxels, 5))
        assert file["voxel_event_count"][()].tolist() == [5] * voxels
        assert np.array_equal(file["events"][()], events)
    assert validate_file(tmp_path / "v.h5") == []


@pytest.mark.parametrize("height", [1, 255, 256, 257])
@pytest.mark.parametrize("width", [1, 255, 256, 257])
def test_the_event_chunks_are_at_most_256_wide_and_high(tmp_path, height, width):
    events, _ = write(tmp_path / "v.h5", 6, height, width)
    with h5py.File(tmp_path / "v.h5") as file:
        assert file["events"].chunks == (1, 5, min(height, 256), min(width, 256))
        assert np.array_equal(file["events"][()], events)
    assert validate_file(tmp_path / "v.h5") == []


@pytest.mark.parametrize("codec", ["rle", "zlib:7"])
def test_the_layout_is_the_formats(tmp_path, codec):
    write(tmp_path / "v.h5", 12, fps=30000 / 1001, codec=codec)
    with h5py.File(tmp_path / "v.h5") as file:
        assert set(file) == {"events", "voxel_event_start", "voxel_event_count"}
        assert set(file.attrs) == {"fps", "height", "width", "num_bins", "interpolate_bins"}
        assert [file[name].dtype.str for name in ("events", "voxel_event_start", "voxel_event_count")] == ["<i2", "<i8", "<i4"]
        assert (file["events"].compression, file["events"].compression_opts, file["events"].shuffle) == ("gzip", 4, True)
        assert (file["voxel_event_start"].compression, file["voxel_event_start"].shuffle) == ("lzf", True)
        assert (file["voxel_event_count"].compression, file["voxel_event_count"].shuffle) == ("lzf", True)
        assert [file.attrs.get_id(n).dtype for n in ("fps", "height", "width", "num_bins", "interpolate_bins")] == ["f8", "i8", "i8", "i8", "?"]
        assert {name: file.attrs[name].item() for name in file.attrs} == {
            "fps": 30000 / 1001,
            "height": 3,
            "width": 4,
            "num_bins": 5,
            "interpolate_bins": False,
        }
        assert file["voxel_event_count"][()].tolist() == [5, 5, 2]


@pytest.mark.parametrize("size", [(3, 4), (257, 300)])
def test_two_writes_of_the_same_values_have_the_same_bytes(tmp_path, size):
    for name in ("a.h5", "b.h5"):
        write(tmp_path / name, 33, *size)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_the_digest_is_that_of_the_shape_and_the_values(tmp_path):
    events, digest = write(tmp_path / "v.h5", 12)
    # one chunk a voxel: its low bytes, then its high ones
    planes = events.astype("<i2").reshape(3, -1, 1).view(np.uint8).transpose(0, 2, 1)
    chunks = b"".join(xxhash.xxh3_128_digest(chunk.tobytes()) for chunk in planes)
    by_hand = xxhash.xxh3_128_hexdigest(np.array([5, 3, 4], "<i8").tobytes() + chunks)
    assert digest == read_values_digest(tmp_path / "v.h5") == by_hand


def test_the_digest_of_many_chunks_takes_them_row_by_row_filled_up_with_zeros(tmp_path):
    events, digest = write(tmp_path / "v.h5", 8, 300, 520)
    padded = np.zeros((2, 5, 512, 768), "<i2")
    padded[:, :, :300, :520] = events
    tiles = padded.reshape(2, 5, 2, 256, 3, 256).transpose(0, 2, 4, 1, 3, 5).reshape(2 * 6, -1, 1)
    chunks = b"".join(xxhash.xxh3_128_digest(tile.copy().view(np.uint8).T.tobytes()) for tile in tiles)
    by_hand = xxhash.xxh3_128_hexdigest(np.array([5, 300, 520], "<i8").tobytes() + chunks)
    assert digest == read_values_digest(tmp_path / "v.h5") == by_hand


def test_the_digest_does_not_depend_on_the_codec(tmp_path):
    digests = {write(tmp_path / f"{index}.h5", 12, codec=codec)[1] for index, codec in enumerate(CODECS)}
    assert len(digests) == 1
    assert len({(tmp_path / f"{CODECS.index(codec)}.h5").stat().st_size for codec in ("zlib:0", "zlib:4")}) == 2


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [(1, 1), (3, 4), (255, 257), (513, 256)])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_codec_is_read_by_plain_hdf5_with_equal_values(tmp_path, codec, size, threads):
    events, digest = write(tmp_path / "v.h5", 23, *size, codec=codec, threads=threads)
    with h5py.File(tmp_path / "v.h5") as file:
        assert np.array_equal(file["events"][()], events)
    assert read_values_digest(tmp_path / "v.h5") == digest
    assert validate_file(tmp_path / "v.h5") == []


def test_any_number_of_threads_gives_the_same_bytes(tmp_path):
    files = {}
    for threads in (1, 2, 5):
        write(tmp_path / "v.h5", 43, 300, 300, threads=threads)
        files[threads] = (tmp_path / "v.h5").read_bytes()
    assert files[1] == files[2] == files[5]


def test_a_codec_that_fails_in_a_thread_is_an_error(tmp_path, monkeypatch):
    def fail(chunk):
        raise MemoryError("no room")

    monkeypatch.setattr("eventvox.hdf5.compressor", lambda codec: fail)
    with pytest.raises(MemoryError, match="no room"):
        write(tmp_path / "v.h5", 23, threads=2)


def test_a_codec_whose_package_is_missing_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "deflate", None)
    with pytest.raises(Fault, match="pip install deflate"):
        write(tmp_path / "v.h5", 5, codec="libdeflate:2")


@pytest.mark.parametrize("spoil", ["flip", "cut", "missing"])
def test_a_spoilt_chunk_has_no_digest(tmp_path, spoil):
    write(tmp_path / "v.h5", 12, 30, 40)
    with h5py.File(tmp_path / "v.h5", "r+") as file:
        place = file["events"].id.get_chunk_info(1)
        if spoil == "missing":
            file["events"].resize(4, axis=0)
    if spoil != "missing":
        data = bytearray((tmp_path / "v.h5").read_bytes())
        at = place.byte_offset + place.size // 2
        data[at : place.byte_offset + place.size] = (
            [data[at] ^ 1, *data[at + 1 : place.byte_offset + place.size]] if spoil == "flip" else bytes(place.size - place.size // 2)
        )
        (tmp_path / "v.h5").write_bytes(data)
    with pytest.raises(OSError, match="chunk"):
        read_values_digest(tmp_path / "v.h5")


def test_the_digest_tells_values_lengths_and_shapes_apart(tmp_path):
    made = {
        write(tmp_path / f"{seed}-{count}-{height}.h5", count, height, width, seed=seed)[1]
        for seed, count, height, width in ((0, 10, 3, 4), (1, 10, 3, 4), (0, 15, 3, 4), (0, 10, 4, 3), (0, 0, 3, 4), (0, 0, 4, 3))
    }
    assert len(made) == 6


def test_a_file_without_voxels_keeps_its_shape(tmp_path):
    _, digest = write(tmp_path / "v.h5", 0, 4, 6)
    with h5py.File(tmp_path / "v.h5") as file:
        assert file["events"].shape == (0, 5, 4, 6) and file["voxel_event_count"].shape == (0,)
    assert read_values_digest(tmp_path / "v.h5") == digest


def test_clipped_values_and_slices_are_added_up(tmp_path):
    with create_events(tmp_path / "v.h5", 1, 1, 25.0, VoxelSettings()) as writer:
        for start, count, clipped in ((0, 5, 2), (5, 3, 1)):
            writer.append(Voxel(start, count, np.zeros((5, 1, 1), np.int16), clipped))
    assert (writer.voxels, writer.slices, writer.clipped) == (2, 8, 3)


def test_the_size_so_far_grows_while_writing(tmp_path):
    sizes = []
    with create_events(tmp_path / "v.h5", 64, 64, 25.0, VoxelSettings(codec="zlib:0")) as writer:
        for voxel in group_slices(np.ones((40, 64, 64), np.int32), VoxelSettings()):
            writer.append(voxel)
            sizes.append(writer.file_bytes)
    assert sizes == sorted(sizes) and sizes[-1] > 7 * 5 * 64 * 64 * 2


def test_the_digest_in_the_documentation_is_ours(tmp_path, capsys):
    _, digest = write(tmp_path / "v.h5", 8, 300, 257)
    pages = Path(__file__).resolve().parents[2] / "docs" / "events_format.md"
    (code,) = [part.partition("```")[0] for part in pages.read_text().split("```python\n") if "import xxhash" in part]
    exec(code.replace("results/demo/events/train/bikes.h5", str(tmp_path / "v.h5")), {})
    assert capsys.readouterr().out.strip() == digest


@pytest.mark.parametrize("codec", ["auto", "rle", "zlib:4", "isal:1"])
def test_streams_as_long_as_their_chunk_are_read(tmp_path, codec):
    # tiny chunks of noise: some streams are as long as what they hold
    for seed in range(60):
        events, digest = write(tmp_path / "v.h5", 15, 2, 2, seed=seed, codec=codec)
        assert read_values_digest(tmp_path / "v.h5") == digest
        with EventVideo(tmp_path / "v.h5") as video:
            assert np.array_equal(video[:], events)


def grain(seed=0):
    """Return a chunk of small counts that follow nothing."""
    events = np.random.default_rng(seed).choice(np.array([-1, 0, 0, 0, 0, 1], "<i2"), (5, 256, 256))
    return np.ascontiguousarray(events.reshape(-1, 1).view(np.uint8).T).reshape(-1)


def test_auto_takes_runs_for_grain_and_zlib_ng_for_what_repeats():
    auto, runs, theirs = (compressor(parse_codec(codec)) for codec in ("auto", "rle", "zlib-ng:4"))
    tile = np.tile(np.random.default_rng(1).integers(0, 3, 64).astype(np.uint8), 5 * 256 * 256 * 2 // 64)
    assert auto(grain()) == runs(grain()) and len(runs(grain())) < len(theirs(grain()))
    assert auto(tile) == theirs(tile) and len(theirs(tile)) < len(runs(tile))


def test_a_full_disk_is_an_error_with_threads_too(tmp_path):
    program = (
        "import resource, sys; from pathlib import Path; import numpy as np\n"
        "from eventvox.hdf5 import create_events; from eventvox.settings import VoxelSettings; from eventvox.voxels import Voxel\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "rng = np.random.default_rng(0)\n"
        "try:\n"
        "    with create_events(Path(sys.argv[1]), 300, 300, 25.0, VoxelSettings(codec='zlib:0'), 3) as writer:\n"
        "        for t in range(9): writer.append(Voxel(5 * t, 5, rng.integers(-9, 9, (5, 300, 300)).astype(np.int16), 0))\n"
        "except OSError as error: print(error.errno)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "v.h5")], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.split() == ["27"]
