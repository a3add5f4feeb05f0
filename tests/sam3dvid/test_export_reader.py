"""The reader of the training export: what it yields, what it refuses by name, and that it needs NumPy and Pillow alone."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sam3dvid.export_reader import ExportError, iter_members, iter_samples, load_voxels, open_voxels
from tests.sam3dvid.damaged_npz import NPZ_FLIPS, flipped_npz
from tests.sam3dvid.handmade_exports import FRAMES, jpeg, painted, png, write_tar, write_voxels

ROOT = Path(__file__).resolve().parents[2]
A, B, C = "00000000", "00000012", "00000100"


def samples(path, **options):
    return list(iter_samples(path, **options))


def refusal(path, yields=0):
    """Return the error of reading a shard, after so many samples."""
    found, stream = 0, iter_samples(path)
    with pytest.raises(ExportError) as caught:
        for _ in stream:
            found += 1
    assert found == yields
    assert caught.value.where.startswith(str(path))
    return caught.value


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    return write_tar(tmp_path_factory.mktemp("export") / "train-000000.tar", painted(A) + painted(B) + painted(C))


# What it yields


def test_samples_come_in_the_order_of_the_shard_with_ids_as_they_are_written(shard):
    assert [clip_id for clip_id, *_ in samples(shard)] == ["00000000", "00000012", "00000100"]


def test_pictures_are_uint8_of_the_documented_shapes(shard):
    _, rgb, visible, _ = samples(shard)[0]
    assert (rgb.shape, rgb.dtype, visible.shape, visible.dtype) == ((32, 16, 16, 3), np.uint8, (32, 16, 16), np.uint8)


def test_each_frame_stands_at_its_index_in_rgb_order(shard):
    _, rgb, visible, _ = samples(shard)[0]
    # a JPEG of one colour is off by some units at most
    assert np.abs(rgb[:, 8, 8].astype(int) - [[t, 100, 200] for t in range(32)]).max() <= 3
    assert visible[:, 8, 8].tolist() == [t % 3 for t in range(32)]
    assert (visible[:, 0] == 2).all()


def test_masks_are_exact_to_the_pixel(tmp_path):
    masks = np.random.default_rng(0).integers(0, 5, (FRAMES, 16, 16), dtype=np.uint8)
    members = [(name, png(masks[int(name.split(".")[2])]) if ".visible." in name else data) for name, data in painted(A)]
    assert np.array_equal(samples(write_tar(tmp_path / "s.tar", members))[0][2], masks)


def test_info_is_the_samples_json(shard):
    wanted = json.loads(painted(B)[0][1])
    assert samples(shard)[1][3] == wanted


def test_chosen_frames_alone_are_decoded_in_the_order_asked_for(shard):
    _, rgb, visible, _ = samples(shard)[0]
    for _, chosen_rgb, chosen_visible, info in samples(shard, frames=(31, 0, 5, 5)):
        assert np.array_equal(chosen_rgb, rgb[[31, 0, 5, 5]]) and np.array_equal(chosen_visible, visible[[31, 0, 5, 5]])
        assert len(info["T_cw"]) == 32


def test_frames_that_are_not_asked_for_are_not_decoded(tmp_path):
    members = [(name, b"no JPEG" if name == f"{A}.rgb.001.jpg" else data) for name, data in painted(A)]
    path = write_tar(tmp_path / "s.tar", members)
    assert samples(path, frames=range(0, 32, 2))[0][1].shape == (16, 16, 16, 3)


def test_a_function_chooses_the_frames_of_each_clip(shard):
    found = samples(shard, frames=lambda clip_id: (int(clip_id) % 32, 3))
    assert [visible[:, 8, 8].tolist() for _, _, visible, _ in found] == [[0, 0], [12 % 3, 0], [100 % 32 % 3, 0]]
    assert [round(float(rgb[0, 8, 8, 0]) / 4) for _, rgb, _, _ in found] == [0, 3, 1]


def test_a_function_that_chooses_a_frame_that_no_clip_has_is_refused(shard):
    with pytest.raises(IndexError, match="frames 0 to 31"):
        next(iter_samples(shard, lambda clip_id: [32]))


@pytest.mark.parametrize("chosen", [lambda: (t for t in (4, 31)), lambda: np.linspace(4, 31, 2).astype(int), lambda: {4: 0, 31: 0}])
def test_frames_may_be_anything_that_yields_whole_numbers(shard, chosen):
    found = samples(shard, frames=chosen())
    assert [(len(rgb), visible[:, 8, 8].tolist()) for _, rgb, visible, _ in found] == [(2, [1, 1])] * 3


def test_frames_that_are_no_whole_numbers_are_refused_at_the_call(shard):
    with pytest.raises(TypeError, match="integer"):
        iter_samples(shard, np.linspace(0, 31, 2))


@pytest.mark.parametrize("frames", [(0, 32), (-1,)])
def test_frames_that_no_clip_has_are_refused_at_the_call(shard, frames):
    with pytest.raises(IndexError, match="frames 0 to 31"):
        iter_samples(shard, frames)


def test_any_order_of_a_samples_members_is_read(tmp_path):
    members = painted(A)
    mixed = [members[index] for index in np.random.default_rng(3).permutation(len(members))]
    (sample,) = samples(write_tar(tmp_path / "s.tar", mixed))
    assert sample[2][:, 8, 8].tolist() == [t % 3 for t in range(32)]


def test_pictures_belong_to_the_caller(shard):
    _, rgb, visible, _ = samples(shard)[0]
    rgb[:], visible[:] = 1, 2
    assert samples(shard)[0][1][3, 8, 8, 2] > 190


def test_a_sample_is_yielded_before_the_next_is_read(tmp_path):
    members = painted(A) + painted(B)
    path = write_tar(tmp_path / "s.tar", members)
    whole = path.read_bytes()
    # the second sample's first header is spoilt
    at = whole.index(f"{B}.json".encode())
    path.write_bytes(whole[:at] + b"?" * 200 + whole[at + 200 :])
    assert next(iter_samples(path))[0] == A


def test_one_sample_is_in_memory_at_a_time(tmp_path):
    import tracemalloc

    size = 128
    rgb = jpeg(np.random.default_rng(0).integers(0, 255, (size, size, 3), dtype=np.uint8))
    mask = png(np.zeros((size, size), np.uint8))
    members = []
    for number in range(12):
        names = painted(f"{number:08d}", 8)
        members += [(name, rgb if name.endswith("jpg") else mask if name.endswith("png") else data) for name, data in names]
    path = write_tar(tmp_path / "s.tar", members)

    def peak(count):
        tracemalloc.start()
        for _, _ in zip(iter_samples(path), range(count), strict=False):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(1)
    decoded = 32 * size * size * 4
    assert peak(12) - peak(2) < decoded / 2


def test_a_shard_of_webdatasets_own_writer_is_read(tmp_path):
    wds = pytest.importorskip("webdataset", reason="webdataset is not installed: its writer is not tried")
    with wds.TarWriter(str(tmp_path / "train-000000.tar"), mtime=0, encoder=False) as writer:
        for clip_id in (A, B):
            writer.write({"__key__": clip_id, **{name.partition(".")[2]: data for name, data in painted(clip_id)}})
    assert [clip_id for clip_id, *_ in samples(tmp_path / "train-000000.tar")] == [A, B]


# What it refuses


def test_interleaved_samples_are_refused_with_member_and_tar(tmp_path):
    # rgb of both clips, then the rest of both: webdataset yields four half samples of this
    a, b = painted(A), painted(B)
    path = write_tar(tmp_path / "s.tar", a[1:33] + b[1:33] + a[:1] + a[33:] + b[:1] + b[33:])
    error = refusal(path)
    assert error.where == f"{path}: {B}.rgb.000.jpg"
    assert error.found == f"another clip after 32 members of clip {A}, without json"


@pytest.mark.parametrize("missing", [f"{A}.json", f"{A}.rgb.000.jpg", f"{A}.rgb.017.jpg", f"{A}.visible.031.png"])
def test_an_incomplete_sample_is_refused_by_what_it_lacks(tmp_path, missing):
    path = write_tar(tmp_path / "s.tar", [member for member in painted(A) if member[0] != missing] + painted(B))
    assert refusal(path).found.endswith(f"after 64 members of clip {A}, without {missing.partition('.')[2]}")


def test_an_incomplete_last_sample_is_refused(tmp_path):
    path = write_tar(tmp_path / "s.tar", painted(A) + painted(B)[:-1])
    assert refusal(path, yields=1).found == f"it ends after 64 members of clip {B}"


def test_a_sample_that_stands_twice_is_refused(tmp_path):
    path = write_tar(tmp_path / "s.tar", painted(A) + painted(B) + painted(A))
    error = refusal(path, yields=2)
    assert (error.where, error.found) == (f"{path}: {A}.json", f"clip {A} again, after its 65 members")


def test_a_member_that_stands_twice_is_refused(tmp_path):
    members = painted(A)
    path = write_tar(tmp_path / "s.tar", members[:4] + members[3:])
    assert refusal(path).where == f"{path}: {A}.rgb.002.jpg"


@pytest.mark.parametrize(
    "name",
    [
        *(f"{A}.rgb.032.jpg", f"{A}.rgb.00.jpg", f"{A}.rgb.000.png", f"{A}.visible.000.jpg", f"{A}.depth.000.npz", f"{A}.JSON", f"{A}.json.gz", "README"),
        *("clip.v1.json", "a/b.json", "x y.json", ".hidden.json", ".json", "..json", f"./{A}.json", "é.json"),
    ],
)
def test_a_member_that_no_sample_has_is_refused_by_name(tmp_path, name):
    path = write_tar(tmp_path / "s.tar", [(name, b"{}")] + painted(A))
    error = refusal(path)
    assert (error.where, error.found) == (f"{path}: {name}", "a member of no sample")


def test_a_folder_or_link_in_the_tar_is_refused(tmp_path):
    for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
        path = tmp_path / "s.tar"
        with tarfile.open(path, "w") as tar:
            header = tarfile.TarInfo(f"{A}.json")
            header.type, header.linkname = kind, "/etc/hostname"
            tar.addfile(header)
        assert refusal(path).found == "no regular file"


def cut_at(path, end):
    data = path.read_bytes()
    path.write_bytes(data[:end])
    return path


def test_a_tar_cut_between_two_samples_is_refused(tmp_path):
    path = write_tar(tmp_path / "s.tar", painted(A) + painted(B))
    cut_at(path, path.read_bytes().index(f"{B}.json".encode()))
    with tarfile.open(path) as tar:  # it reads as whole
        assert len(tar.getmembers()) == 65
    assert "it was cut" in refusal(path, yields=1).found


def test_a_tar_cut_between_two_members_of_a_sample_is_refused(tmp_path):
    path = write_tar(tmp_path / "s.tar", painted(A) + painted(B))
    cut_at(path, path.read_bytes().index(f"{B}.rgb.003.jpg".encode()))
    assert f"after {B}.rgb.002.jpg: it was cut" in refusal(path, yields=1).found


def test_a_tar_cut_within_a_member_is_refused(tmp_path):
    path = write_tar(tmp_path / "s.tar", painted(A) + painted(B))
    cut_at(path, path.read_bytes().index(f"{B}.rgb.003.jpg".encode()) + 600)
    assert "cannot be read at or after" in refusal(path, yields=1).found


@pytest.mark.parametrize("kept", [0, 511, 512, 1023])
def test_a_tar_without_all_of_its_closing_zeros_is_refused(tmp_path, kept):
    path = write_tar(tmp_path / "s.tar", painted(A))
    with tarfile.open(path) as tar:
        last = tar.getmembers()[-1]
    cut_at(path, last.offset_data + -(-last.size // 512) * 512 + kept)
    assert "no end of a tar" in refusal(path, yields=1).found


def test_a_tar_whose_last_sample_was_never_written_is_refused(tmp_path):
    path = write_tar(tmp_path / "s.tar", painted(A) + painted(B))
    data = path.read_bytes()
    at = data.index(f"{B}.json".encode())
    path.write_bytes(data[:at] + bytes(len(data) - at))
    with tarfile.open(path) as tar:  # it reads as whole
        assert len(tar.getmembers()) == 65
    assert f"zeros after {A}.visible.031.png: what stood there is lost" in refusal(path, yields=1).found


def test_a_file_of_zeros_is_refused(tmp_path):
    (tmp_path / "s.tar").write_bytes(bytes(1 << 20))
    assert "1048576 zeros after its first member" in refusal(tmp_path / "s.tar").found


@pytest.mark.parametrize(("zeros", "whole"), [(1024, True), (11263, True), (11264, False)])
def test_a_tar_may_end_in_two_sectors_and_less_than_a_record_of_zeros(tmp_path, zeros, whole):
    path = write_tar(tmp_path / "s.tar", painted(A))
    with tarfile.open(path) as tar:
        last = tar.getmembers()[-1]
    end = last.offset_data + -(-last.size // 512) * 512
    path.write_bytes(path.read_bytes()[:end] + bytes(zeros))
    if whole:
        assert len(samples(path)) == 1
    else:
        refusal(path, yields=1)


def test_members_come_as_they_stand_in_the_shard(shard):
    assert list(iter_members(shard)) == painted(A) + painted(B) + painted(C)


def test_two_tars_one_behind_the_other_are_refused(tmp_path):
    path, other = write_tar(tmp_path / "s.tar", painted(A)), write_tar(tmp_path / "t.tar", painted(B))
    path.write_bytes(path.read_bytes() + other.read_bytes())
    assert "goes on" in refusal(path, yields=1).found


def test_a_damaged_header_within_the_tar_is_refused(tmp_path):
    path = write_tar(tmp_path / "s.tar", painted(A) + painted(B))
    data = bytearray(path.read_bytes())
    data[data.index(f"{B}.rgb.000.jpg".encode())] ^= 1
    path.write_bytes(bytes(data))
    assert f"after {B}.json" in refusal(path, yields=1).found


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
@pytest.mark.parametrize("size", [1 << 40, 1 << 70, -512])
def test_a_header_of_an_absurd_size_is_refused_before_anything_of_that_size_is_read(tmp_path, size, kind):
    path = write_tar(tmp_path / "s.tar", painted(A))
    header = tarfile.TarInfo(f"{B}.json")
    header.size, header.type = size, kind
    with tarfile.open(path) as tar:
        last = tar.getmembers()[-1]
    end = last.offset_data + -(-last.size // 512) * 512
    path.write_bytes(path.read_bytes()[:end] + header.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    assert f"(a size of {size} bytes)" in refusal(path, yields=1).found


def test_a_size_that_a_further_header_makes_absurd_is_refused(tmp_path):
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        header = tarfile.TarInfo(f"{A}.json")
        header.size, header.pax_headers = 2, {"size": str(1 << 40)}
        tar.addfile(header, io.BytesIO(b"{}"))
    assert f"at or after {A}.json (a size of {1 << 40} bytes)" in refusal(path).found


@pytest.mark.parametrize("content", [b"", b"no tar", bytes(511), b"\x1f\x8b" + bytes(600)])
def test_what_is_no_tar_is_refused(tmp_path, content):
    path = tmp_path / "s.tar"
    path.write_bytes(content)
    assert refusal(path).expected in ("a whole tar", "zeros after the last member, as a finished tar has")


def test_a_tar_of_no_samples_yields_none(tmp_path):
    assert samples(write_tar(tmp_path / "s.tar", [])) == []


def test_a_shard_that_is_not_there_is_a_fault_of_the_machine(tmp_path):
    with pytest.raises(FileNotFoundError):
        samples(tmp_path / "no.tar")


def gray(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0]).save(file, "JPEG")
    return file.getvalue()


def palette(mask):
    file = io.BytesIO()
    image = Image.fromarray(mask).convert("P")
    image.save(file, "PNG")
    return file.getvalue()


PICTURE = np.zeros((16, 16, 3), np.uint8)
SPOILT = {
    "cut JPEG": ("rgb.004.jpg", jpeg(PICTURE)[:-200], "cannot be decoded"),
    "empty JPEG": ("rgb.004.jpg", b"", "cannot be decoded"),
    "PNG named jpg": ("rgb.004.jpg", png(PICTURE), "cannot be decoded"),
    "gray JPEG": ("rgb.004.jpg", gray(PICTURE), "a picture of mode L"),
    "JPEG of another size": ("rgb.004.jpg", jpeg(PICTURE[:8]), "(8, 16) px"),
    "cut PNG": ("visible.004.png", png(PICTURE[..., 0])[:-24], "cannot be decoded"),
    "mask of RGB": ("visible.004.png", png(PICTURE), "a picture of mode RGB"),
    "mask of 16 bits": ("visible.004.png", png(PICTURE[..., 0].astype(np.uint16)), "a picture of mode I;16"),
    "mask of another size": ("visible.004.png", png(PICTURE[:8, :, 0]), "(8, 16) px"),
    "mask of a palette": ("visible.004.png", palette(PICTURE[..., 0]), "a picture of mode P"),
    "NaN": ("json", b'{"clip_id": "00000000", "K": NaN}', "cannot be read (NaN is not JSON)"),
    "infinity": ("json", b'{"clip_id": "00000000", "K": -Infinity}', "cannot be read (-Infinity is not JSON)"),
    "a number beyond any float": ("json", b'{"clip_id": "00000000", "K": 1e999}', "cannot be read (1e999 is beyond"),
    "a key twice": ("json", b'{"clip_id": "00000000", "seed": 1, "seed": 2}', "cannot be read (a key stands twice)"),
    "cut JSON": ("json", b'{"clip_id": "00000000"', "cannot be read"),
    "JSON of another clip": ("json", b'{"clip_id": "00000001"}', "not this clip's"),
    "JSON with a number for the id": ("json", b'{"clip_id": 0}', "not this clip's"),
    "a list": ("json", b"[]", "not this clip's"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_a_spoilt_member_is_refused_by_name(tmp_path, case):
    member, data, said = SPOILT[case]
    path = write_tar(tmp_path / "s.tar", [(name, data if name == f"{A}.{member}" else old) for name, old in painted(A)])
    error = refusal(path)
    assert error.where == f"{path}: {A}.{member}" and error.found.startswith(said)


def test_masks_and_frames_of_different_sizes_are_refused(tmp_path):
    path = write_tar(tmp_path / "s.tar", [(name, png(PICTURE[:8, :, 0]) if ".visible." in name else data) for name, data in painted(A)])
    assert refusal(path).found == "masks of (8, 16) px"


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_refused_or_leaves_pictures_of_the_same_shape(tmp_path, shard, seed):
    rng = np.random.default_rng(seed)
    data = bytearray(shard.read_bytes())
    for at in rng.integers(0, len(data), 30):
        data[at] = rng.integers(256)
    path = tmp_path / "s.tar"
    path.write_bytes(bytes(data))
    try:
        for _, rgb, visible, _ in iter_samples(path):
            assert (rgb.shape, visible.shape) == ((32, 16, 16, 3), (32, 16, 16))
    except ExportError:
        pass


def test_a_refusal_says_what_to_do(tmp_path):
    assert "sam3dvid.export verify" in str(refusal(write_tar(tmp_path / "s.tar", painted(A)[:5])))


def test_a_refusal_travels_between_processes(tmp_path):
    import pickle

    error = refusal(write_tar(tmp_path / "s.tar", painted(A)[:5]))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


# Voxels


def grid(*occupied):
    voxels = np.zeros((64, 64, 64), bool)
    for index in occupied:
        voxels[index] = True
    return voxels


def test_byte_528_with_value_16_is_voxel_1_2_3(tmp_path):
    packed = np.zeros(32768, np.uint8)
    packed[528] = 16
    np.savez(tmp_path / "voxels_train.npz", cup=packed)
    voxels = load_voxels(tmp_path / "voxels_train.npz", "cup")
    assert (voxels.shape, str(voxels.dtype), np.argwhere(voxels).tolist()) == ((64, 64, 64), "bool", [[1, 2, 3]])


def test_voxels_of_an_open_archive_are_the_same(tmp_path):
    path = write_voxels(tmp_path / "v.npz", {"cup": grid((0, 0, 0), (63, 62, 61)), "pan": grid((5, 6, 7))})
    with open_voxels(path) as archive:
        for name in ("cup", "pan"):
            assert np.array_equal(load_voxels(archive, name), load_voxels(path, name))


def test_an_asset_that_is_not_there_is_named(tmp_path):
    path = write_voxels(tmp_path / "v.npz", {"cup": grid()})
    with pytest.raises(ExportError, match="no asset jug"):
        load_voxels(path, "jug")


@pytest.mark.parametrize("packed", [np.zeros(100, np.uint8), np.zeros(32768, bool), np.zeros((64, 64, 64), np.uint8)])
def test_an_array_that_is_no_packed_grid_is_refused(tmp_path, packed):
    np.savez(tmp_path / "v.npz", cup=packed)
    with pytest.raises(ExportError, match=r"expected uint8 of shape \(32768,\)"):
        load_voxels(tmp_path / "v.npz", "cup")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_a_voxels_file_that_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "v.npz").write_bytes(content)
    with pytest.raises(ExportError, match=r"v\.npz"):
        load_voxels(tmp_path / "v.npz", "cup")


def test_a_single_array_in_place_of_the_archive_is_refused(tmp_path):
    np.save(tmp_path / "v.npy", np.zeros(32768, np.uint8))
    (tmp_path / "v.npy").rename(tmp_path / "v.npz")
    with pytest.raises(ExportError, match="one array"):
        load_voxels(tmp_path / "v.npz", "cup")


def test_a_flipped_bit_of_stored_voxels_is_refused(tmp_path):
    path = write_voxels(tmp_path / "v.npz", {"cup": grid((1, 2, 3))})
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ExportError, match="cannot be read"):
        load_voxels(path, "cup")


@pytest.mark.parametrize("place", NPZ_FLIPS)
def test_a_flipped_bit_of_what_describes_the_voxels_is_refused(tmp_path, place):
    path = write_voxels(tmp_path / "v.npz", {"cup": grid((1, 2, 3)), "pan": grid()})
    path.write_bytes(flipped_npz(path.read_bytes(), place))
    with pytest.raises(ExportError, match="cannot be read"):
        load_voxels(path, "cup")


def test_a_voxels_file_that_the_machine_does_not_let_be_read_is_a_fault_of_the_machine(tmp_path):
    with pytest.raises(IsADirectoryError):
        load_voxels(tmp_path, "cup")


# Its walls

BARE = """
import sys
from pathlib import Path

class Block:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in {"numpy", "PIL", "export_reader"} | sys.stdlib_module_names:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
import export_reader
import numpy as np
for clip_id, rgb, visible, info in export_reader.iter_samples("train-000000.tar"):
    obj = info["objects"][0]
    voxels = export_reader.load_voxels("voxels_train.npz", obj["asset_id"])
    print(clip_id, rgb.shape, visible.shape, np.array(obj["R_co"]).shape, int(voxels.sum()))
"""


def test_the_file_alone_reads_an_export_where_all_but_numpy_and_pillow_is_blocked(tmp_path, shard):
    shutil.copy(ROOT / "src/sam3dvid/export_reader.py", tmp_path)
    shutil.copy(shard, tmp_path)
    write_voxels(tmp_path / "voxels_train.npz", {"cup": grid((1, 2, 3), (4, 5, 6))})
    (tmp_path / "read.py").write_text(BARE)
    done = subprocess.run([sys.executable, "read.py"], cwd=tmp_path, capture_output=True, text=True, check=False, env={})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{clip_id} (32, 16, 16, 3) (32, 16, 16) (32, 3, 3) 2" for clip_id in (A, B, C)]
