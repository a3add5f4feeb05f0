"""The video table of a folder: what it takes in, what it keeps, and that it never forgets by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventvox.stage import COLUMNS, KEY, read_video_table
from eventvox.videolist import find_videos, video_rows
from shardwork.errors import DataError
from shardwork.ids import suggest_id
from shardwork.tables import read_table, write_table

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_video_table.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("videos/a.mp4", "videos/train/b.MKV", "videos/validation/c.webm", "videos/deep/er/d.avi", "videos/notes.txt", "videos/.hidden.mp4"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path


def make(folder: Path, *flags: str, videos: str = "videos") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(SCRIPT), f"--videos={videos}", "--out=t.csv", "--no-headers", *flags]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def table(folder: Path) -> dict[str, dict[str, str]]:
    return {row[KEY]: dict(row) for row in read_video_table(folder / "t.csv")}


def test_folder_becomes_rows_with_split_size_and_time(folder: Path) -> None:
    os.utime(folder / "videos" / "a.mp4", ns=(0, -5))  # before 1970
    assert make(folder).returncode == 0
    rows = table(folder)
    assert {key: row["split"] for key, row in rows.items()} == {"a": "train", "b": "train", "c": "validation", "d": "train"}
    assert {key: row["path"] for key, row in rows.items()}["d"] == "videos/deep/er/d.avi"
    assert (rows["a"]["bytes"], rows["a"]["mtime_ns"]) == (str(len("videos/a.mp4")), "-5")


def test_ids_splits_and_further_columns_survive_however_the_folder_is_named(folder: Path) -> None:
    make(folder)
    rows = [{**row, "label": "x"} for row in read_table(folder / "t.csv", KEY)]
    rows[0] = {**rows[0], KEY: "mine", "split": "validation"}
    write_table(folder / "t.csv", tuple(rows[0]), rows)
    for videos in ("videos", str(folder / "videos"), "./videos/../videos"):
        assert "0 new, 0 changed, 0 gone" in make(folder, videos=videos).stdout
        assert table(folder)["mine"]["split"] == "validation" and {row["label"] for row in table(folder).values()} == {"x"}


def test_another_folder_adds_and_forgets_nothing(folder: Path) -> None:
    make(folder)
    (folder / "more").mkdir()
    (folder / "more" / "e.mp4").write_bytes(b"e")
    assert "5 videos: 1 new, 0 changed, 0 gone" in make(folder, videos="more").stdout
    assert table(folder).keys() == set("abcde")


def test_row_of_a_gone_file_stays_until_it_is_told_to_go(folder: Path) -> None:
    make(folder)
    (folder / "videos" / "a.mp4").unlink()
    assert "1 gone" in make(folder).stdout and "a" in table(folder)
    make(folder, "--remove-gone")
    assert table(folder).keys() == set("bcd")


def test_changed_file_is_noted(folder: Path) -> None:
    make(folder)
    (folder / "videos" / "a.mp4").write_bytes(b"another")
    assert "1 changed" in make(folder).stdout
    assert table(folder)["a"]["bytes"] == "7"


def test_files_of_one_name_are_refused_and_told_apart_by_path(folder: Path) -> None:
    for name in ("x/1.mp4", "y/1.mp4", "z/1.mp4"):
        (folder / "videos" / name).parent.mkdir()
        (folder / "videos" / name).write_bytes(b"1")
    done = make(folder)
    assert done.returncode == 2 and all(name in done.stderr for name in ("x/1.mp4", "y/1.mp4", "z/1.mp4", "--ids path", "[duplicate_id]"))
    assert make(folder, "--ids=path").returncode == 0
    assert {"x_1", "y_1", "z_1", "deep_er_d"} <= table(folder).keys()


def test_odd_names_get_distinct_ids_only_when_asked(folder: Path) -> None:
    names = ("видео", "动画", "a b", "a_b")
    for name in names:
        (folder / "videos" / f"{name}.mp4").write_bytes(b"1")
    assert "3 videos have no usable id" in make(folder).stdout
    assert set(names) <= table(folder).keys()
    make(folder, "--fix-ids")
    assert {suggest_id(name) for name in names[:3]} | {"a_b"} <= table(folder).keys()
    assert len(table(folder)) == 8
    make(folder)  # the ids now belong to the table
    assert len(table(folder)) == 8


def test_table_is_never_written_over_a_video(folder: Path) -> None:
    (folder / "t.csv").symlink_to(folder / "videos" / "a.mp4")
    done = make(folder)
    assert done.returncode == 2 and "the same file as" in done.stderr and "[bad_argument]" in done.stderr
    assert (folder / "t.csv").read_bytes() == b"videos/a.mp4"


def test_link_to_a_folder_above_is_walked_once(folder: Path) -> None:
    (folder / "videos" / "loop").symlink_to(folder / "videos")
    assert len(find_videos(folder / "videos", "train").videos) == 4


@pytest.mark.parametrize("name", ["none", "empty"])
def test_folder_without_videos_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="bad_table"):
        find_videos(tmp_path / name, "train")


def test_dangling_link_keeps_its_row_to_get_a_verdict(folder: Path) -> None:
    (folder / "videos" / "e.mp4").symlink_to(folder / "nowhere")
    rows = video_rows(find_videos(folder / "videos", "train"), folder / "t.csv", [], probe=True)
    assert [(row["bytes"], row["mtime_ns"]) for row in rows if row[KEY] == "e"] == [("0", "0")]
    assert all(set(COLUMNS) <= row.keys() for row in rows)
