"""The run's own events and clips through the scripts of latents, from hand-made manifests of their control videos: plan, text and latents by tiny models."""

from __future__ import annotations

import importlib
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from PIL import Image

from eventvox import stage as event_stage
from sam3dvid import stage as clip_stage
from shardwork.errors import Fault
from shardwork.jsonio import write_jsonl
from shardwork.place import the_manifest
from shardwork.shards import shard_of
from tests.vidlatents.pairs import frames_of, write
from tests.vidlatents.tiny_models import folder as tiny_folder
from vidlatents.records import Records
from vidlatents.stage import PLAN_STEP, plans_place
from vidlatents.store import load_sample

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
plan_latents, encode_text, encode_latents, sets = (importlib.import_module(name) for name in ("plan_latents", "encode_text", "encode_latents", "_latents"))

SIZE, ONE = (16, 24), "0000-of-0001"
CLIP = "00000025"
CLIP_SHARD = next(iter(clip_stage.clip_shards(1, 1, 25)))


def ok(item, **more):
    return {"id": item, "status": "ok", "code": "ok", "files": {}, **more}


def manifest(place, step, shard, rows):
    path = place.manifest(step, shard, "0" * 16)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_jsonl(path, rows)
    return path


def table_of(root, ids):
    lines = [f'{one},{one}.mkv,train,1,1,"[[0, 1, ""A ball rolls.""]]"' for one in ids]
    (root / "videos.csv").write_text("\n".join(["video_id,path,split,bytes,mtime_ns,captions", *lines, ""]))


class Run:
    """Events of 40 and of 8 frames and a clip of 6, as their stages leave them."""

    def __init__(self, root):
        self.root, self.videos = root, {"long": 40, "short": 8}
        table_of(root, self.videos)
        events = root / "controls" / "events"
        for seed, (one, count) in enumerate(self.videos.items()):
            write(root / f"{one}.mkv", frames_of(count, *SIZE, seed))
            write(events / f"{one}.mkv", frames_of(count, *SIZE, seed + 5))
        rows = [ok(one, frames=count, height=SIZE[0], width=SIZE[1]) for one, count in self.videos.items()]
        self.events = event_stage.controls_place(events, event_stage.events_place(events))
        self.event_manifest = manifest(self.events, event_stage.CONTROLS_STEP, shard_of("long", 1), rows)
        clips, controls = clip_stage.clips_place(root / "clips", root / "dataset"), root / "controls" / "clips"
        rgb = root / "dataset" / "clips" / "eval" / CLIP / "rgb"
        rgb.mkdir(parents=True)
        for number, picture in enumerate(frames_of(6, *SIZE, 9)):
            Image.fromarray(picture).save(rgb / f"{number:03d}.png")
        for kind in clip_stage.CLIP_CONTROLS:
            write(controls / "eval" / f"{CLIP}.{kind}.mkv", frames_of(6, *SIZE, 8), Fraction(16))
        manifest(clips, clip_stage.CLIP_STEPS[0], CLIP_SHARD, [ok(CLIP, assets=["red_bowl", "old-cup"])])
        place = clip_stage.clip_controls_place(controls, clips)
        self.clip_manifest = manifest(place, clip_stage.CLIP_CONTROLS_STEP, CLIP_SHARD, [ok(CLIP, frames=6, height=SIZE[0], width=SIZE[1])])

    def flags(self, layout, *, clips):
        root = self.root
        flags = [f"--event-table={root / 'videos.csv'}", f"--event-controls={self.events.stage}"]
        if clips:
            flags += [f"--clip-dataset={root / 'dataset'}", f"--clip-controls={root / 'controls' / 'clips'}"]
        about = [f"--clip-stage={root / 'clips'}", "--clip-split=eval", "--clip-count=1", "--clip-first=25"] if clips else []
        return flags, [*about, f"--layout={layout}"]

    def plan(self, layout, clips=False):
        roots, about = self.flags(layout, clips=clips)
        line = [f"--stage={self.root / 'plans' / layout}", f"--shard={ONE}", "--key=k", f"--books={self.root / 'books'}", *roots, *about]
        assert plan_latents.main(plan_latents.arguments.parse_args(line)) == 0
        return the_manifest(plans_place(self.root / "plans" / layout), PLAN_STEP, ONE)


@pytest.fixture
def made(tmp_path):
    return Run(tmp_path)


def members(run, layout, clips=False):
    roots, about = run.flags(layout, clips=clips)
    args = plan_latents.arguments.parse_args([f"--stage={run.root / 'p'}", f"--shard={ONE}", "--key=k", f"--books={run.root / 'books'}", *roots, *about])
    return sets.members_of(args, ONE)


def test_a_long_video_is_planned_in_sections_and_a_short_one_passes(made):
    rows = {row["id"]: row for row in made.plan("sections")}
    assert rows["short"]["elsewhere"] == 1
    assert (rows["long"]["name"], rows["long"]["prompt"], rows["long"]["unread"]) == ("long_33_16_24.pt", "A ball rolls.", 7)


def test_clips_and_short_videos_become_latents_as_a_whole(made):
    made.plan("whole", clips=True)
    books, plans, folder = made.root / "books", made.root / "plans" / "whole", made.root / "latents"
    models = [f"--weights={tiny_folder('wan21')}", f"--books={books}", "--device=cpu"]
    text = ["--key=k", *models, f"--plans={plans}", "--shards=0/1", "--text-dtype=float32"]
    assert encode_text.main(encode_text.arguments.parse_args(text)) == 0
    roots, _ = made.flags("whole", clips=True)
    line = [f"--plans={plans}", f"--folder={folder}", f"--stage={books / 'whole'}", f"--shard={ONE}", "--key=k", *roots, *models, "--layout=whole"]
    assert encode_latents.main(encode_latents.arguments.parse_args([*line, "--text-dtype=float32"])) == 0
    files = {path.name: load_sample(path) for path in sorted(folder.iterdir())}
    assert list(files) == [f"eval_{CLIP}_depth_5_16_24.pt", f"eval_{CLIP}_mask_5_16_24.pt", "short_5_16_24.pt"]
    clip = files[f"eval_{CLIP}_depth_5_16_24.pt"]
    assert (tuple(clip["vae_latent"].shape), clip["prompt_raw"]) == ((16, 2, 2, 3), "A red bowl and an old cup.")


def test_a_video_without_a_row_is_stale_and_its_manifest_is_taken_away_so_that_the_next_run_makes_it(made):
    write_jsonl(made.event_manifest, [ok("long", frames=40, height=16, width=24)])
    with pytest.raises(Fault, match="fault_stale"):
        members(made, "sections")
    assert not made.event_manifest.exists()


def test_a_clip_without_a_row_of_controls_is_stale(made):
    write_jsonl(made.clip_manifest, [])
    with pytest.raises(Fault, match="fault_stale"):
        members(made, "whole", clips=True)


def test_records_are_read_once_in_a_job(made, monkeypatch):
    looks = []

    def read(path, settings):
        looks.append(path)
        return Records((), ())

    monkeypatch.setattr(sets, "read_records", read)
    roots, about = made.flags("sections", clips=False)
    books = f"--books={made.root / 'books'}"
    line = [f"--stage={made.root / 'p'}", f"--shard={ONE}", "--key=k", books, *roots, *about, "--records=r", "--videos=v", "--control-videos=c"]
    sets.members_of(plan_latents.arguments.parse_args(line), ONE)
    assert looks == [Path("r")]


def test_what_a_stage_refused_of_a_clip_is_a_member_of_each_kind_with_its_verdict(made):
    write_jsonl(made.clip_manifest, [{"id": CLIP, "status": "quarantined", "code": "E_X", "where": "w", "found": "f", "expected": "e", "hint": "h"}])
    verdicts = {one.id: one.verdict["code"] for one in members(made, "whole", clips=True) if one.source == "clips"}
    assert verdicts == {f"eval_{CLIP}_{kind}": "E_X" for kind in ("depth", "mask")}
