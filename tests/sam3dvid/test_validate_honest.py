"""What looks odd and is in order: the validator must not refuse an honest dataset for it."""

import io
import json
import shutil
import zipfile

import numpy as np
import pytest
from PIL import Image

from sam3dvid.validate import Choice, validate_dataset
from sam3dvid.validate.colours import look_at_alpha, look_at_blend
from sam3dvid.validate.kinds import Values
from sam3dvid.validate.report import Found
from tests.sam3dvid.datasets import Lent, corner_mesh, glb_bytes, write_dataset
from tests.sam3dvid.faults_of_pictures import CENTRE_DEPTH
from tests.sam3dvid.spoiled import ASSET, ONE, OTHER, THREE, data, depth, each, edit, inside, mesh_bytes, provenance, put, reseed

SMALL = Choice(any_size=True)


@pytest.fixture(scope="module")
def lent(tmp_path_factory):
    return Lent(write_dataset(tmp_path_factory.mktemp("valid")), tmp_path_factory.mktemp("lent") / "dataset")


@pytest.fixture
def dataset(lent):
    yield lent.root
    lent.put_right()


def streamed(content: bytes) -> bytes:
    """Return an NPZ file as one writes it to a pipe: the sizes behind the array, not before it."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

        def seek(self, *_: object) -> int:
            raise OSError

    out = Pipe()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new, new.open("depth.npy", "w") as member:
        member.write(old.read("depth.npy"))
    return out.getvalue()


def plain_savez(root):
    path = root / THREE / "depth/001.npz"
    np.savez(path, depth=np.load(path)["depth"])


def link_assets(names):
    def spoil(root):
        for name in names:
            outside = root.parent / f"outside-{name.replace('/', '-')}"
            shutil.rmtree(outside, ignore_errors=True)
            shutil.move(root / name, outside)
            (root / name).symlink_to(outside)

    return spoil


def rounded_raw_box(root):
    """Let the box of an objaverse asset reach beyond its vertices, as that of turned parts does."""
    vertices, triangles = corner_mesh(1)
    mesh_bytes(glb_bytes(vertices, triangles))(root)

    def change(record):
        record["source"] = "objaverse"
        low, high = record["normalization"]["raw_bbox"]
        low[2], high[2] = low[2] - 0.2, high[2] + 0.2

    edit(f"{ASSET}/meta.json", change)(root)
    for clip, index in ((THREE, 1), (ONE, 0)):
        put(f"{clip}/objects.json", (index, "source"), "objaverse")(root)


def named(record, url):
    """Return what gives an asset's record one name that many have, and its own address."""
    return edit(record, lambda r: r.update(source_name="scene.glb", source_url=url))


HONEST = {
    "assets linked as a whole": link_assets(["assets"]),
    "a split of the assets linked": link_assets(["assets/eval"]),
    "one asset linked": link_assets([ASSET]),
    "depth that is not compressed": plain_savez,
    "depth that went through a pipe": data(f"{THREE}/depth/001.npz", streamed),
    "the box of turned parts": rounded_raw_box,
    "an author who is called like a path": provenance(THREE, authors=["/u/maker", "A/B: studio", "../../dots"]),
    "a relative path in the provenance": provenance(THREE, file="eval/ph_meadow_v0.jpg"),
    "two dots within a name": provenance(THREE, source_file="meadow..v2.jpg"),
    "a photo whose id is its split key": each(provenance(ONE, source="sa1b", split_key="sa_17"), put(f"{ONE}/meta.json", ("background", "image_id"), "sa_17")),
    "no address of the photo": each(provenance(THREE, source_url=""), provenance(OTHER, source_url="")),
    "depths of the corners of the cube": each(
        *(depth(f"{ONE}/depth/00{t}.npz", inside(CENTRE_DEPTH + sign * 0.43)) for t, sign in ((1, 1), (2, -1)))  # sqrt(3) / 2 * 0.5 = 0.433
    ),
    "a light that was configured": edit(f"{THREE}/meta.json", lambda r: r["light"].update(sun_strength=1000.0, ambient_strength=0.0, sun_angle_deg=0.0)),
    "the last attempt": edit(
        f"{THREE}/meta.json", lambda r: r.update(attempt=49, arc_retries=100, rejections=[{"attempt": one, "reason": "cover"} for one in range(49)])
    ),
    "an address that a collection has": each(
        provenance(THREE, source_url="https://a.example/all", split_key="meadow"),
        provenance(ONE, source_url="https://a.example/all", split_key="hill", sha256="1" * 64, source_sha256="2" * 64),
        put(f"{ONE}/meta.json", ("background", "image_id"), "ph_hill_v0"),
        provenance(OTHER, source_url="https://a.example/all"),
    ),
    "one name at two addresses": each(
        *(named(f"{path}/meta.json", url) for path, url in ((ASSET, "https://a.example/1"), ("assets/train/corner_train-0", "https://a.example/2")))
    ),
    "a config with a tag of its own": lambda root: (root / "config.yaml").write_text("seed: !special 1\nday: 2026-99-99\n"),
}


@pytest.mark.parametrize("change", HONEST.values(), ids=HONEST.keys())
def test_an_honest_dataset_is_valid_with(change, dataset):
    change(dataset)
    assert validate_dataset(dataset, SMALL).lines() == []


def test_seeds_of_train_begin_at_a_million(dataset):
    assert json.loads((dataset / OTHER / "meta.json").read_text())["seed"] == 1_000_000
    reseed(OTHER, 1_000_000)(dataset)
    assert validate_dataset(dataset, SMALL).valid


def frame(size=64):
    """Return a disc's mask, and its alpha with a soft border of one pixel."""
    y, x = np.mgrid[:size, :size] - size / 2
    distance = np.hypot(x, y)
    return (distance < 16).astype(np.uint8), (np.clip(17 - distance, 0, 1) * 255).astype(np.uint8)


def faults_of(alpha, mask):
    told = []
    look_at_alpha(alpha, mask, mask > 0, lambda found, expected, alike: told.append(alike))
    return told


def test_a_soft_border_is_in_order():
    mask, alpha = frame()
    assert ((alpha > 0) & (alpha < 255)).sum() > 50
    assert faults_of(alpha, mask) == []


def test_a_sliver_whose_samples_all_missed_is_in_order():
    mask, alpha = frame()
    row = np.flatnonzero(mask[32])[0]
    alpha[32, row] = 0
    assert faults_of(alpha, mask) == []


def test_a_border_without_alpha_is_not():
    mask, alpha = frame()
    alpha[(alpha > 0) & ~(np.roll(mask, 1, 0) & np.roll(mask, -1, 0) & np.roll(mask, 1, 1) & np.roll(mask, -1, 1)).astype(bool)] = 0
    assert faults_of(alpha, mask) == ["bare"]


def test_a_wire_thinner_than_a_pixel_whose_centres_no_ray_meets_is_in_order():
    mask, alpha = frame()
    alpha[5, 10:40] = 20
    assert faults_of(alpha, mask) == []


def test_one_solid_pixel_away_from_every_object_is_not():
    mask, alpha = frame()
    alpha[5, 5] = 255
    assert faults_of(alpha, mask) == ["far"]


@pytest.mark.parametrize(("away", "told"), [(2, []), (3, ["far"])])
def test_alpha_reaches_two_pixels_diagonally_too(away, told):
    mask = np.zeros((64, 64), np.uint8)
    mask[20:40, 20:40] = 1
    alpha = mask * 255
    alpha[39 + away, 39 + away] = 255
    assert faults_of(alpha, mask) == told


@pytest.mark.parametrize(
    ("rgb", "told"),
    [((110, 170, 145), []), ((100, 60, 20), []), ((228, 187, 147), []), ((98, 60, 20), ["border"]), ((100, 60, 150), ["border"])],
    ids=["over (20, 220, 250)", "over black", "over white", "darker than over black", "brighter than over white"],
)
def test_a_border_of_200_120_40_at_alpha_128_is_what_some_background_makes_of_it(rgb, told):
    noted = []
    rgba = np.array([[(200, 120, 40, 128)]], np.uint8)
    look_at_blend(np.array([[rgb]], np.uint8), rgba, lambda found, expected, alike: noted.append(alike))
    assert noted == told


def test_names_of_pictures_and_people_may_look_like_paths():
    found = Found()
    Values("meta.json", found).relative({"textures": [{"name": "..\\wood.png"}, {"name": "/tex/wood"}], "source_name": "/u/name"})
    assert found.faults == []


def test_a_picture_is_written_by_pillow_without_any_part_that_is_refused(dataset):
    kinds = []
    content = (dataset / THREE / "rgb/000.png").read_bytes()
    at = 8
    while at < len(content):
        kinds.append(content[at + 4 : at + 8])
        at += 12 + int.from_bytes(content[at : at + 4], "big")
    assert set(kinds) == {b"IHDR", b"IDAT", b"IEND"}
    with Image.open(io.BytesIO(content)) as image:
        assert image.mode == "RGB"
