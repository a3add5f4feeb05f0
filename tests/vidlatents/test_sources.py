"""Samples from this pipeline's own control videos, and the ids and folders that the workflow knows them by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwork.errors import DataError, Fault
from shardwork.ids import is_id
from tests.vidlatents.pairs import minimal, settings_of, write_records
from vidlatents.members import record_members
from vidlatents.records import name_of, read_records
from vidlatents.sources import captions_of, clip_samples, event_samples, sentence_of
from vidlatents.stage import KEY, deal_rows, folder_of, item_id, latents_place

TABLE = Path("data/videos.csv")


def video(video_id="v", captions=((0.0, 2.0, "A dog runs."), (2.0, 4.0, "It jumps."))):
    return {"video_id": video_id, "path": f"videos/{video_id}.mp4", "split": "train", "captions": json.dumps(captions) if captions is not None else ""}


def control(video_id="v", frames=250, height=272, width=640):
    return {"id": video_id, "status": "ok", "code": "ok", "frames": frames, "height": height, "width": width}


def events(rows=None, controls=None, sizes=(), **more):
    return event_samples(rows or [video()], TABLE, controls or [control()], Path("results/r/controls/events"), settings_of(**more), sizes)


def test_a_video_is_paired_with_the_control_video_of_its_events():
    ((_, sample),) = events().samples
    assert (str(sample.video), str(sample.control)) == ("data/videos/v.mp4", "results/r/controls/events/v.mkv")


def test_a_video_takes_its_largest_bucket_in_its_own_size():
    ((_, sample),) = events().samples
    assert name_of(sample) == "v_241_272_640.pt" and sample.crop == (0, 640, 0, 272)


def test_a_video_is_cut_to_multiples_of_the_models_factor():
    ((_, sample),) = events(controls=[control(height=239, width=427)], spatial=16).samples
    assert (sample.height, sample.width, sample.crop) == (224, 416, (5, 421, 7, 231))


def test_a_video_takes_the_nearest_of_the_configured_sizes():
    ((_, sample),) = events(sizes=((512, 512), (320, 768))).samples
    assert (sample.height, sample.width, sample.crop) == (320, 768, None)


def test_the_captions_of_a_video_are_its_prompt():
    ((_, sample),) = events().samples
    assert sample.prompt == "A dog runs. It jumps."


def test_a_video_without_captions_is_refused():
    assert [error.code for error in events([video(captions=None)]).refused] == ["E_PROMPT_MISSING"]


def test_a_video_without_captions_has_an_empty_prompt_where_the_settings_say_so():
    ((_, sample),) = events([video(captions=None)], missing_prompt="empty").samples
    assert sample.prompt == ""


def test_captions_of_another_form_are_named():
    with pytest.raises(DataError, match="bad_table"):
        captions_of({"video_id": "v", "captions": "[1]"})


def test_a_short_video_belongs_to_the_folder_of_the_other_layout():
    found = [events(controls=[control(frames=32)], layout=layout) for layout in ("sections", "whole")]
    assert (found[0].samples, found[0].elsewhere) == ((), ("v",))
    assert [name_of(sample) for _, sample in found[1].samples] == ["v_29_272_640.pt"]


def test_what_an_earlier_step_refused_keeps_its_step_and_code():
    refused = {"id": "v", "status": "upstream", "code": "truncated", "step": "voxelize_events"}
    assert events(controls=[refused]).upstream == (refused,)


def test_a_video_without_a_row_of_controls_is_a_stale_manifest_and_not_passed_over():
    with pytest.raises(Fault, match="fault_stale"):
        events(controls=[control("other")])


def test_a_control_video_without_a_row_of_its_clip_is_a_stale_manifest():
    with pytest.raises(Fault, match="fault_stale"):
        clip_samples([], [DEPTH], Path("d"), Path("c"), settings_of(layout="whole"), "eval")


CLIP = {"id": "00000025", "split": "eval", "status": "ok", "assets": ["chefmate_8_frypan", "red_bowl"]}
DEPTH = {"id": "00000025", "split": "eval", "status": "ok", "code": "ok", "frames": 32, "height": 512, "width": 512}


def clips(**more):
    return clip_samples([CLIP], [DEPTH], Path("d"), Path("c"), settings_of(**{"layout": "whole", **more}), "eval")


def test_a_clip_makes_a_sample_of_29_frames_for_each_kind_of_control():
    assert [name_of(sample) for _, sample in clips().samples] == ["eval_00000025_depth_29_512_512.pt", "eval_00000025_mask_29_512_512.pt"]


def test_a_clip_is_read_from_its_pictures_and_its_control_video():
    sample = clips().samples[1][1]
    assert (str(sample.video), str(sample.control), sample.cut) == ("d/clips/eval/00000025/rgb", "c/eval/00000025.mask.mkv", (0, 32))


def test_a_clip_has_no_sections():
    assert clips(layout="sections").samples == () and len(clips(layout="sections").elsewhere) == 2


def test_a_clips_prompt_names_its_assets():
    assert clips().samples[0][1].prompt == "A chefmate 8 frypan and a red bowl."


@pytest.mark.parametrize(("names", "text"), [([], ""), (["old-cup"], "An old cup."), (["a", "b", "c"], "An a, a b and a c."), (["_"], "")])
def test_a_sentence_lists_names(names, text):
    assert sentence_of(names) == text


@given(st.text(min_size=1, max_size=250))
def test_any_text_has_an_id(text):
    assert is_id(item_id(text)) and (item_id(text) == text) == is_id(text)


@pytest.mark.parametrize(("first", "second"), [("\u89c6", "\u9891"), ("a b", "a.b"), ("\u00e9", "e\u0301")])
def test_texts_that_look_alike_as_ids_are_told_apart(first, second):
    assert item_id(first) != item_id(second)


def test_each_model_and_layout_has_a_folder_of_its_own():
    assert len({folder_of(model, layout) for model in ("wan21", "wan22-5b") for layout in ("sections", "whole")}) == 4


@pytest.mark.parametrize("name", ["dataset_cache.pkl", ".a_49_480_640.pt.0123456789ab.tmp", "other.pt"])
def test_a_file_that_is_no_sample_is_none_of_the_stages(name):
    assert latents_place(Path("b"), Path("f")).id_of(name) is None


def test_a_samples_file_has_its_samples_id():
    assert latents_place(Path("b"), Path("f")).id_of("\u89c6_49_480_640.pt") == item_id("\u89c6_49_480_640")


def record_rows(records):
    return [member.row() for member in record_members(records)]


def test_an_added_record_changes_the_rows_of_one_shard(tmp_path):
    shards = []
    for count in (40, 41):
        records = read_records(write_records(tmp_path / "r.jsonl", [minimal(f"u{index}") for index in range(count)]), settings_of())
        shards.append(deal_rows(record_rows(records), 8))
    assert sum(shards[0].get(name) != shards[1][name] for name in shards[1]) == 1


def test_a_changed_prompt_changes_its_row(tmp_path):
    digests = {record_rows(read_records(write_records(tmp_path / "r.jsonl", [minimal(prompt=prompt)]), settings_of()))[0]["digest"] for prompt in "ab"}
    assert len(digests) == 2


def test_a_refused_record_has_a_row(tmp_path):
    rows = record_rows(read_records(write_records(tmp_path / "r.jsonl", [minimal("a"), {}]), settings_of()))
    assert [row[KEY] for row in rows] == ["a", "r.jsonl:2"]
