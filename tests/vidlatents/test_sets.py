"""Sample sets: what is left unread, what makes a sample again and what does not, names that must not meet, and models that must not move."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from shardwork.errors import DataError, Fault
from shardwork.shards import shard_name
from shardwork.step import Item
from tests.vidlatents.pairs import minimal, sample_of, settings_of, write_pair, write_records
from tests.vidlatents.test_cost import WAN21, WAN22
from tests.vidlatents.test_sources import control, events
from tests.vidlatents.tiny_models import folder as tiny_folder
from vidlatents import card, cost
from vidlatents.card import VAE_PARTS, at_hand
from vidlatents.cost import SectionCost
from vidlatents.encode_step import KEPT, NEEDED, READ
from vidlatents.members import Makers, Member, check_ids, fields_of, own_members, record_members, refuse_shared_names
from vidlatents.plan import PlanSettings, ignored_by_trainer, plan_sample, report
from vidlatents.plan_report import cost_by_bucket, whole_report
from vidlatents.plan_step import plan_step
from vidlatents.producer import arguments, produce
from vidlatents.read import Probe
from vidlatents.records import read_records
from vidlatents.released import RELEASED, config_for
from vidlatents.settings import EncodeFlags, SetSettings, TrainerFlags
from vidlatents.shard_names import names, short

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
_latents, encode_text = (importlib.import_module(name) for name in ("_latents", "encode_text"))

HUB = "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"


def own_row_of(frames, layout="sections"):
    ((_, sample),) = events(controls=[control(frames=frames)], layout=layout).samples
    seen = Probe(frames, 272, 640, Fraction(30), frames)
    return plan_sample(sample, (seen, seen), PlanSettings(layout=layout))


def test_of_120_frames_of_an_own_video_99_are_used_2_dropped_and_19_not_read():
    row = own_row_of(120)
    assert (row["used"], row["dropped"], row["unread"]) == (99, 2, 19)


def test_of_32_frames_of_an_own_clip_29_are_used_and_3_not_read():
    row = own_row_of(32, "whole")
    assert (row["used"], row["dropped"], row["unread"]) == (29, 0, 3)


def test_an_own_video_begins_at_its_first_frame_where_records_begin_at_a_drawn_one(tmp_path):
    write_pair(tmp_path, "v", 40, 40, (16, 24))
    sample = sample_of(tmp_path, "v", 33, (16, 24), cut=(0, 40))
    roots = dict.fromkeys(("events", "records"), (tmp_path / "videos", tmp_path / "control_videos"))
    starts = {}
    for source in roots:
        step = plan_step(SetSettings(start="drawn", seed=1), roots)
        starts[source] = [
            step.run_item(Item("v", {"sample": fields_of(dataclasses.replace(sample, uttid=uttid), source, roots), "record": {}}))["start"] for uttid in "abc"
        ]
    assert starts["events"] == [0, 0, 0] != starts["records"]


def test_what_is_known_of_the_trainer_decodes_no_video_again():
    step = plan_step(SetSettings(), {})
    assert "trainer" not in str(step.settings)


@pytest.mark.parametrize(("start", "same"), [("first", True), ("drawn", False)])
def test_a_seed_plans_again_only_where_starts_are_drawn(start, same):
    first, second = (plan_step(SetSettings(start=start, seed=seed), {}).settings for seed in (1, 2))
    assert (first == second) == same


@pytest.mark.parametrize(("how", "same"), [("mode", True), ("sample", False)])
def test_a_seed_encodes_again_only_where_values_are_drawn(how, same):
    first, second = (EncodeFlags(how=how, seed=seed).settings() for seed in (1, 2))
    assert (first == second) == same


def test_the_report_counts_what_the_trainer_ignores_from_rows_that_do_not_say_it():
    row = {**own_row_of(120), "status": "ok", "id": "v"}
    assert "ignored" not in row
    assert ignored_by_trainer(row, PlanSettings(trainer_frames=102)) == ["frames"] and ignored_by_trainer(row, PlanSettings(trainer_frames=101)) == []


@pytest.mark.parametrize("words", [{"sizes": "0x0"}, {"own_sizes": "0x16"}, {"sizes": "16x016"}])
def test_a_size_of_nothing_is_no_size(words):
    with pytest.raises(DataError, match="bad_argument"):
        SetSettings(**words)


def test_a_trainers_size_of_nothing_is_no_size():
    with pytest.raises(DataError, match="bad_argument"):
        TrainerFlags(trainer_sizes="0x0")


def test_sizes_of_records_that_the_model_cannot_take_are_refused_at_the_start():
    with pytest.raises(DataError, match="E_MULTIPLE"):
        SetSettings(model="wan22-5b", sizes="480x1928")


@pytest.mark.parametrize(("uttid", "code"), [("Video1", "E_DUP_OUTPUT"), ("video1", None), ("video2", None)])
def test_a_record_that_differs_from_an_own_video_in_case_alone_is_refused_whatever_its_shard(tmp_path, uttid, code):
    records = read_records(write_records(tmp_path / "r.jsonl", [minimal(uttid)]), settings_of())
    (member,) = record_members(records, ["video1"])
    assert (member.verdict or {}).get("code") == code


def test_a_record_with_the_files_name_of_an_own_video_is_refused_and_the_own_one_kept():
    ((_, sample),) = events().samples
    members = [Member("v", "v", "events", sample), Member("v_241_272_640", "v", "records", sample)]
    assert [(one.source, (one.verdict or {}).get("code")) for one in refuse_shared_names(members)] == [("events", None), ("records", "E_DUP_OUTPUT")]


def test_own_members_of_the_other_layout_pass_without_a_file_and_refused_ones_have_their_verdict():
    elsewhere, refused = (own_members(found, "events") for found in (events(controls=[control(frames=20)]), events(controls=[control(height=4)])))
    assert [one.verdict for one in elsewhere] == [{"id": "v", "status": "ok", "code": "ok", "files": {}, "elsewhere": 1}]
    assert [(one.verdict or {})["code"] for one in refused] == ["E_MULTIPLE"]


@pytest.mark.parametrize(("first", "second", "found"), [("clips", "records", "in clips and in records"), ("records", "records", "twice in records")])
def test_an_id_that_two_samples_have_is_named_whatever_their_sources(first, second, found):
    rows = [{"id": "a_33_16_24", "source": source} for source in (first, second)]
    assert check_ids(rows[:1]) == rows[:1]
    with pytest.raises(DataError, match=f"duplicate_id.*{found}|{found}.*duplicate_id"):
        check_ids(rows)


def own_rows_of(source, *uttids):
    return [{"id": uttid, "source": source} for uttid in uttids]


def test_jobs_that_make_own_videos_are_looked_at_once_for_all_work_shards():
    made = Makers(("events", iter((f"v{job}", f"w{job}")), [Path(f"{job}.jsonl")]) for job in range(9))
    assert [made.of(own_rows_of("events", f"w{job}")) for job in range(9)] == [[Path(f"{job}.jsonl")] for job in range(9)]


def test_manifests_of_a_work_shard_stand_in_the_order_of_the_jobs_each_once_and_records_have_none():
    made = Makers([("events", ["v", "w"], [Path("e")]), ("clips", ["c"], [Path("clips"), Path("controls")]), ("clips", ["d"], [Path("other")])])
    assert made.of([*own_rows_of("clips", "c"), *own_rows_of("events", "w", "v"), *own_rows_of("records", "d")]) == [Path("e"), Path("clips"), Path("controls")]


@pytest.mark.parametrize(("numbers", "text"), [([0], "0/20"), ([7, 1, 0], "0-1,7/20"), ([3, 4, 5, 9, 19], "3-5,9,19/20")])
def test_names_of_work_shards_are_spans(numbers, text):
    held = [shard_name(number, 20) for number in numbers]
    assert short(held) == text and names(text) == tuple(sorted(held))


def test_4000_names_take_a_small_part_of_the_128_kib_that_a_command_holds():
    assert len(short(shard_name(number, 9999) for number in range(0, 8000, 2))) < 20_000


@pytest.mark.parametrize("text", ["", "1", "1/0", "20/20", "3-1/20", "1,1/20", "5,2/20", "0-99999999/20", "-1/20"])
def test_a_text_that_names_no_work_shards_is_refused(text):
    with pytest.raises(DataError, match="bad_argument"):
        names(text)


def test_the_cost_of_a_plan_is_told_by_bucket_with_the_configuration_that_it_is_of():
    rows = [{**own_row_of(120), "status": "ok", "id": "v", "height": 64, "width": 64}]
    taken = cost_by_bucket(rows, EncodeFlags(), "tiny")
    text = whole_report([*rows, {"id": "w", "status": "ok", "elsewhere": 1}], [shard_name(0, 2)], PlanSettings(trainer_frames=121), taken)
    assert "counted for the configuration of a tiny wan21" in text and "cost of 33x64x64: 6 sections of" in text
    for said in (
        "19 frames of videos or cuts",
        "2 of 101 bucket frames are dropped",
        "1 samples would be ignored",
        "1 samples belong to the folder of the other",
    ):
        assert said in text


def test_the_released_configurations_are_those_whose_cost_the_specification_states():
    assert RELEASED == {"wan21": WAN21, "wan22-5b": WAN22}


def test_the_dry_run_of_a_front_door_tells_the_cost_and_encodes_nothing(tmp_path, capsys):
    write_pair(tmp_path, "a", 33, 33, (16, 24))
    write_records(tmp_path / "r.jsonl", [minimal("a", 33, 16, 24)])
    line = [f"--data_root={tmp_path}", "--metadata_file=r.jsonl", f"--output_root={tmp_path / 'out'}", "--dataloader_num_workers=0", "--dry_run"]
    args = arguments("d", "wan21", "o").parse_args([*line, f"--pretrained_model_name_or_path={tiny_folder('wan21')}"])
    assert produce(args, "wan21") == 0
    assert "cost of 33x16x24: 2 sections of" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_beyond_20_sizes_the_cost_of_the_smaller_ones_is_scaled(monkeypatch):
    rows = [{"status": "ok", "used": 1, "sections": 1, "num_frame": 1, "height": 16, "width": 16 * count} for count in range(1, 22)]
    held = []

    def count(config, frames, height, width, dtype, tiling):
        held.append(width)
        return SectionCost(width * 10**12, 1, 1)

    monkeypatch.setattr(cost, "bucket_cost", count)
    found = cost.cost_of(rows, {})
    assert len(held) == 20 and 16 not in held
    assert found["buckets"]["1x16x16"] == {"counted": False, "peak_gib": 0.0, "section_tera_flops": 16.0, "sections": 2}


def test_a_folder_that_is_here_is_counted_and_else_the_released_model_of_the_kind(tmp_path):
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "config.json").write_text('{"_class_name": "x", "z_dim": 3}')
    assert config_for(str(tmp_path), "wan21") == ({"z_dim": 3}, str(tmp_path))
    assert config_for(HUB, "wan22-5b") == (RELEASED["wan22-5b"], "the released wan22-5b")


@pytest.mark.parametrize("damage", [None, "{", "[]"], ids=["hub id", "cut", "no object"])
def test_of_a_kind_that_was_not_released_the_cost_is_not_known_without_its_configuration(tmp_path, damage):
    where = HUB
    if damage:
        (tmp_path / "vae").mkdir()
        (tmp_path / "vae" / "config.json").write_text(damage)
        where = str(tmp_path)
    rows = [{**own_row_of(120), "status": "ok", "id": "v", "height": 64, "width": 64}]
    taken = cost_by_bucket(rows, EncodeFlags(model="wan-z12-s8-t4-p1"), where)
    text = whole_report(rows, [shard_name(0, 1)], PlanSettings(), taken)
    assert f"cost: not known: no configuration of {where} is here, and none of wan-z12-s8-t4-p1 was released\n" in text and "1 pass" in text


@pytest.mark.parametrize("damage", ["{", "[]"], ids=["cut", "no object"])
def test_of_a_damaged_folder_the_cost_of_the_released_model_is_told(tmp_path, damage):
    (tmp_path / "config.json").write_text(damage)
    assert config_for(str(tmp_path), "wan21") == (RELEASED["wan21"], "the released wan21")


@pytest.mark.parametrize(("model", "hub_id"), [("wan21", HUB), ("wan22-5b", "Wan-AI/Wan2.2-TI2V-5B-Diffusers"), ("wan-z12-s8-t4-p1", None)])
def test_a_model_that_a_job_does_not_get_is_asked_for_by_the_name_of_the_configurations_own(tmp_path, monkeypatch, model, hub_id):
    def snapshot_download(*args, **more):
        raise FileNotFoundError("offline")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    for given in (["--weights=Some/One"], [f"--weights={tmp_path}", "--text-encoder=Some/One"]):
        args = encode_text.arguments.parse_args([*given, f"--model={model}", "--plans=p", "--shards=0/1", "--books", str(tmp_path / "b")])
        with pytest.raises(DataError, match="E_MODEL_MISSING") as caught:
            _latents.models_of(args)
        wanted = hub_id or (HUB if "--text-encoder=Some/One" in given else None)
        assert (f"hf download {wanted} " in caught.value.hint) if wanted else ("none were released" in caught.value.hint and "Wan-AI" not in caught.value.hint)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub whose branch moves with each look; the revisions that were asked for."""
    asked = []

    def snapshot_download(name, *, revision=None, allow_patterns=None):
        asked.append(revision)
        folder = tmp_path / "snapshots" / (revision if revision and revision != "main" else f"commit{len(asked)}")
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    return asked


def test_all_jobs_of_a_run_take_the_commit_that_the_first_one_found(hub, tmp_path):
    first, second = (at_hand(HUB, VAE_PARTS, HUB, tmp_path / "books") for _ in range(2))
    assert first == second and hub == [None, "commit1"]


def test_a_commit_behind_an_at_is_the_one_that_is_taken(hub, tmp_path):
    assert Path(at_hand(f"{HUB}@abc", VAE_PARTS, HUB, tmp_path / "books")).name == "abc"


def test_a_local_folder_stays_as_it_is(hub, tmp_path):
    assert at_hand(str(tmp_path), VAE_PARTS, HUB, tmp_path / "books") == str(tmp_path) and hub == []


def test_a_note_that_another_job_has_just_written_alike_is_no_fault(tmp_path, monkeypatch):
    def published(path, value):
        path.write_text('{"a": 1}')
        raise Fault("not_published", path, "x", "y", "z")

    monkeypatch.setattr(card, "write_json", published)
    card._note(tmp_path / "n.json", {"a": 1})
    with pytest.raises(Fault, match="not_published"):
        card._note(tmp_path / "n.json", {"a": 2})


def test_the_log_of_a_plan_says_nothing_of_cost_that_was_not_counted():
    assert "cost" not in report([], PlanSettings(), 1)


def test_what_decides_no_byte_is_no_part_of_what_a_file_is_made_for():
    assert not {"bucket_key", "cut"} & {*READ, *KEPT, *NEEDED}
