"""The plan: what is encoded, dropped, ignored and refused, known before a model is loaded."""

from __future__ import annotations

import json
import os
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from shardwork.errors import Fault
from shardwork.jsonio import dumps
from shardwork.place import the_manifest
from shardwork.run import Options, run_shard
from shardwork.step import Item
from tests.vidlatents.pairs import count_digests, full, minimal, sample_of, settings_of, write_pair, write_records
from vidlatents import plan_step
from vidlatents.codes import SampleRefused
from vidlatents.members import fields_of, record_members
from vidlatents.plan import PlanSettings, plan_sample, report
from vidlatents.read import Probe
from vidlatents.records import parse_record, read_records
from vidlatents.settings import SetSettings
from vidlatents.stage import PLAN_STEP, plans_place

DATAPACK = os.environ.get("REELMILL_DATAPACK", "")
DEFAULT, SHARD = PlanSettings(), "0000-of-0001"
SEEN = Probe(200, 480, 1920, Fraction(30), 200)


def row_of(record, seen=(SEEN, SEEN), settings=DEFAULT):
    """Return what the plan says of one record whose videos match."""
    return plan_sample(parse_record(record, settings_of(layout=settings.layout), "r:1"), seen, settings)


def rows_of(records, books, root):
    """Return the rows of a file of records, as they stand in the step's manifest."""
    roots = {"records": (root / "videos", root / "control_videos")}
    items = plan_step.plan_items(record_members(read_records(records, settings_of(root))), roots)
    run_shard(plan_step.plan_step(SetSettings(), roots), SHARD, items, plans_place(books), Options(0))
    return the_manifest(plans_place(books), PLAN_STEP, SHARD)


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Plan records by the step, their videos apart: these are empty files, of which `look` says what they are."""

    def plan(*records, look=lambda sample: (SEEN, SEEN), books="plans"):
        monkeypatch.setattr(plan_step, "_probes", lambda sample, fields, roots: look(sample))
        for record in records:
            for folder in ("videos", "control_videos"):
                (tmp_path / folder).mkdir(exist_ok=True)
                (tmp_path / folder / f"{record.get('uttid', 'none')}.mp4").touch()
        return rows_of(write_records(tmp_path / "r.jsonl", records), tmp_path / books, tmp_path)

    return plan


@pytest.mark.parametrize(("frames", "used", "dropped", "sections"), [(49, 33, 16, 1), (50, 33, 17, 1), (121, 99, 22, 3), (129, 99, 30, 3)])
def test_a_row_tells_the_frames_that_are_used_and_dropped(frames, used, dropped, sections):
    row = row_of(minimal(frames=frames))
    assert (row["used"], row["dropped"], row["sections"]) == (used, dropped, sections)


def test_a_row_tells_the_frames_that_no_bucket_reads():
    assert row_of(full())["unread"] == 130 - 121


def starts_of(records, seed, start="drawn"):
    rows = [row_of(record, settings=PlanSettings(start=start, seed=seed)) for record in records]
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


def said_of(*records, settings=DEFAULT):
    """Return the report on records whose videos match."""
    return report([{**row_of(record, settings=settings), "status": "ok"} for record in records], settings, 1)


@pytest.mark.parametrize(("frames", "ignored"), [(120, True), (121, False)])
def test_a_file_of_fewer_than_121_frames_is_told_as_ignored(frames, ignored):
    assert ("1 samples would be ignored: the public trainer skips files of fewer than 121 frames" in said_of(minimal(frames=frames))) == ignored


def test_a_size_that_the_trainer_does_not_take_is_told_as_ignored():
    words = "1 samples would be ignored: the trainer's sizes"
    held = [words in said_of(minimal(frames=121), settings=PlanSettings(trainer_sizes=sizes)) for sizes in (((384, 640),), ((480, 1920),), ())]
    assert held == [True, False, False]


def test_the_layout_whole_is_told_as_ignored():
    assert "1 samples would be ignored: the public trainer reads the layout" in said_of(minimal(frames=121), settings=PlanSettings(layout="whole"))


def test_a_container_that_claims_other_frames_is_noted():
    claims = Probe(200, 480, 1920, Fraction(30), 444)
    assert row_of(minimal(), (claims, SEEN))["notes"] == ["video: 200 frames decoded, 444 stated by the container"]


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


def test_a_pair_that_is_refused_has_code_uttid_path_and_a_hint(planned):
    def look(sample):
        raise SampleRefused("E_CONTROL_MISSING", "x.mp4", "no such file", "a video")

    (row,) = planned(minimal("u"), look=look)
    assert (row["code"], row["uttid"], row["path"], row["where"], bool(row["hint"])) == ("E_CONTROL_MISSING", "u", "u.mp4", "x.mp4", True)


def test_one_bad_pair_leaves_the_others_planned(planned):
    def look(sample):
        if sample.uttid == "b":
            raise SampleRefused("E_DECODE", "b.mp4", "0 bytes", "a video")
        return SEEN, SEEN

    assert [row["status"] for row in planned(minimal("a"), minimal("b"), minimal("c"), look=look)] == ["ok", "quarantined", "ok"]


def test_a_fault_of_the_machine_is_no_verdict(planned):
    def look(sample):
        raise OSError(5, "Input/output error")

    with pytest.raises(Fault, match="Input/output"):
        planned(minimal(), look=look)


def test_duplicates_are_refused_before_a_video_is_opened(planned):
    rows = planned(minimal("A"), minimal("a"), look=lambda sample: pytest.fail("opened"))
    assert [row["code"] for row in rows] == ["E_DUP_OUTPUT"] * 2 and len({row["id"] for row in rows}) == 2


def test_a_plan_does_not_depend_on_the_order_of_its_records(planned):
    records = [minimal(f"u{index}") for index in range(6)]
    assert dumps(planned(*records, books="one")) == dumps(planned(*records[::-1], books="other"))


def test_a_video_with_many_cuts_is_read_for_its_digest_once_while_it_stays_the_same(planned, tmp_path, monkeypatch):
    read = count_digests(monkeypatch)
    cuts = [minimal(f"u{start}", path="v.mp4", control_path="c.mp4", cut=[start, start + 49]) for start in range(5)]
    for name in ("videos/v.mp4", "control_videos/c.mp4"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"one")
    before = planned(*cuts)
    assert sorted(path.name for path in read) == ["c.mp4", "v.mp4"]
    (tmp_path / "videos" / "v.mp4").write_bytes(b"another")
    after = planned(*cuts)
    assert sorted(path.name for path in read) == ["c.mp4", "v.mp4", "v.mp4"]
    assert {row["video_digest"] for row in before}.isdisjoint(row["video_digest"] for row in after)


def test_a_plan_holds_no_absolute_path(tmp_path):
    write_pair(tmp_path, "u", 49, 49, (48, 64))
    records = write_records(tmp_path / "r.jsonl", [minimal("u", 49, 48, 64), minimal("none", 49, 48, 64), {}])
    rows = rows_of(records, tmp_path / "plans", tmp_path)
    assert str(tmp_path) not in dumps(rows) + report(rows, DEFAULT, 1)
    assert sorted(row["code"] for row in rows) == ["E_FIELD", "E_VIDEO_MISSING", "ok"]


def test_the_report_says_what_is_dropped_and_refused(planned):
    text = report(planned(minimal(frames=49), minimal("b", 121), {"uttid": "c"}), DEFAULT, 1)
    assert "3 samples: 2 pass, 1 refused" in text
    assert "38 of 170 bucket frames are dropped" in text
    assert "refused: r.jsonl:3 (c): " in text and "[E_FIELD]" in text


def test_what_an_earlier_step_refused_is_counted_by_itself():
    text = report([{"id": "v", "status": "upstream", "code": "truncated", "step": "voxelize_events"}], DEFAULT, 1)
    assert "upstream: 1 samples refused by an earlier step" in text and "refused: " not in text


def test_the_report_gives_each_bucket_its_shape():
    assert "bucket 121x480x1920 (frames x height x width): 1 samples, 99 frames used, 22 dropped; 3x16x9x60x240" in said_of(minimal(frames=121))


def test_an_id_in_the_report_cannot_break_its_line():
    row = row_of(minimal("a\u2028refused: b"), (Probe(200, 480, 1920, Fraction(30), 201), SEEN))
    text = report([{**row, "status": "ok"}], DEFAULT, 1)
    assert "note: a" in text and not any(line.startswith("refused") for line in text.splitlines())


def test_a_longer_list_of_refusals_is_counted(planned):
    text = report(planned(*({"uttid": f"u{line}"} for line in range(30))), DEFAULT, 1)
    assert text.count("refused: ") == 20 and "and 10 more: {'E_FIELD': 30}" in text


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
    row = {**plan_step.plan_step(SetSettings(), roots).run_item(item), "id": "a", "status": "ok", "code": "ok"}
    assert row["notes"] == notes
    assert ("1 samples have their RGB video for a control video" in report([row], DEFAULT, 1)) == same


@pytest.mark.skipif(not DATAPACK, reason="REELMILL_DATAPACK names no folder")
def test_the_public_pairs_are_planned_without_a_note(tmp_path):
    root = Path(DATAPACK) / "latents" / "giga_ctrl"
    rows = rows_of(root / "helios_giga_ctrl.jsonl", tmp_path, root)
    assert [(row["uttid"], row["frames"], row["used"], row["unread"], row["notes"]) for row in rows] == [
        ("episode_000001", 363, 99, 242, []),
        ("episode_000002", 491, 99, 370, []),
    ]


@pytest.mark.skipif(not DATAPACK, reason="REELMILL_DATAPACK names no folder")
def test_rgb_and_control_of_different_episodes_are_refused(tmp_path):
    root = Path(DATAPACK) / "latents" / "giga_ctrl"
    record = json.loads((root / "helios_giga_ctrl.jsonl").read_text().split("\n")[0])
    records = write_records(tmp_path / "r.jsonl", [{**record, "control_path": "episode_000002.mp4"}])
    assert [row["code"] for row in rows_of(records, tmp_path, root)] == ["E_FRAME_MISMATCH"]
