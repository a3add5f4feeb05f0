"""Annotations join by id, nothing is lost or mended, and what is odd is flagged."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventvox.annotations import Captions, join_annotations, read_actions, read_captions
from shardwork.errors import DataError
from shardwork.tables import read_table

ROOT = Path(__file__).resolve().parents[2]
CAPTIONS = {
    "v_a": {"duration": 10.5, "timestamps": [[0, 4.82], [3.5, 12.0]], "sentences": ["A dog runs.", ' It jumps, "high"\nand far.']},
    "v_b": {"duration": 5, "timestamps": [[3, 2], [-1, 1], [2, 2]], "sentences": ["\u8dd1", "x", "  "]},
    "v_c": {"duration": 7.0, "timestamps": [], "sentences": []},
    "v_v_UmAH95xls": {"duration": 1.5, "timestamps": [[0, 1]], "sentences": ["NA"]},
    "v_lost": {"duration": 1.0, "timestamps": [[0, 1]], "sentences": ["No video."]},
}
ACTIONS = {
    "v_a": {"duration_second": 10.4, "annotations": [{"segment": [1, 2], "label": "Ballet"}, {"segment": [3, 11], "label": "Ballet"}]},
    "v_b": {"duration_second": 5.2, "annotations": [{"segment": [2, 1], "label": "NA"}, {"segment": [3, 4], "label": "Camel ride"}]},
    "v_c": {"duration_second": 7.0, "annotations": []},
}


def write(path, value):
    data = json.dumps(value).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rows_of(*ids):
    return [{"video_id": key, "path": f"{key}.mp4"} for key in ids]


def joined(tmp_path, *ids, captions=CAPTIONS, actions=ACTIONS):
    return join_annotations(rows_of(*ids), read_captions([write(tmp_path / "c.json", captions)]), read_actions(write(tmp_path / "a.json.gz", actions)))


def test_annotations_stand_in_the_table_as_the_source_has_them(tmp_path):
    (row,) = joined(tmp_path, "v_a").rows
    assert json.loads(row["captions"]) == [[0, 4.82, "A dog runs."], [3.5, 12.0, ' It jumps, "high"\nand far.']]
    assert (row["class_label"], row["class_labels"], row["annotated_seconds"]) == ("Ballet", "", "10.5")


def test_each_oddity_has_its_flag(tmp_path):
    flags = {row["video_id"]: row["annotation_flags"] for row in joined(tmp_path, "v_a", "v_b", "v_c", "v_none").rows}
    assert flags == {
        "v_a": "caption_blank_edges caption_line_break caption_past_end segment_past_end",
        "v_b": "caption_blank caption_negative caption_reversed caption_zero_length duration_disagrees segment_reversed several_labels",
        "v_c": "no_captions no_label",
        "v_none": "no_captions no_label",
    }


def test_several_labels_are_all_kept_and_the_first_leads(tmp_path):
    (row,) = joined(tmp_path, "v_b").rows
    assert (row["class_label"], json.loads(row["class_labels"])) == ("NA", ["NA", "Camel ride"])


def test_missing_prefix_is_counted_and_never_changes_the_id(tmp_path):
    found = joined(tmp_path, "a", "v_UmAH95xls", "v_b")
    assert [row["video_id"] for row in found.rows] == ["a", "v_UmAH95xls", "v_b"]
    assert (found.matched, found.prefixed, found.without, found.unused) == (3, ("a", "v_UmAH95xls"), (), ("v_c", "v_lost"))


def test_annotation_goes_to_the_exact_id_alone(tmp_path):
    found = joined(tmp_path, "a", "v_a")
    assert (found.matched, found.prefixed, found.without) == (1, (), ("a",))


def test_annotation_without_prefix_finds_the_video_with_it(tmp_path):
    found = joined(tmp_path, "v_x", captions={"x": CAPTIONS["v_a"]}, actions={})
    assert found.prefixed == ("v_x",) and found.rows[0]["annotated_seconds"] == "10.5"


def test_official_form_is_known_by_its_database(tmp_path):
    official = {"version": "1.3", "database": {"a": {"subset": "training", "duration": 10.4, "annotations": ACTIONS["v_a"]["annotations"]}}}
    assert read_actions(write(tmp_path / "o.json", official)) == {"v_a": read_actions(write(tmp_path / "a.json", ACTIONS))["v_a"]}


def test_captions_of_two_files_stand_in_a_row_with_a_flag(tmp_path):
    paths = [write(tmp_path / name, {"v_a": {"duration": 2.0, "timestamps": [[0, 1]], "sentences": [name]}}) for name in ("1.json", "2.json")]
    assert read_captions(paths) == {"v_a": Captions(2.0, ((0, 1, "1.json"), (0, 1, "2.json")), frozenset({"several_caption_files"}))}
    with pytest.raises(DataError, match="named twice"):
        read_captions([paths[0], paths[0]])


def test_kind_that_is_not_given_keeps_its_columns(tmp_path):
    first = joined(tmp_path, "v_a", "v_b").rows
    again = join_annotations(first, read_captions([write(tmp_path / "c.json", CAPTIONS)]), None).rows
    assert again == first
    emptied = join_annotations(first, {}, None).rows
    assert [(row["captions"], row["class_label"], row["annotation_flags"]) for row in emptied] == [
        ("", "Ballet", "no_captions segment_past_end"),
        ("", "NA", "duration_disagrees no_captions segment_reversed several_labels"),
    ]


BAD = [
    ({"v": {"duration": 1, "timestamps": [[0, 1]], "sentences": []}}, "do not pair"),
    ({"v": {"timestamps": [], "sentences": []}}, "no duration"),
    ({"v": {"duration": "1", "timestamps": [], "sentences": []}}, "'1'"),
    ({"v": {"duration": True, "timestamps": [], "sentences": []}}, "True"),
    ({"v": {"duration": 10**400, "timestamps": [], "sentences": []}}, "a number of seconds"),
    ({"v": {"duration": 1, "timestamps": [[0]], "sentences": ["x"]}}, r"\[start seconds, end seconds\]"),
    ({"v": {"duration": 1, "timestamps": [[0, 1]], "sentences": [None]}}, "Unicode text"),
    ({"v": {"duration": 1, "timestamps": [[0, 1]], "sentences": ["\ud800"]}}, "Unicode text"),
    ([], "a list"),
]


@pytest.mark.parametrize(("value", "said"), BAD)
def test_broken_captions_are_refused_with_their_place(tmp_path, value, said):
    with pytest.raises(DataError, match=said) as error:
        read_captions([write(tmp_path / "c.json", value)])
    assert error.value.code == "bad_annotations" and "c.json" in error.value.where


def test_cut_gzip_nan_and_an_id_twice_are_refused(tmp_path):
    cut = tmp_path / "c.json.gz"
    cut.write_bytes(gzip.compress(b'{"v": 1}' * 99)[:20])
    with pytest.raises(DataError, match=r"\[bad_annotations\]"):
        read_captions([cut])
    for text in ('{"v": {"duration": NaN}}', '{"v": {}, "v": {}}'):
        (tmp_path / "c.json").write_text(text)
        with pytest.raises(DataError, match=r"\[bad_json\]"):
            read_captions([tmp_path / "c.json"])


def make_table(folder, *flags):
    line = [sys.executable, str(ROOT / "scripts/make_video_table.py"), f"--videos={folder / 'videos'}", f"--out={folder / 'videos.csv'}", "--no-headers"]
    return subprocess.run([*line, *flags], capture_output=True, text=True, check=True).stdout


def test_command_reports_the_join_and_keeps_it_when_run_again(tmp_path):
    (tmp_path / "videos").mkdir()
    for name in ("v_a", "b", "other"):
        (tmp_path / "videos" / f"{name}.mp4").write_bytes(b"x")
    captions, actions = write(tmp_path / "c.json", CAPTIONS), write(tmp_path / "a.json", ACTIONS)
    said = make_table(tmp_path, "--captions", str(captions), "--actions", str(actions))
    assert "annotations: 2 videos found, 1 without, 3 annotated ids without a video" in said
    assert "1 found only with v_ put before or taken off, such as 'b'" in said and "  no_label: 1\n" in said
    first = read_table(tmp_path / "videos.csv", "video_id")
    (tmp_path / "videos" / "new.mp4").write_bytes(b"x")
    assert "1 new videos have no annotations yet" in make_table(tmp_path)
    assert [row for row in read_table(tmp_path / "videos.csv", "video_id") if row["video_id"] != "new"] == first
    assert first[2]["class_label"] == "Ballet"


@pytest.fixture(scope="module")
def activitynet():
    root = os.environ.get("REELMILL_DATAPACK")
    if not root:
        pytest.skip("REELMILL_DATAPACK is not set: no real annotations")
    return Path(root) / "metadata" / "activitynet"


def test_all_real_ids_join_without_a_loss(activitynet):
    paths = [activitynet / f"captions_{name}.json.gz" for name in ("train", "val_1")]
    captions, actions = read_captions(paths), read_actions(activitynet / "anet_anno_action.json.gz")
    sources = {key: record for path in paths for key, record in json.loads(gzip.decompress(path.read_bytes())).items()}
    assert (len(captions), len(actions), len(captions.keys() & actions.keys())) == (14926, 19228, 14357)
    found = join_annotations(rows_of(*sorted(captions.keys() | actions.keys())), captions, actions)
    assert (found.matched, found.prefixed, found.without, found.unused) == (19797, (), (), ())
    for row in found.rows:
        if row["captions"]:
            source = sources[row["video_id"]]
            assert json.loads(row["captions"]) == [[*time, sentence] for time, sentence in zip(source["timestamps"], source["sentences"], strict=True)]
    known = set((activitynet / "action_name.csv").read_text().splitlines()[1:])
    assert {row["class_label"] for row in found.rows} - known == {""}
    # counted by a separate script over the raw files
    assert {flag: found.flags[flag] for flag in ("caption_past_end", "caption_reversed", "caption_zero_length", "several_labels", "segment_past_end")} == {
        "caption_past_end": 346,
        "caption_reversed": 2,
        "caption_zero_length": 2,
        "several_labels": 11,
        "segment_past_end": 215,
    }
    assert (found.flags["caption_blank_edges"], found.flags["no_captions"], found.flags["duration_disagrees"]) == (14117, 4871, 1)


def test_real_ids_without_their_prefix_join_too(activitynet):
    captions = read_captions([activitynet / "captions_val_1.json.gz"])
    found = join_annotations(rows_of(*(key.removeprefix("v_") for key in captions)), captions, None)
    assert (found.matched, len(found.prefixed), found.unused) == (4917, 4917, ())


def test_joined_subset_agrees(activitynet):
    captions = read_captions([activitynet / f"captions_{name}.json.gz" for name in ("train", "val_1")])
    actions = read_actions(activitynet / "anet_anno_action.json.gz")
    records = [json.loads(line) for line in (activitynet / "joined_subset.jsonl").read_bytes().split(b"\n") if line]
    rows = join_annotations(rows_of(*(record["video_id"] for record in records)), captions, actions).rows
    assert len(rows) > 100
    for record, row in zip(records, rows, strict=True):
        told = json.loads(row["captions"])
        assert (row["class_label"], [it[:2] for it in told]) == (record["class_label"], record["timestamps"])
