"""Pools are frozen once: the same call keeps them, any other is refused, what is lost comes back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from sam3dvid.backgrounds.polyhaven_pool import build_polyhaven_pool
from sam3dvid.backgrounds.pool import Panorama, is_eval, read_pool, verify_pool
from sam3dvid.backgrounds.sa1b_pool import build_sa1b_pool
from sam3dvid.backgrounds.settings import PanoramaSettings, PhotoSettings
from sam3dvid.backgrounds.tables import PHOTO_COLUMNS, photo_rows, read_photo_table
from sam3dvid.codes import AssetRefused
from shardwork.run import Options
from shardwork.tables import write_table

SMALL = PanoramaSettings(width=512, height=256, eval_fraction=0.5)
HERE = Options(workers=0)


def panoramas(folder, names=("a", "b", "c", "d")):
    folder.mkdir(exist_ok=True)
    found = []
    for seed, name in enumerate(names):
        path = folder / f"{name}.png"
        if not path.exists():
            Image.fromarray(np.random.default_rng(seed).integers(0, 256, (512, 1024, 3), np.uint8)).save(path)
        found.append(Panorama(name, path, path.stat().st_size, path.stat().st_mtime_ns, authors=("Ada",)))
    return found


def build(tmp_path, found=None, settings=SMALL, options=HERE, max_refused=None):
    return build_polyhaven_pool(found or panoramas(tmp_path / "in"), tmp_path / "pool", tmp_path / "books", settings, options, max_refused)


def spoil(panorama):
    """Put a picture in the place of a panorama that is not twice as wide as high."""
    Image.new("RGB", (1024, 600)).save(panorama.path)


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_views_of_a_panorama_are_in_the_split_of_its_hash(tmp_path):
    build(tmp_path)
    pool = verify_pool(tmp_path / "pool")
    assert len(pool.eval) + len(pool.train) == 16
    for row in (*pool.eval, *pool.train):
        number = int(hashlib.sha256(f"{SMALL.salt}:{row['split_key']}".encode()).hexdigest(), 16) % 10000
        assert row["pool"] == ("eval" if number < 5000 else "train")
        assert row["projection"]["yaw_deg"] == 90 * int(row["image_id"][-1])


def test_the_same_call_keeps_every_byte(tmp_path):
    build(tmp_path)
    before = files_of(tmp_path / "pool")
    build(tmp_path)
    assert files_of(tmp_path / "pool") == before


def test_two_folders_get_the_same_bytes_and_no_path(tmp_path):
    found = panoramas(tmp_path / "in")
    for name in ("one", "two"):
        build_polyhaven_pool(found, tmp_path / name, tmp_path / f"{name}.books", SMALL, HERE)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert not any(str(tmp_path).encode() in data for data in files_of(tmp_path / "one").values())


@pytest.mark.parametrize("change", ["settings", "more", "digest"])
def test_another_call_is_refused_and_changes_nothing(tmp_path, change):
    found, settings = panoramas(tmp_path / "in"), SMALL
    build(tmp_path, found)
    before = files_of(tmp_path / "pool")
    if change == "settings":
        settings = PanoramaSettings(width=512, height=256, eval_fraction=0.6)
    elif change == "more":
        found = panoramas(tmp_path / "in", ("a", "b", "c", "d", "e"))
    else:
        Image.new("RGB", (1024, 512), (9, 9, 9)).save(found[0].path)
        found = panoramas(tmp_path / "in")
    with pytest.raises(AssetRefused, match="pool_frozen"):
        build(tmp_path, found, settings)
    assert files_of(tmp_path / "pool") == before


@pytest.mark.parametrize("damage", ["lost", "changed", "index", "books"])
def test_what_is_lost_or_spoilt_comes_back_as_it_was(tmp_path, damage):
    build(tmp_path)
    before = files_of(tmp_path / "pool")
    name = next(name for name in before if name.endswith("_v1.jpg"))
    if damage == "lost":
        (tmp_path / "pool" / name).unlink()
    elif damage == "changed":
        (tmp_path / "pool" / name).write_bytes(b"other")
    elif damage == "index":
        (tmp_path / "pool" / "train.jsonl").unlink()
    else:
        (tmp_path / "books").rename(tmp_path / "gone")
    build(tmp_path)
    assert files_of(tmp_path / "pool") == before


def test_a_pool_whose_sources_are_gone_is_found_as_it_is(tmp_path):
    found = panoramas(tmp_path / "in")
    build(tmp_path, found)
    before = files_of(tmp_path / "pool")
    for panorama in found:
        panorama.path.unlink()
    build(tmp_path, found)
    assert files_of(tmp_path / "pool") == before


def test_what_cannot_be_made_again_takes_nothing_else_with_it(tmp_path):
    found = panoramas(tmp_path / "in")
    build(tmp_path, found)
    found[1].path.unlink()
    next((tmp_path / "pool").rglob("ph_b_v1.jpg")).unlink()
    before = files_of(tmp_path / "pool")
    with pytest.raises(AssetRefused, match="bad_pool"):
        build(tmp_path, found)
    assert files_of(tmp_path / "pool") == before


@pytest.mark.parametrize(("length", "code"), [(80, "ok"), (97, "bad_id")])
def test_a_slug_whose_views_could_have_no_id_is_refused(tmp_path, length, code):
    slug = "s" * length
    rows = build(tmp_path, panoramas(tmp_path / "in", ("a", slug)))
    assert {row["id"]: row["code"] for row in rows} == {"a": "ok", slug: code}
    verify_pool(tmp_path / "pool")


def test_a_refused_panorama_is_a_row_and_not_in_the_pool(tmp_path):
    found = panoramas(tmp_path / "in")
    spoil(found[0])
    rows = build(tmp_path, panoramas(tmp_path / "in"))
    assert [row["code"] for row in rows if row["id"] == "a"] == ["not_equirectangular"]
    pool = read_pool(tmp_path / "pool")
    assert {row["split_key"] for row in (*pool.eval, *pool.train)} == {"b", "c", "d"}


def test_the_same_bytes_under_two_slugs_are_in_the_pool_once(tmp_path):
    found = panoramas(tmp_path / "in")
    found[1].path.write_bytes(found[0].path.read_bytes())
    rows = build(tmp_path, panoramas(tmp_path / "in"))
    assert [row["code"] for row in rows if row["id"] == "b"] == ["duplicate_image"]
    assert not list((tmp_path / "pool").rglob("ph_b_*"))
    build(tmp_path, panoramas(tmp_path / "in"))


def test_a_flipped_byte_is_named(tmp_path):
    build(tmp_path)
    path = next((tmp_path / "pool").rglob("ph_c_v2.jpg"))
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    with pytest.raises(AssetRefused, match="ph_c_v2"):
        verify_pool(tmp_path / "pool")


def test_the_limit_takes_the_first_in_the_order_of_the_hash(tmp_path):
    rows = build(tmp_path, settings=PanoramaSettings(width=512, height=256, limit=2, eval_fraction=1.0))
    order = sorted("abcd", key=lambda slug: hashlib.sha256((SMALL.salt + slug).encode()).hexdigest())
    assert {row["id"] for row in rows} == set(order[:2])


def photos(tmp_path, license_id="LicenseRef-SA-1B"):
    folder = tmp_path / "photos"
    folder.mkdir(exist_ok=True)
    for number in range(3):
        Image.new("RGB", (600, 400), (number, 50, 90)).save(folder / f"sa_{number}.png")
    table = tmp_path / "photos.csv"
    write_table(table, PHOTO_COLUMNS, photo_rows([folder], table, license_id))
    return table


@pytest.mark.parametrize(("license_id", "releasable"), [("LicenseRef-SA-1B", False), ("CC0-1.0", True), ("", False)])
def test_photos_stay_and_their_licence_decides_release(tmp_path, license_id, releasable):
    table = photos(tmp_path, license_id)
    build_sa1b_pool(read_photo_table(table), table, tmp_path / "pool", tmp_path / "books", PhotoSettings(), HERE)
    pool = verify_pool(tmp_path / "pool")
    for row in (*pool.eval, *pool.train):
        assert row["releasable"] is releasable and (row["pool"] == "eval") is is_eval("reelmill-bg-v1", row["image_id"], 0.1)
    assert sorted(path.name for path in (tmp_path / "pool").iterdir()) == ["CREDITS.md", "eval.jsonl", "selection.json", "train.jsonl"]


def test_each_kind_refuses_the_folder_of_the_other(tmp_path):
    build(tmp_path)
    table = photos(tmp_path)
    with pytest.raises(AssetRefused, match="pool_frozen"):
        build_sa1b_pool(read_photo_table(table), table, tmp_path / "pool", tmp_path / "books2", PhotoSettings(), HERE)
    assert json.loads((tmp_path / "pool" / "selection.json").read_text())["kind"] == "polyhaven"


def test_a_pool_without_any_picture_is_an_error_and_not_frozen(tmp_path):
    found = panoramas(tmp_path / "in", ("a",))
    spoil(found[0])
    with pytest.raises(AssetRefused, match="bad_pool"):
        build(tmp_path, panoramas(tmp_path / "in", ("a",)))
    assert not (tmp_path / "pool" / "selection.json").exists()


def test_with_more_refused_than_allowed_nothing_is_frozen(tmp_path):
    spoil(panoramas(tmp_path / "in")[0])
    rows = build(tmp_path, panoramas(tmp_path / "in"), max_refused=0)
    assert [row["id"] for row in rows if row["status"] != "ok"] == ["a"]
    assert not [path for path in (tmp_path / "pool").iterdir() if path.is_file()], "neither index nor credits nor selection.json"


def test_with_as_many_refused_as_allowed_the_pool_is_frozen(tmp_path):
    spoil(panoramas(tmp_path / "in")[0])
    build(tmp_path, panoramas(tmp_path / "in"), max_refused=1)
    assert read_pool(tmp_path / "pool").selection["refused"].keys() == {"a"}


def test_the_same_call_freezes_once_the_refused_panorama_is_mended_and_gives_what_a_first_call_gives(tmp_path):
    found = panoramas(tmp_path / "in")
    whole = found[0].path.read_bytes()
    spoil(found[0])
    build(tmp_path, panoramas(tmp_path / "in"), max_refused=0)
    found[0].path.write_bytes(whole)
    build(tmp_path, panoramas(tmp_path / "in"), max_refused=0)
    build_polyhaven_pool(panoramas(tmp_path / "in"), tmp_path / "first", tmp_path / "first.books", SMALL, HERE, 0)
    assert files_of(tmp_path / "pool") == files_of(tmp_path / "first")


def test_the_same_call_freezes_once_the_refused_panorama_is_taken_out_of_the_table(tmp_path):
    spoil(panoramas(tmp_path / "in")[0])
    build(tmp_path, panoramas(tmp_path / "in"), max_refused=0)
    build(tmp_path, panoramas(tmp_path / "in")[1:], max_refused=0)
    assert verify_pool(tmp_path / "pool").selection["sources"].keys() == {"b", "c", "d"}


def test_a_refused_panorama_may_leave_the_table_of_a_frozen_pool(tmp_path):
    spoil(panoramas(tmp_path / "in")[0])
    build(tmp_path, panoramas(tmp_path / "in"))
    before = files_of(tmp_path / "pool")
    rows = build(tmp_path, panoramas(tmp_path / "in")[1:])
    assert {row["id"] for row in rows} == {"b", "c", "d"} and files_of(tmp_path / "pool") == before


def test_a_refused_panorama_that_was_mended_stays_out_of_a_frozen_pool(tmp_path):
    found = panoramas(tmp_path / "in")
    whole = found[0].path.read_bytes()
    spoil(found[0])
    build(tmp_path, panoramas(tmp_path / "in"))
    before = files_of(tmp_path / "pool")
    found[0].path.write_bytes(whole)
    rows = build(tmp_path, panoramas(tmp_path / "in"))
    assert [row["code"] for row in rows if row["id"] == "a"] == ["not_equirectangular"] and files_of(tmp_path / "pool") == before


@pytest.mark.parametrize("books", ["kept", "lost"])
def test_a_missing_panorama_of_an_intact_pool_is_no_error(tmp_path, books):
    found = panoramas(tmp_path / "in")
    build(tmp_path, found)
    before = files_of(tmp_path / "pool")
    found[0].path.unlink()
    if books == "lost":
        (tmp_path / "books").rename(tmp_path / "gone")
    for _ in range(2):
        rows = build(tmp_path, found)
        assert {row["status"] for row in rows} == {"ok"} and files_of(tmp_path / "pool") == before


@pytest.mark.parametrize("damage", ["lost", "flipped"])
def test_a_spoilt_view_whose_panorama_is_missing_is_a_bad_pool_and_the_others_stay(tmp_path, damage):
    found = panoramas(tmp_path / "in")
    build(tmp_path, found)
    found[0].path.unlink()
    path = next((tmp_path / "pool").rglob("ph_a_v1.jpg"))
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.unlink() if damage == "lost" else path.write_bytes(data)
    before = files_of(tmp_path / "pool")
    with pytest.raises(AssetRefused, match=r"ph_a_v1.*bad_pool"):
        build(tmp_path, found)
    assert files_of(tmp_path / "pool") == before


def test_a_lost_photo_of_a_frozen_pool_is_a_bad_pool(tmp_path):
    table = photos(tmp_path)
    for _ in range(2):
        build_sa1b_pool(read_photo_table(table), table, tmp_path / "pool", tmp_path / "books", PhotoSettings(), HERE)
    (tmp_path / "photos" / "sa_1.png").unlink()
    with pytest.raises(AssetRefused, match=r"sa_1.*bad_pool"):
        build_sa1b_pool(read_photo_table(table), table, tmp_path / "pool", tmp_path / "books", PhotoSettings(), HERE)


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_gives_the_same_bytes(tmp_path, workers):
    build(tmp_path)
    build_polyhaven_pool(panoramas(tmp_path / "in"), tmp_path / "other", tmp_path / "other.books", SMALL, Options(workers=workers))
    assert files_of(tmp_path / "pool") == files_of(tmp_path / "other")


def test_a_stated_md5_that_the_file_has_not_is_refused(tmp_path):
    first, *rest = panoramas(tmp_path / "in")
    rows = build(tmp_path, [replace(first, md5="0" * 32), *rest])
    assert [row["code"] for row in rows if row["id"] == "a"] == ["digest_mismatch"]


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_a_fraction_of_none_or_all_leaves_one_index_empty(tmp_path, fraction):
    build(tmp_path, settings=PanoramaSettings(width=512, height=256, eval_fraction=fraction))
    pool = read_pool(tmp_path / "pool")
    assert (len(pool.eval), len(pool.train)) == ((16, 0) if fraction else (0, 16))


def test_the_credits_name_author_and_licence_and_poly_haven_only_where_it_is_the_source(tmp_path):
    found = panoramas(tmp_path / "in")
    build(tmp_path, found)
    text = (tmp_path / "pool" / "CREDITS.md").read_text()
    assert "- b by Ada, CC0-1.0" in text and "Poly Haven" not in text
    theirs = [replace(one, source_url=f"https://polyhaven.com/a/{one.slug}") for one in found]
    build_polyhaven_pool(theirs, tmp_path / "other", tmp_path / "other.books", SMALL, HERE)
    assert "Powered by [Poly Haven](https://polyhaven.com)" in (tmp_path / "other" / "CREDITS.md").read_text()
