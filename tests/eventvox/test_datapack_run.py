"""All real videos in one go, good, odd and damaged: each ends with the verdict that its nature calls for, and none takes another with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventvox.stage import events_place
from shardwork.place import read_manifest
from tests.contract.contract import ROOT

# name -> (verdict, frames that come out or None, why). Frames are those of the encoder or the header, not of this program.
VERDICTS: dict[str, tuple[str, int | None, str]] = {
    "-video-with-dash-": ("ok", 5, "a leading dash is part of the name; 1x1 pixels are a size"),
    "01_dog": ("ok", 289, "29.97 fps with sound"),
    "05_default_juggle": ("ok", 247, "24 fps"),
    "asl_book": ("ok", 109, "the header says 110: one frame is within the tolerance of D9"),
    "av1_video": ("ok", 125, "AV1: OpenCV decodes none of it, PyAV all"),
    "big_buck_bunny_0_30": ("ok", 720, "WebM states no count: nothing is missing"),
    "bikes": ("ok", 250, "an ordinary video"),
    "bottle-detection": ("ok", 1189, "a long one at 179/6 fps"),
    "box": ("ok", 455, "variable rate; the header's 456th frame is marked to be discarded"),
    "bt709_full_range": ("ok", 30, "full range"),
    "carphone_pristine": ("ok", 120, "small, 29.97 fps"),
    "chaplin": ("ok", 241, "gray film stored in colour"),
    "cockatoo_yuv444": ("ok", 280, "yuv444p"),
    "example_mask": ("ok", 300, "black first frame"),
    "fire2_rot180_vfr": ("ok", 25, "turned by 180 degrees, variable rate"),
    "h265_10bits": ("ok", 30, "HEVC, 10 bits"),
    "nasa_13013": ("ok", 325, "two video streams: the first counts"),
    "sam2_720px_dark": ("ok", 1016, "1200x1200 at 60 fps"),
    "tree": ("decode_gap", None, "444 frames stated, 68 stored: voxel times would not fit 5t/fps"),
    "video_180": ("ok", 3, "turned by 180 degrees"),
    "video_90": ("ok", 3, "turned by 90 degrees: height and width change places"),
    "dark_first_frame": ("ok", 41, "black, then fades in"),
    "flicker_128x96": ("ok", 26, "the largest steps there are"),
    "frames_1": ("single_frame", None, "no transition"),
    "frames_2": ("ok", 2, "one transition"),
    "frames_5": ("ok", 5, "a voxel of four slices"),
    "frames_6": ("ok", 6, "a full voxel"),
    "frames_7": ("ok", 7, "a full voxel and one of one slice"),
    "gray_ffv1_23976fps": ("ok", 60, "one channel, lossless, 23.976 fps"),
    "odd_321x241_60fps": ("ok", 101, "odd sizes, AVI"),
    "odd_427x239_50fps": ("ok", 123, "odd sizes, yuv444p"),
    "portrait_202x360_5994fps": ("ok", 121, "portrait, 59.94 fps"),
    "static_31frames": ("ok", 31, "nothing moves: a file of zeros is a valid file"),
    "tiny_16x16_120fps": ("ok", 61, "smaller than a chunk"),
    "vfr_90frames": ("ok", 90, "irregular times"),
    "视频 with space é": ("bad_id", None, "the name is no id; its row gets a suggestion"),
    "Mpeg4_262bytes": ("no_video_stream", None, "a container with nothing in it"),
    "audio_only": ("no_video_stream", None, "sound alone"),
    "corrupted": ("decode_gap", None, "damaged in the middle, frames after it"),
    "html_error_page": ("not_a_video", None, "text"),
    "jpeg_named": ("not_a_video", None, "a picture"),
    "mkv_named": ("ok", 109, "only the ending is wrong"),
    "no_duration": ("ok", 74, "no duration, no count: nothing is missing that anyone stated"),
    "resolution_change": ("size_change", None, "two sizes in one stream"),
    "truncated_30pct_carphone": ("not_a_video", None, "cut before its index: no container that opens"),
    "truncated_50pct_dog": ("truncated", None, "the index says 289 frames, half the bytes are gone"),
    "truncated_60pct": ("not_a_video", None, "cut before its index"),
    "unordered": ("ok", 4, "packets out of order"),
    "video_with_failing_audio": ("ok", 280, "damaged sound is not our business"),
    "zero_bytes": ("empty_file", None, "0 bytes"),
}
SHARD = "0000-of-0001"


@pytest.fixture(scope="module")
def rows(datapack: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("pack")
    script = [sys.executable, str(ROOT / "scripts" / "make_video_table.py")]
    subprocess.run([*script, f"--videos={datapack.absolute()}", "--out=t.csv", "--no-headers"], cwd=folder, check=True, timeout=60)
    script = [sys.executable, str(ROOT / "scripts" / "voxelize_events.py")]
    flags = ["--table=t.csv", "--stage=stage", f"--shard={SHARD}", "--workers=2", "--codec=zlib:1"]
    subprocess.run([*script, *flags], cwd=folder, check=True, timeout=900)
    (manifest,) = events_place(folder / "stage").manifests("voxelize_events", SHARD)
    return {row["id"]: row for row in read_manifest(manifest)}


def test_every_video_has_its_verdict_and_its_frames(rows: dict[str, dict[str, Any]]) -> None:
    assert {key: row["code"] for key, row in rows.items()} == {key: verdict for key, (verdict, _, _) in VERDICTS.items()}
    assert {key: row["frames"] for key, row in rows.items() if row["code"] == "ok"} == {key: frames for key, (_, frames, _) in VERDICTS.items() if frames}


def test_identities_hold_for_every_good_video(rows: dict[str, dict[str, Any]]) -> None:
    for key, row in rows.items():
        if row["code"] == "ok":
            assert row["voxels"] == -(-(row["frames"] - 1) // 5), key
            assert abs(row["fps_num"] / row["fps_den"] - row["fps"]) < 1e-9 * row["fps"], key


def test_every_refusal_says_what_where_and_what_to_do(rows: dict[str, dict[str, Any]]) -> None:
    for key, row in rows.items():
        if row["code"] != "ok":
            assert row["status"] == "quarantined" and all(row[part] for part in ("where", "found", "expected", "hint")), key
