"""Members of a set: what a row keeps of a sample, what makes it planned again, and ids that must not meet."""

from pathlib import Path

import pytest

from shardwork.errors import DataError
from tests.vidlatents.pairs import minimal, sample_of, settings_of, write_records
from vidlatents.members import check_ids, fields_of, record_members, sample_from
from vidlatents.records import read_records

ROOTS = {"records": (Path("/d/videos"), Path("/d/control_videos"))}
SAMPLE = sample_of(Path("/d"), frames=33, size=(16, 24), cut=(2, 40), crop=(1, 25, 3, 19), source={"x": 1})


def members(tmp_path, *records):
    return record_members(read_records(write_records(tmp_path / "r.jsonl", records), settings_of()))


def test_a_row_holds_a_sample_with_its_videos_relative_to_their_own_roots():
    assert fields_of(SAMPLE, "records", ROOTS) == {
        "uttid": "a",
        "prompt": "p",
        "bucket_key": "b",
        "num_frame": 33,
        "height": 16,
        "width": 24,
        "source": "records",
        "video": "a.mp4",
        "control": "a.mp4",
        "cut": [2, 40],
        "crop": [1, 25, 3, 19],
    }


@pytest.mark.parametrize("sample", [SAMPLE, sample_of(Path("/d"), "b", source={"x": 1})], ids=["cut and crop", "neither"])
def test_a_sample_comes_back_from_its_row(sample):
    assert sample_from(fields_of(sample, "records", ROOTS), ROOTS, {"x": 1}) == sample


def test_the_two_videos_of_a_row_are_told_apart():
    sample = sample_from({**fields_of(SAMPLE, "records", ROOTS), "video": "v/a.mkv", "control": "c/a.mkv"}, ROOTS)
    assert (str(sample.video), str(sample.control)) == ("/d/videos/v/a.mkv", "/d/control_videos/c/a.mkv")


@pytest.mark.parametrize("change", [{"prompt": "a blue car"}, {"cut": [1, 50]}, {"crop": [0, 8, 0, 8]}, {"path": "x.mp4", "control_path": "y.mp4"}])
def test_a_record_that_changed_under_its_name_is_planned_again(tmp_path, change):
    before, after = (members(tmp_path, record)[0].row() for record in (minimal(), minimal(**change)))
    assert before["id"] == after["id"] and before["digest"] != after["digest"]


def test_of_records_of_one_name_none_is_taken_and_their_ids_differ(tmp_path):
    found = members(tmp_path, minimal("a"), minimal("b"), minimal("a", prompt="other"))
    assert [(one.verdict or {}).get("code") for one in found] == ["E_DUP_OUTPUT", None, "E_DUP_OUTPUT"]
    assert len({one.id for one in found}) == 3


def test_a_record_with_the_id_of_an_own_video_is_refused():
    rows = [{"id": "v", "source": "events"}, {"id": "v", "source": "records"}]
    with pytest.raises(DataError, match="duplicate_id"):
        check_ids(rows)
    assert check_ids(rows[:1]) == rows[:1]
