"""The plan: what is encoded, dropped, ignored and refused, known before a model is loaded."""

from __future__ import annotations

import json
import os
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from shardwork.jsonio import dumps
from shardwork.step import Item
from tests.vidlatents.pairs import full, minimal, sample_of, settings_of, write_pair, write_records
from vidlatents.codes import SampleRefused
from vidlatents.members import fields_of
from vidlatents.plan import Plan, PlanSettings, make_plan, plan_sample, report
from vidlatents.plan_step import plan_step
from vidlatents.read import Probe
from vidlatents.records import parse_record, read_records
from vidlatents.settings import SetSettings

DATAPACK = os.environ.get("REELMILL_DATAPACK", "")
DEFAULT = PlanSettings()
SEEN = Probe(200, 480, 1920, Fraction(30), 200)


def planned(*records, look=lambda sample: (SEEN, SEEN), settings=DEFAULT, refused=(), layout="sections", **more):
    samples = [(f"r:{line}", parse_record(record, settings_of(layout=layout), f"r:{line}")) for line, record in enumerate(records, 1)]
    return make_plan(samples, refused, settings, probe=look, **more)


def row_of(record, **more):
    (row,) = planned(record, **more).rows
    return row


def test_a_good_plan_exits_0():
    assert planned(minimal()).exit_code == 0


def test_a_plan_with_a_refused_record_exits_2():
    assert planned(minimal(), refused=[SampleRefused("E_JSON", "r:9", "x", "y")]).exit_code == 2


def test_what_an_earlier_step_refused_is_no_bad_input():
    plan = planned(minimal(), upstream=[{"id": "v", "status": "upstream", "code": "truncated", "step": "voxelize_events"}])
    assert plan.exit_code == 0 and plan.facts()["codes"] == {"truncated": 1}


@pytest.mark.parametrize(("frames", "used", "dropped", "sections"), [(49, 33, 16, 1), (50, 33, 17, 1), (121, 99, 22, 3), (129, 99, 30, 3)])
def test_a_row_tells_the_frames_that_are_used_and_dropped(frames, used, dropped, sections):
    row = row_of(minimal(frames=frames))
    assert (row["used"], row["dropped"], row["sections"]) == (used, dropped, sections)


def test_a_row_tells_the_frames_that_no_bucket_reads():
    assert row_of(full())["unread"] == 130 - 121


def starts_of(records, seed, start="drawn"):
    rows = planned(*records, settings=PlanSettings(start=start, seed=seed)).rows
    return {row["uttid"]: row["start"] for row in rows}


def test_a_sample_begins_with_the_first_frame_of_its_cut():
    assert row_of(full())["start"] == 10


def test_a_drawn_start_depends_on_seed_and_uttid_alone():
    records = [minimal(f"u{index}", cut=[20, 180]) for index in range(30)]
    assert starts_of(records, 3) == starts_of(records[::-1], 3) != starts_of(records, 4)


def test_a_drawn_start_leaves_room_for_the_bucket():
    starts = starts_of([minimal(f"u{index}", cut=[20, 71]) for index in range(60)], 0).values()
    assert set(starts) == {20, 21, 22}


def test_a_row_names_the_file():
    assert row_of(full())["name"] == "clip_1_10-140_121_480_1920.pt"


def test_a_file_of_fewer_than_121_frames_is_told_as_ignored():
    assert [planned(minimal(frames=frames)).facts()["ignored"] for frames in (120, 121)] == [{"frames": 1}, {}]


def test_a_size_that_the_trainer_does_not_take_is_told_as_ignored():
    assert planned(minimal(frames=121), settings=PlanSettings(trainer_sizes=((384, 640),))).facts()["ignored"] == {"size": 1}


def test_the_layout_whole_is_told_as_ignored():
    assert planned(minimal(frames=121), layout="whole", settings=PlanSettings(layout="whole")).facts()["ignored"] == {"layout": 1}


def test_a_container_that_claims_other_frames_is_noted():
    claims = Probe(200, 480, 1920, Fraction(30), 444)
    assert row_of(minimal(), look=lambda sample: (claims, SEEN))["notes"] == ["video: 200 frames decoded, 444 stated by the container"]


@pytest.mark.parametrize(
    ("change", "word"), [({"num_frames": 363}, "363 frames"), ({"fps": 24.0}, "24 frames a second"), ({"resolution": {"height": 1, "width": 2}}, "1x2 stated")]
)
def test_a_record_that_states_something_else_is_noted(change, word):
    (note,) = row_of(full(**change))["notes"]
    assert word in note


def test_a_record_that_states_what_is_so_has_no_note():
    assert row_of(full())["notes"] == []


@pytest.mark.parametrize(("crop", "resized"), [(None, True), ([0, 640, 0, 480], False), ([0, 320, 0, 240], True)])
def test_a_resize_is_told(crop, resized):
    record = {**minimal(frames=121, height=480, width=640), "crop": crop}
    assert row_of(record)["resized"] == resized


def test_a_pair_that_is_refused_has_code_uttid_path_and_place():
    def look(sample):
        raise SampleRefused("E_CONTROL_MISSING", "x.mp4", "no such file", "a video", path="x.mp4")

    row = row_of(minimal("u"), look=look)
    assert (row["code"], row["uttid"], row["path"], row["where"], bool(row["hint"])) == ("E_CONTROL_MISSING", "u", "x.mp4", "r:1: x.mp4", True)


def test_one_bad_pair_leaves_the_others_planned():
    def look(sample):
        if sample.uttid == "b":
            raise SampleRefused("E_DECODE", "b.mp4", "0 bytes", "a video")
        return SEEN, SEEN

    assert [row["status"] for row in planned(minimal("a"), minimal("b"), minimal("c"), look=look).rows] == ["ok", "quarantined", "ok"]


def test_a_fault_of_the_machine_is_no_verdict():
    def look(sample):
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        planned(minimal(), look=look)


def test_duplicates_are_refused_before_a_video_is_opened():
    plan = planned(minimal("A"), minimal("a"), look=lambda sample: pytest.fail("opened"))
    assert [row["code"] for row in plan.rows] == ["E_DUP_OUTPUT"] * 2 and len({row["id"] for row in plan.rows}) == 2


def test_a_plan_does_not_depend_on_the_order_of_its_records():
    records = [minimal(f"u{index}") for index in range(6)]
    first, second = (planned(*some, settings=PlanSettings(work_shards=3)).facts() for some in (records, records[::-1]))
    assert dumps(first) == dumps(second)


def test_an_added_sample_moves_no_other_to_another_shard():
    records = [minimal(f"u{index}") for index in range(40)]
    few, more = (planned(*some, settings=PlanSettings(work_shards=5)).shards for some in (records[:20], records))
    assert all(set(ids) <= set(more[name]) for name, ids in few.items())


def test_every_sample_is_in_one_shard():
    plan = planned(*(minimal(f"\u89c6\u9891 {index}") for index in range(30)), settings=PlanSettings(work_shards=4))
    assert sorted(one for ids in plan.shards.values() for one in ids) == [row["id"] for row in plan.rows]


def test_a_plan_holds_no_absolute_path(tmp_path):
    write_pair(tmp_path, "u")
    path = write_records(tmp_path / "r.jsonl", [minimal("u", 49, 48, 64), minimal("none", 49, 48, 64), {}])
    records = read_records(path, settings_of(tmp_path))
    plan = make_plan(records.samples, records.refused, PlanSettings())
    assert str(tmp_path) not in json.dumps(plan.facts()) + report(plan)
    assert plan.facts()["codes"] == {"E_VIDEO_MISSING": 1, "E_FIELD": 1}


def test_the_report_says_what_is_dropped_ignored_and_refused():
    text = report(planned(minimal(frames=49), minimal("b", 121), refused=[SampleRefused("E_JSON", "r:9", "a list", "one JSON object")]))
    assert "3 samples: 2 to encode, 1 refused" in text
    assert "38 of 170 bucket frames are dropped" in text
    assert "1 samples would be ignored: the public trainer skips files of fewer than 121 frames" in text
    assert "refused: r:9: a list, expected one JSON object" in text and "[E_JSON]" in text


def test_the_report_gives_each_bucket_its_shape():
    assert "bucket 121x480x1920 (frames x height x width): 1 samples, 99 frames used, 22 dropped; 3x16x9x60x240" in report(planned(minimal(frames=121)))


def test_an_id_in_the_report_cannot_break_its_line():
    claims = Probe(200, 480, 1920, Fraction(30), 201)
    text = report(planned(minimal("a\u2028refused: b"), look=lambda sample: (claims, SEEN)))
    assert not any(line.startswith("refused") for line in text.splitlines())


def test_a_longer_list_of_refusals_is_counted():
    errors = [SampleRefused("E_JSON", f"r:{line}", "x", "y") for line in range(30)]
    assert "and 10 more: {'E_JSON': 30}" in report(planned(refused=errors))


def test_whole_refuses_50_frames_at_the_plan_too(tmp_path):
    with pytest.raises(SampleRefused, match="E_FRAMES_4N1"):
        plan_sample(sample_of(tmp_path, frames=50), (SEEN, SEEN), PlanSettings(layout="whole"))


def test_a_rate_beyond_any_float_is_noted():
    assert row_of(full(fps=10**400))["notes"] == ["record: a rate stated that no video has"]


@pytest.mark.parametrize(("same", "notes"), [(True, ["control: the very RGB video"]), (False, [])])
def test_a_control_video_that_is_the_rgb_video_is_noted_and_counted_and_planned_all_the_same(tmp_path, same, notes):
    write_pair(tmp_path, "a", 33, 33, (16, 24))
    if same:
        shutil.copy(tmp_path / "videos" / "a.mp4", tmp_path / "control_videos" / "a.mp4")
    roots = {"records": (tmp_path / "videos", tmp_path / "control_videos")}
    item = Item("a", {"sample": fields_of(sample_of(tmp_path, "a", 33, (16, 24)), "records", roots), "record": {}})
    row = {**plan_step(SetSettings(), roots).run_item(item), "id": "a", "status": "ok", "code": "ok"}
    assert row["notes"] == notes
    assert ("1 samples have their RGB video for a control video" in report(Plan((row,), {}, PlanSettings()))) == same


@pytest.mark.skipif(not DATAPACK, reason="REELMILL_DATAPACK names no folder")
def test_the_public_pairs_are_planned_without_a_note():
    root = Path(DATAPACK) / "latents" / "giga_ctrl"
    records = read_records(root / "helios_giga_ctrl.jsonl", settings_of(root))
    plan = make_plan(records.samples, records.refused, PlanSettings())
    assert [(row["uttid"], row["frames"], row["used"], row["unread"], row["notes"]) for row in plan.rows] == [
        ("episode_000001", 363, 99, 242, []),
        ("episode_000002", 491, 99, 370, []),
    ]


@pytest.mark.skipif(not DATAPACK, reason="REELMILL_DATAPACK names no folder")
def test_rgb_and_control_of_different_episodes_are_refused():
    root = Path(DATAPACK) / "latents" / "giga_ctrl"
    record = json.loads((root / "helios_giga_ctrl.jsonl").read_text().split("\n")[0])
    sample = parse_record({**record, "control_path": "episode_000002.mp4"}, settings_of(root), "r:1")
    assert make_plan([("r:1", sample)], [], PlanSettings()).rows[0]["code"] == "E_FRAME_MISMATCH"
