"""Manifests: right values, the same from CSV and JSONL, the same bytes whatever happened on the way."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from eventvox.manifest import KINDS, Verdicts, as_cells, as_record, manifest_rows, quarantine_cells
from eventvox.manifest_read import check_equal, read_manifest
from eventvox.manifest_settings import FLAGS, ManifestSettings
from eventvox.stage import COLUMNS, events_place
from shardwork.errors import DataError, Fault
from shardwork.jsonio import read_json, read_jsonl, write_jsonl
from shardwork.shards import shard_of, split_rows
from shardwork.tables import read_table, write_table
from tests.contract.contract import strace
from tests.eventvox.test_scales import ROW

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = [sys.executable, str(ROOT / "scripts" / "write_event_manifest.py")]
HARD = ["000012", "1e5", "NA", "None", "null", "True", "12345678901234567890", "nan", "-inf", "2020-01-01", "-x"]

RECORD = {
    "clipped": 0,
    "decode_errors": 0,
    "duration_mismatch": False,
    "duration_seconds": 10.0,
    "first_frame_mean": 0.4,
    "fps": 25.0,
    "fps_den": 1,
    "fps_num": 25,
    "fps_source": "opencv",
    "frames": 250,
    "frames_reported": 250,
    "gaps": [],
    "height": 32,
    "rotation_deg": 0,
    "file_xxh3": "ef" * 16,
    "values_xxh3": "ab" * 16,
    "variable_rate": False,
    "versions": {"numpy": "1.26.4"},
    "voxels": 50,
    "width": 48,
    "bytes": 1234,
}


def row_of(record=None, settings=None, **table):
    row = {"video_id": "v_a", "split": "train", **table}
    verdicts = Verdicts({"v_a": ({**RECORD, **(record or {})}, {"sha256": "cd" * 32})}, ())
    (found,) = manifest_rows([row], verdicts, settings or ManifestSettings())
    return found


def test_row_holds_the_formats_fields():
    found = row_of(
        class_label="Ballet", annotated_seconds="10.5", captions='[[0,4.5," She runs. "],[3,20,"She threw it."]]', annotation_flags="caption_past_end"
    )
    assert as_record(found) == {
        "video_id": "v_a",
        "split": "train",
        "class_label": "Ballet",
        "class_labels": ("Ballet",),
        "duration_seconds": 10.0,
        "duration_source": "src_fmt_dur",
        "frames_seconds": 10.0,
        "duration_bucket": "short",
        "event_friendly": True,
        "event_keyword_hits": ("run", "throw"),
        "first_frame_mean": 0.4,
        "dark_first_frame": False,
        "fps": 25.0,
        "fps_num": 25,
        "fps_den": 1,
        "frames": 250,
        "frames_reported": 250,
        "voxels": 50,
        "height": 32,
        "width": 48,
        "rotation_deg": 0,
        "clipped": 0,
        "bytes": 1234,
        "sha256": "cd" * 32,
        "file_xxh3": "ef" * 16,
        "values_xxh3": "ab" * 16,
        "annotated_seconds": 10.5,
        "timestamps": ((0, 4.5), (3, 20)),
        "sentences": (" She runs. ", "She threw it."),
        "flags": ("caption_past_end",),
    }


def test_dark_is_strictly_below_and_by_this_runs_setting():
    assert not row_of().dark_first_frame
    assert row_of({"first_frame_mean": 0.39999}).dark_first_frame
    assert row_of(settings=ManifestSettings(dark_below=0.41)).dark_first_frame


def test_duration_is_the_containers_and_frames_over_fps_where_it_states_none():
    found = row_of({"duration_seconds": None, "fps_num": 30000, "fps_den": 1001, "frames": 300})
    assert (found.duration_seconds, found.duration_source, found.flags) == (10.01, "frames_over_fps", ("no_container_duration",))


def test_every_oddity_of_a_video_has_its_flag():
    odd = {"clipped": 1, "decode_errors": 2, "duration_mismatch": True, "fps_source": "container", "gaps": [{"kind": "jump"}], "rotation_deg": 90}
    found = row_of({**odd, "variable_rate": True}, annotated_seconds="12")
    assert found.flags == tuple(
        flag
        for flag in FLAGS
        if flag in "annotated_duration_mismatch clipped decode_errors duration_mismatch fps_not_opencv gaps rotated variable_rate".split()
    )
    assert row_of(annotated_seconds="11").flags == ()


def test_no_captions_are_missing_and_an_empty_list_is_empty():
    assert (row_of().sentences, row_of().timestamps, row_of(captions="[]").sentences) == (None, None, ())


@pytest.mark.parametrize(
    "table", [{"captions": "[[0,1]]"}, {"captions": "[[0,1,2]]"}, {"captions": "x"}, {"annotated_seconds": "long"}, {"annotation_flags": "odd"}]
)
def test_annotation_that_cannot_be_read_is_named(table):
    with pytest.raises(DataError, match=r"'v_a'.*\[bad_table\]"):
        row_of(**table)


TEXT = st.one_of(
    st.sampled_from([*HARD, "", " ", ",", '"', "\n", "\r", "\r\n", "\u2028", "\x85", "\u00e9\U0001f600", "'"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0")),
)
# pandas' JSON reader refuses numbers below 2.3e-308
REAL = st.floats(0, 1e9, allow_subnormal=False)
SECONDS = st.one_of(REAL, REAL.map(lambda value: -value), st.integers(0, 10**6))
WHOLE = st.integers(0, 2**53)
ROWS = st.builds(
    lambda **parts: replace(ROW, **parts),
    video_id=st.sampled_from(HARD),
    class_label=TEXT,
    class_labels=st.lists(TEXT, max_size=3).map(tuple),
    duration_seconds=REAL,
    first_frame_mean=REAL,
    event_friendly=st.booleans(),
    frames=WHOLE,
    frames_reported=st.one_of(st.none(), WHOLE),
    annotated_seconds=st.one_of(st.none(), REAL),
    timestamps=st.one_of(st.none(), st.lists(st.tuples(SECONDS, SECONDS), max_size=3).map(tuple)),
    sentences=st.one_of(st.none(), st.lists(TEXT, max_size=3).map(tuple)),
)


def plain(value):
    """Return a value that pandas gave as JSON has it: lists for tuples, None for what is missing."""
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if value is None or value != value or type(value).__name__ == "NAType" else value


@given(st.lists(ROWS, max_size=12))
@hypothesis_settings(max_examples=20)
def test_csv_and_jsonl_read_back_as_what_was_written(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("m")
    csv, jsonl = folder / "m.csv", folder / "m.jsonl"
    write_table(csv, tuple(KINDS), map(as_cells, rows))
    write_jsonl(jsonl, map(as_record, rows))
    expected = [{name: plain(value) for name, value in asdict(row).items()} for row in rows]
    for path in (csv, jsonl):
        frame = read_manifest(path)
        assert list(frame) == list(KINDS)
        found = [{name: plain(value) for name, value in record.items()} for record in frame.to_dict("records")]
        assert found == expected, path.suffix
        assert [[type(part[0]) for part in row["timestamps"] or ()] for row in found] == [
            [type(part[0]) for part in row["timestamps"] or ()] for row in expected
        ]
    check_equal(csv, jsonl)
    assert (
        [dict(row) for row in read_table(csv, "video_id")] == [dict(as_cells(row)) for row in rows]
        if len({row.video_id for row in rows}) == len(rows)
        else True
    )
    shutil.rmtree(folder)


def test_lines_in_the_docs_read_both_forms(tmp_path):
    rows = [replace(ROW, video_id=key, class_label=key, first_frame_mean=0.013196291190087146, frames_reported=None) for key in HARD]
    write_table(tmp_path / "large.csv", tuple(KINDS), map(as_cells, rows))
    write_jsonl(tmp_path / "large.jsonl", map(as_record, rows))
    (code,) = [part for part in (ROOT / "docs/events_format.md").read_text().split("```python\n") if "import pandas" in part]
    shown = "\nprint(*from_csv['class_label'], from_csv['first_frame_mean'][0], *sorted(set(from_csv) - set(dtypes) - set(lists)))"
    done = subprocess.run([sys.executable, "-c", code.partition("```")[0] + shown], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [*HARD, "0.013196291190087146", "dark_first_frame", "event_friendly"], done.stderr


@pytest.mark.parametrize("change", [{"class_label": "NA "}, {"first_frame_mean": 0.5000000000000001}, {"sentences": ("a",)}, {"frames_reported": None}])
def test_planted_difference_between_csv_and_jsonl_is_found(tmp_path, change):
    write_table(tmp_path / "m.csv", tuple(KINDS), [as_cells(replace(ROW, class_label="NA", sentences=("b",)))])
    write_jsonl(tmp_path / "m.jsonl", [as_record(replace(ROW, **{"class_label": "NA", "sentences": ("b",), **change}))])
    with pytest.raises(Fault, match=next(iter(change))):
        check_equal(tmp_path / "m.csv", tmp_path / "m.jsonl")


def test_every_column_has_a_kind():
    assert {kind: [name for name, its in KINDS.items() if its == kind] for kind in ("truth", "JSON")} == {
        "truth": ["event_friendly", "dark_first_frame"],
        "JSON": ["class_labels", "event_keyword_hits", "timestamps", "sentences", "flags"],
    }
    assert [KINDS[name] for name in ("video_id", "frames_reported", "annotated_seconds", "bytes")] == ["text", "whole number", "number", "whole number"]


def test_quarantine_row_tells_nothing_of_the_machine():
    row = {
        "id": "a,b",
        "code": "source_changed",
        "step": "voxelize_events",
        "where": "/home/me/v/a.mp4",
        "found": "3 bytes, time 17",
        "expected": "4 bytes, time 16 as in the table",
        "hint": "h",
    }
    assert quarantine_cells(row) == {
        "video_id": "a,b",
        "reason": "source_changed",
        "step": "voxelize_events",
        "frames_reported": "",
        "frames_decoded": "",
        "where": "a.mp4",
        "found": "3 bytes",
        "expected": "4 bytes as in the table",
        "hint": "h",
    }


class Stage:
    """Shard manifests of both steps, made by hand: 40 videos that pass, one refused by each step."""

    def __init__(self, folder: Path, work_shards: int, backwards: bool = False) -> None:
        self.folder, self.work_shards = folder, work_shards
        ids = [*HARD, *(f"v_{n}" for n in range(29)), "bad video", "spoilt"]
        rows = [dict.fromkeys(COLUMNS, "1") | {"video_id": key, "split": ("train", "validation")[len(key) % 2]} for key in ids]
        rows = [{**row, "class_label": f"label {n % 3}", "captions": '[[0,1,"A man runs."]]', "annotation_flags": ""} for n, row in enumerate(rows)]
        folder.mkdir()
        write_table(folder / "videos.csv", tuple(rows[0]), reversed(rows) if backwards else rows)
        place = events_place(folder / "events")
        for shard, members in split_rows(rows, "video_id", work_shards).items():
            both = [self.rows_of(row["video_id"]) for row in (reversed(members) if backwards else members)]
            for step, of_step in zip(("voxelize_events", "validate_events"), zip(*both, strict=True), strict=True):
                write_jsonl(place.manifest(step, shard, "key"), of_step)

    def rows_of(self, key: str):
        refused = {"status": "quarantined", "where": "x", "found": "f", "expected": "e", "hint": "h", "id": key}
        made = {**RECORD, "id": key, "status": "ok", "code": "ok", "first_frame_mean": 0.9}
        if key == "bad video":
            return {**refused, "code": "bad_id"}, {"id": key, "status": "upstream", "code": "bad_id", "step": "voxelize_events"}
        validated = {"id": key, "status": "ok", "code": "ok", "sha256": hashlib.sha256(key.encode()).hexdigest()}
        return made, {**refused, "code": "invalid_hdf5"} if key == "spoilt" else validated

    def command(self, *flags: str) -> list[str]:
        where = (f"--table={self.folder / 'videos.csv'}", f"--stage={self.folder / 'events'}", f"--release={self.folder / 'release'}")
        return [*SCRIPT, *where, f"--work-shards={self.work_shards}", *flags]

    def write(self, *flags: str) -> dict[str, bytes]:
        done = subprocess.run(self.command(*flags), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return self.files()

    def files(self) -> dict[str, bytes]:
        release = self.folder / "release"
        return {path.relative_to(release).as_posix(): path.read_bytes() for path in sorted(release.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("q") / "s", 4)
    stage.write()
    return stage


NAMES = [
    *("manifests/large.csv", "manifests/large.jsonl", "manifests/medium.csv", "manifests/medium.jsonl", "manifests/small.csv", "manifests/small.jsonl"),
    *("metadata/LICENSE_NOTES.md", "metadata/dataset_description.json", "metadata/quarantine.csv", "metadata/scales.json"),
    *("scales/medium_ids.txt", "scales/small_ids.txt"),
]


def test_release_holds_these_files(quiet):
    assert list(quiet.files()) == NAMES


def test_every_video_is_in_large_or_in_quarantine(quiet):
    large = {row["video_id"] for row in read_jsonl(quiet.folder / "release/manifests/large.jsonl")}
    refused = read_table(quiet.folder / "release/metadata/quarantine.csv", "video_id")
    assert [(row["video_id"], row["reason"], row["step"], row["frames_decoded"]) for row in refused] == [
        ("bad video", "bad_id", "voxelize_events", ""),
        ("spoilt", "invalid_hdf5", "validate_events", "250"),
    ]
    assert large == {row["video_id"] for row in read_table(quiet.folder / "videos.csv", "video_id")} - {"bad video", "spoilt"}


def test_scales_are_sorted_nested_and_agree_with_their_manifests(quiet):
    large = [row["video_id"] for row in read_jsonl(quiet.folder / "release/manifests/large.jsonl")]
    assert large == sorted(large)
    above = set(large)
    for name, share in (("medium", 0.3), ("small", 0.1)):
        data = (quiet.folder / f"release/scales/{name}_ids.txt").read_bytes()
        ids = data.decode().split("\n")[:-1]
        assert data.endswith(b"\n") and b"\r" not in data and ids == sorted(ids) and set(ids) <= above
        assert ids == [row["video_id"] for row in read_jsonl(quiet.folder / f"release/manifests/{name}.jsonl")]
        # the fraction to 13 digits is enough: none of these ids lies that near to a share
        assert ids == [key for key in large if int(hashlib.sha256(key.encode()).hexdigest()[:13], 16) / 16**13 < share]
        above = set(ids)
    assert above


def test_description_names_every_other_file_with_its_digest(quiet):
    files = quiet.files()
    description = read_json(quiet.folder / "release/metadata/dataset_description.json")
    assert description["files"] == {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items() if name != "metadata/dataset_description.json"
    }
    assert description["counts"]["videos"] == 40 and description["counts"]["frames"] == 40 * 250 and description["counts"]["quarantined"] == 2
    assert description["settings"]["voxels"]["gamma"] == 2.2 and description["libraries"] == {"numpy": ["1.26.4"]}


@pytest.mark.parametrize(("work_shards", "backwards"), [(1, False), (4, True), (9, True)])
def test_any_order_and_any_number_of_shards_gives_the_same_bytes(quiet, tmp_path, work_shards, backwards):
    assert Stage(tmp_path / "s", work_shards, backwards).write() == quiet.files()


def test_changed_caption_changes_its_row(quiet, tmp_path):
    stage = Stage(tmp_path / "s", 4)
    table = stage.folder / "videos.csv"
    table.write_text(table.read_text().replace("A man runs.", "A man sits.", 1))
    stage.write()
    old, new = (read_jsonl(it.folder / "release/manifests/large.jsonl") for it in (quiet, stage))
    (changed,) = [(before, after) for before, after in zip(old, new, strict=True) if before != after]
    assert (changed[0]["event_friendly"], changed[1]["event_friendly"], changed[1]["sentences"]) == (True, False, ["A man sits."])


def test_earlier_files_are_replaced_and_foreign_ones_left(quiet, tmp_path):
    stage = Stage(tmp_path / "s", 4)
    release = stage.folder / "release"
    stage.write("--medium-share=1", "--small-share=0.9", "--title=Old")
    (release / "metadata" / ".scales.json.0123456789ab.tmp").write_text("half")
    (release / "metadata" / "shards_train.json").write_text("{}")  # of the old manifests: must not be taken for one of the new
    (release / "scales" / "mine.txt").write_text("mine")
    assert stage.write() == {**quiet.files(), "scales/mine.txt": b"mine"}


def test_id_without_a_verdict_is_a_fault_and_nothing_is_written(tmp_path):
    stage = Stage(tmp_path / "s", 4)
    next(stage.folder.glob(f"events/shards/validate_events/{shard_of('v_1', 4)}.key.jsonl")).write_text("")
    done = subprocess.run(stage.command(), capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "[manifest_mismatch]" in done.stderr and not stage.files()


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: kills at an exact system call are not tried")
@pytest.mark.parametrize("when", [1, 8, 12])
def test_kill_at_any_rename_then_the_same_command_gives_the_same_bytes(quiet, tmp_path, when):
    stage = Stage(tmp_path / "s", 4)
    done = strace(stage.command(), f"rename:signal=KILL:when={when}")
    assert done.returncode != 0, "the kill was not hit"
    assert "metadata/dataset_description.json" not in stage.files()
    assert stage.write() == quiet.files()


def test_one_mark_says_for_what_the_release_is_made(tmp_path):
    stage = Stage(tmp_path / "s", 4)
    for key in ("0" * 16, "1" * 16):
        stage.write(f"--key={key}")
        assert [path.name for path in (stage.folder / "events" / ".release").iterdir()] == [key]


def test_description_is_taken_away_before_anything_changes(quiet, tmp_path):
    stage = Stage(tmp_path / "s", 4)
    stage.write()
    if shutil.which("strace"):
        strace(stage.command("--title=New"), "rename:signal=KILL:when=2")
        assert "metadata/dataset_description.json" not in stage.files()
