"""What latents will take: counted as the workflow counts, by rules and figures that agree with the library that it may not import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reelmill import doctor, estimate_latents
from reelmill.config import Config, EventsConfig, LatentsConfig
from reelmill.estimate_latents import BYTES_PER_PIXEL, SHAPES, WINDOW, Latents, latents_of, lines, own_bucket, record_bucket, used_of
from reelmill.machine import Disk, has_gpu
from shardwork.shards import shard_of
from tests.vidlatents.pairs import full, minimal, settings_of, write_records
from tests.vidlatents.test_sources import control, events
from vidlatents.buckets import WINDOW_FRAMES, latent_shape, used_frames
from vidlatents.models import MODELS, kind_named
from vidlatents.records import parse_record, read_records
from vidlatents.room import EMBED_VALUES
from vidlatents.tiling import TILE_BYTES_PER_PIXEL

HEADER = "video_id,path,split,bytes,mtime_ns,width,height,frames,fps,duration_seconds\n"


def of(**latents: object) -> LatentsConfig:
    return LatentsConfig.model_validate(latents)


def found(tmp_path: Path, **latents: object) -> Latents:
    config = Config(run="r", events=EventsConfig(table=str(tmp_path / "videos.csv"), controls=True), latents=of(**latents))
    answer = latents_of(config)
    assert answer is not None
    return answer


def table(tmp_path: Path, rows: list[str]) -> None:
    (tmp_path / "videos.csv").write_text(HEADER + "".join(f"{row}\n" for row in rows))


def test_figures_of_models_are_those_of_the_library() -> None:
    assert {name: (kind.z, kind.spatial, kind.temporal) for name, kind in MODELS.items()} == SHAPES
    assert (TILE_BYTES_PER_PIXEL, WINDOW_FRAMES, EMBED_VALUES) == (BYTES_PER_PIXEL, WINDOW, estimate_latents.EMBED_VALUES)


@pytest.mark.parametrize("layout", ["sections", "whole"])
@pytest.mark.parametrize(("frames", "temporal"), [(33, 4), (49, 4), (121, 4), (129, 4), (49, 2), (49, 1)])
def test_latent_frames_are_those_of_the_library(layout: str, frames: int, temporal: int) -> None:
    used = used_frames(frames, layout, temporal)
    shape = latent_shape(used, layout, 16, 8, (16, 16))
    count = shape[0] * shape[2] if layout == "sections" else shape[1]
    assert (estimate_latents._latent_frames(layout, frames, temporal), used_of({(layout, frames, 16, 16): 2})) == (count, (2 * used.used, 2 * used.dropped))


@pytest.mark.parametrize("frames", [1, 5, 32, 33, 40, 41, 120, 300, 9999])
@pytest.mark.parametrize(("model", "own_sizes"), [("wan21", ""), ("wan22-5b", ""), ("wan21", "512x512 320x768"), ("wan-z12-s4-t2-p1", "")])
def test_an_own_video_becomes_what_the_library_makes_of_it(frames: int, model: str, own_sizes: str) -> None:
    layout = "sections" if frames >= 33 else "whole"
    sizes = tuple((int(word.split("x")[0]), int(word.split("x")[1])) for word in own_sizes.split())
    ((_, sample),) = events(
        controls=[control(frames=frames, height=239, width=427)],
        sizes=sizes,
        layout=layout,
        spatial=kind_named(model).spatial,
        temporal=kind_named(model).temporal,
    ).samples
    assert own_bucket(of(model=model, own_sizes=own_sizes), frames, 239, 427) == (layout, sample.num_frame, sample.height, sample.width)


@pytest.mark.parametrize("record", [minimal(), full(), full(crop=None), full(cut=None, uttid="u", num_frames=200), {**minimal(), "cut": [0, 60]}])
def test_a_record_becomes_what_the_library_makes_of_it(record: dict[str, object]) -> None:
    sample = parse_record(record, settings_of(), "r")
    assert record_bucket(of(), record)[0] == ("sections", sample.num_frame, sample.height, sample.width)


def test_a_record_of_another_form_is_not_known() -> None:
    assert record_bucket(of(), {"uttid": "u", "num_frames": 20.5}) == (None, None)


def test_400_videos_in_20_shards_take_the_jobs_of_both_layouts(tmp_path: Path) -> None:
    table(tmp_path, [f"v{index},v{index}.mp4,train,1,1,,,,," for index in range(400)])
    answer = found(tmp_path, events=True, work_shards=20)
    assert len({shard_of(f"v{index}", 20) for index in range(400)}) == 20
    assert answer.jobs == 3 * 20 * 2 + 2 * 2 + 1, "plan, encode, verify of two layouts; report on the plan and manifest of each; one text job"
    assert (answer.samples, answer.unknown) == (400, 400)


def test_videos_whose_size_the_table_states_are_counted(tmp_path: Path) -> None:
    table(tmp_path, ["a,a.mp4,train,1,1,64,48,120,24,5", "b,b.mp4,train,1,1,64,48,30,24,1"])
    answer = found(tmp_path, events=True, weights="tiny")
    assert answer.buckets == {("sections", 101, 48, 64): 1, ("whole", 29, 48, 64): 1}
    assert (answer.unknown, answer.unread, answer.ignored) == (0, 20, 2)
    said = lines(answer, of(weights="tiny"), Disk(tmp_path, 1 << 40, None), 2.0)
    assert "frames    128 encoded of each video and its control, 2 dropped that fill no window, 20 beyond buckets not read" in said


@pytest.mark.parametrize("name", ["r.jsonl", "r.json"])
def test_records_are_read_from_lines_and_from_a_list(tmp_path: Path, name: str) -> None:
    records, path = [minimal("a"), full()], tmp_path / name
    path.write_text(json.dumps(records)) if name == "r.json" else write_records(path, records)
    answer = latents_of(Config(run="r", latents=of(records=str(path), work_shards=50)))
    assert answer is not None and answer.samples == 2 and answer.unknown == 0
    uttids = [sample.uttid for _, sample in read_records(path, settings_of()).samples]
    assert answer.jobs == 3 * len({shard_of(uttid, 50) for uttid in uttids}) + 3


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([minimal("a")], "33 encoded of each video and its control, 16 dropped that fill no window"),
        (
            [minimal("a"), minimal("b", cut=[0, 60])],
            "66 encoded of each video and its control, 32 dropped that fill no window, "
            "11 beyond buckets not read of the samples whose videos' frames are stated (1 are not)",
        ),
    ],
)
def test_of_frames_beyond_buckets_only_what_is_stated_is_said(tmp_path: Path, records: list[dict[str, object]], said: str) -> None:
    answer = latents_of(Config(run="r", latents=of(records=str(write_records(tmp_path / "r.jsonl", records)))))
    assert answer is not None
    assert f"frames    {said}" in lines(answer, of(), Disk(tmp_path, 1 << 40, None), 2.0)


def test_a_text_encoder_in_float32_takes_twice_the_memory_and_its_embeddings_twice_the_room(tmp_path: Path) -> None:
    path = write_records(tmp_path / "r.jsonl", [minimal()])
    half, full_size = (latents_of(Config(run="r", latents=of(records=str(path), text_dtype=dtype))) for dtype in ("bfloat16", "float32"))
    assert half is not None and full_size is not None
    assert (full_size.text_bytes, full_size.bytes) == (2 * half.text_bytes, half.bytes + 2 * 512 * 4096), "of one sample"


@pytest.mark.parametrize(("name", "there"), [("nvidia0", True), ("kfd", True), ("nvidiactl", False), ("null", False)])
def test_a_gpu_shows_by_its_device(tmp_path: Path, name: str, there: bool) -> None:
    (tmp_path / name).touch()
    assert has_gpu(tmp_path) == there


def checks(tmp_path: Path, **latents: object) -> list[tuple[str, str]]:
    write_records(tmp_path / "r.jsonl", [minimal()])
    config = Config(run="r", latents=of(records=str(tmp_path / "r.jsonl"), **latents))
    return [(check.name, check.status) for check in doctor.check_latents(config)]


def test_the_doctor_misses_the_folders_of_videos(tmp_path: Path) -> None:
    assert checks(tmp_path, weights="tiny")[:3] == [("records", "ok"), ("records", "failure"), ("records", "failure")]


def test_the_doctor_warns_of_tiny_models(tmp_path: Path) -> None:
    assert checks(tmp_path, weights="tiny")[3:] == [("weights", "warning"), ("text_encoder", "warning")]


@pytest.mark.parametrize(("weights", "status"), [("Wan-AI/x", "warning"), ("Wan-AI/x@0123abc", "warning"), ("no/such/folder", "failure")])
def test_the_doctor_tells_a_hub_id_from_a_folder_that_is_not_there(tmp_path: Path, weights: str, status: str) -> None:
    assert checks(tmp_path, weights=weights)[3:] == [("weights", status), ("text_encoder", status)]


def test_the_doctor_finds_a_model_in_its_folder(tmp_path: Path) -> None:
    for part in ("vae", "text_encoder"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "config.json").write_text("{}")
    assert checks(tmp_path, weights=str(tmp_path))[3:] == [("weights", "ok"), ("text_encoder", "ok")]
