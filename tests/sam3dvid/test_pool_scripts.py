"""The programs of pools: exit codes, tables, what they say and where they write."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--width=512", "--height=256", "--views=2")


def run(name, *flags):
    """Return what a program gave back and said."""
    return subprocess.run([sys.executable, str(ROOT / "scripts" / f"{name}.py"), *map(str, flags)], capture_output=True, text=True, check=False)


def rows_of(table):
    with open(table, newline="") as file:
        return list(csv.DictReader(file))


def write_picture(path, seed, size=(1024, 512)):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (8, 16, 3), np.uint8)
    Image.fromarray(noise).resize(size).save(path)


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def panoramas(tmp_path):
    for seed, name in enumerate(("wide_street_1k.png", "hall_8k.png", "deep/cave.png")):
        write_picture(tmp_path / "in" / name, seed)
    return tmp_path / "in"


def make_table(folder, *flags):
    table = folder.parent / "panoramas.csv"
    done = run("make_panorama_table", f"--panoramas={folder}", f"--out={table}", *flags)
    assert done.returncode == 0, done.stderr
    return table


def build(tmp_path, table, *flags):
    return run("build_polyhaven_pool", f"--table={table}", f"--pool={tmp_path / 'pool'}", f"--stage={tmp_path / 'books'}", *SMALL, *flags)


def test_the_slug_is_the_stem_without_its_resolution(panoramas):
    rows = rows_of(make_table(panoramas, "--source-url-prefix=https://polyhaven.com/a/", "--authors=Ada; Bo"))
    assert [row["slug"] for row in rows] == ["cave", "hall", "wide_street"]
    assert rows[1]["source_url"] == "https://polyhaven.com/a/hall" and rows[1]["authors"] == "Ada; Bo" and rows[1]["license"] == "CC0-1.0"


def test_a_table_is_the_same_until_a_file_changes(panoramas):
    first = make_table(panoramas).read_bytes()
    assert make_table(panoramas).read_bytes() == first
    os.utime(panoramas / "hall_8k.png", ns=(10**18, 10**18))
    assert [row["mtime_ns"] for row in rows_of(make_table(panoramas)) if row["slug"] == "hall"] == [str(10**18)]


def test_two_resolutions_of_one_panorama_are_bad_input(tmp_path, panoramas):
    write_picture(panoramas / "hall_2k.png", 7)
    done = run("make_panorama_table", f"--panoramas={panoramas}", f"--out={tmp_path / 't.csv'}")
    assert done.returncode == 2 and "[duplicate_id]" in done.stderr and not (tmp_path / "t.csv").exists()


@pytest.mark.parametrize(("name", "flag"), [("make_panorama_table", "--panoramas"), ("make_photo_table", "--photos")])
def test_a_folder_without_pictures_is_bad_input(tmp_path, name, flag):
    for folder in (tmp_path, tmp_path / "nowhere"):
        done = run(name, f"{flag}={folder}", f"--out={tmp_path / 't.csv'}")
        assert done.returncode == 2 and "[bad_table]" in done.stderr


def test_a_pool_is_built_with_its_sheet_and_manifest_and_the_same_call_keeps_it(tmp_path, panoramas):
    table = make_table(panoramas)
    done = build(tmp_path, table, f"--sheet={tmp_path / 'sheet.png'}", "--key=0a1b")
    assert done.returncode == 0 and "3 ok (3 made)" in done.stderr, done.stderr
    assert [path.name for path in (tmp_path / "books" / "shards" / "build_polyhaven_pool").iterdir()] == ["0000-of-0001.0a1b.jsonl"]
    assert Image.open(tmp_path / "sheet.png").format == "PNG"
    before = files_of(tmp_path / "pool")
    assert "3 ok (3 kept)" in build(tmp_path, table, "--key=0a1b").stderr
    assert files_of(tmp_path / "pool") == before


def test_a_table_made_again_after_a_touch_keeps_the_pool(tmp_path, panoramas):
    build(tmp_path, make_table(panoramas))
    before = files_of(tmp_path / "pool")
    os.utime(panoramas / "hall_8k.png", ns=(10**18, 10**18))
    done = build(tmp_path, make_table(panoramas))
    assert done.returncode == 0 and "1 adopted" in done.stderr and files_of(tmp_path / "pool") == before


def test_other_settings_are_bad_input(tmp_path, panoramas):
    table = make_table(panoramas)
    build(tmp_path, table)
    done = build(tmp_path, table, "--salt=other")
    assert done.returncode == 2 and "[pool_frozen]" in done.stderr and done.stderr.count("error: ") == 1


def test_a_refused_panorama_leaves_the_exit_code_0(tmp_path, panoramas):
    write_picture(panoramas / "hall_8k.png", 1, (1024, 600))
    done = build(tmp_path, make_table(panoramas))
    assert done.returncode == 0 and '{"not_equirectangular":1}' in done.stderr and (tmp_path / "pool" / "selection.json").exists()


def test_more_refused_than_allowed_is_said_and_freezes_nothing(tmp_path, panoramas):
    write_picture(panoramas / "hall_8k.png", 1, (1024, 600))
    done = build(tmp_path, make_table(panoramas), "--max-refused=0", f"--sheet={tmp_path / 'sheet.png'}")
    assert done.returncode == 0 and "1 refused, 0 allowed: not frozen yet" in done.stderr
    assert not (tmp_path / "pool" / "selection.json").exists() and Image.open(tmp_path / "sheet.png").size == (320, 160)
    write_picture(panoramas / "hall_8k.png", 1)
    build(tmp_path, make_table(panoramas), "--max-refused=0")
    assert (tmp_path / "pool" / "selection.json").exists()


@pytest.mark.parametrize("flag", ["--views=0", "--eval-fraction=1.5", "--hfov-deg=90", "--width=many", "--max-refused=-1"])
def test_a_setting_out_of_range_is_bad_input_before_anything_is_written(tmp_path, panoramas, flag):
    done = build(tmp_path, make_table(panoramas), flag)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and not (tmp_path / "pool").exists()


@pytest.fixture
def photos(tmp_path):
    for seed in range(4):
        write_picture(tmp_path / "photos" / f"sa_{seed}.jpg", seed, (600, 400))
    return tmp_path / "photos"


def build_photos(tmp_path, table, pool, *flags):
    return run("build_sa1b_pool", f"--table={table}", f"--pool={tmp_path / pool}", f"--stage={tmp_path / f'{pool}.books'}", *flags)


def test_any_number_of_workers_gives_the_same_pool_of_photos(tmp_path, photos):
    table = tmp_path / "photos.csv"
    assert run("make_photo_table", f"--photos={photos}", f"--out={table}").returncode == 0
    for workers in (0, 1, 2):
        done = build_photos(tmp_path, table, f"pool{workers}", f"--workers={workers}", f"--sheet={tmp_path / 'sheet.png'}")
        assert done.returncode == 0 and "4 ok (4 made)" in done.stderr, done.stderr
    assert files_of(tmp_path / "pool0") == files_of(tmp_path / "pool1") == files_of(tmp_path / "pool2")


def test_two_photos_of_one_stem_are_bad_input(tmp_path, photos):
    write_picture(photos / "more" / "sa_1.png", 8, (600, 400))
    done = run("make_photo_table", f"--photos={photos}", f"--out={tmp_path / 't.csv'}")
    assert done.returncode == 2 and "[duplicate_id]" in done.stderr


def test_the_front_door_builds_a_pool_from_folders_and_keeps_its_books_beside_it(tmp_path, photos):
    more = tmp_path / "more"
    write_picture(more / "own.png", 9, (600, 400))
    done = run("build_bg_pools", "--photos", photos, more, f"--out={tmp_path / 'pool'}", "--eval-fraction=0.5")
    assert done.returncode == 0 and "5 photos, 0 refused" in done.stdout, done.stderr
    assert len((tmp_path / "pool" / "eval.jsonl").read_text().splitlines() + (tmp_path / "pool" / "train.jsonl").read_text().splitlines()) == 5
    assert (tmp_path / "pool.books" / "photos.csv").is_file()


def test_the_front_door_ends_with_3_where_photos_were_refused_and_2_where_the_pool_is_another(tmp_path, photos):
    (photos / "cut.jpg").write_bytes((photos / "sa_0.jpg").read_bytes()[:-40])
    done = run("build_bg_pools", f"--photos={photos}", f"--out={tmp_path / 'pool'}")
    assert done.returncode == 3 and "4 photos, 1 refused" in done.stdout
    done = run("build_bg_pools", f"--photos={photos}", f"--out={tmp_path / 'pool'}", "--salt=other")
    assert done.returncode == 2 and "[pool_frozen]" in done.stderr


def test_a_pool_of_photos_refuses_the_folder_of_views(tmp_path, panoramas, photos):
    build(tmp_path, make_table(panoramas))
    before = files_of(tmp_path / "pool")
    done = run("build_bg_pools", f"--photos={photos}", f"--out={tmp_path / 'pool'}")
    assert done.returncode == 2 and "[pool_frozen]" in done.stderr and files_of(tmp_path / "pool") == before
