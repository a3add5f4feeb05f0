"""The step encode_latents: what a change remakes, what a row says of who made it, and a disk that fills up. The autoencoder is a stand-in."""

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from shardwork.digests import xxh3_file
from shardwork.errors import DataError, Fault
from shardwork.gate import LOOK_AGAIN
from shardwork.run import Options, run_guard, run_shard
from tests.contract.latents_stage import pooled
from tests.vidlatents.full_disk import full_after
from tests.vidlatents.pairs import count_digests, minimal, settings_of, write_pair, write_records
from vidlatents import encode, store
from vidlatents.card import Card
from vidlatents.encode import encode_pair
from vidlatents.encode_step import Encoder, VaeModel, encode_items
from vidlatents.members import record_members
from vidlatents.plan_step import digest_of, plan_items, plan_step
from vidlatents.records import read_records
from vidlatents.room import check_room, embeddings_need, samples_need
from vidlatents.settings import EncodeFlags, SetSettings
from vidlatents.stage import PLAN_STEP, embedding_of, latents_branch, latents_place, output_of, plans_place, sidecar_of, text_place
from vidlatents.text_step import text_items
from vidlatents.tiling import Tiling

SHARD = "0000-of-0001"
SIZE = (16, 24)
VAE, OTHER_VAE = Card("wan21", "c", "w", 10**8, False), Card("wan21", "c", "other", 10**8, False)
TEXT, TINY_TEXT = Card("umt5", "c", "w", 10**9, False), Card("umt5", "c", "tiny", 100, True)


class Work:
    """Two planned samples of one prompt, and its embedding, as the steps before leave them."""

    def __init__(self, root, text_dtype=torch.bfloat16):
        for uttid in ("a", "b"):
            write_pair(root, uttid, 33, 33, SIZE)
        records = write_records(root / "r.jsonl", [minimal(uttid, 33, *SIZE) for uttid in ("a", "b")])
        self.roots = {"records": (root / "videos", root / "control_videos")}
        self.plans, self.texts = plans_place(root / "plans"), text_place(root / "text")
        self.place = replace(latents_place(root / "books", root / "latents"), before=self.plans)
        self.members = record_members(read_records(records, settings_of(root)))
        self.plan()

    def plan(self):
        self.rows = run_shard(plan_step(SetSettings(), self.roots), SHARD, plan_items(self.members, self.roots), self.plans, Options(0))

    def embedded(self, text):
        """Return the rows of encode_text for an encoder."""
        found = {}
        for row in self.rows:
            path = embedding_of(self.texts, row["prompt_digest"], text.short)
            path.parent.mkdir(parents=True, exist_ok=True)
            save_file({"embed": torch.full((3, 8), len(text.weights), dtype=torch.bfloat16)}, path)
            found[row["prompt_digest"]] = {"status": "ok", "files": {f"embeds/{path.name}": {"digest": digest_of(path)}}}
        return found

    def encoder(self, vae=VAE, text=TEXT, notes=None, **flags):
        settings = EncodeFlags(**flags)
        return Encoder(VaeModel("", "wan21", settings.dtype, "cpu", vae), text, settings, self.roots, self.place, self.texts, 1, pooled, notes)

    def run(self, **more):
        encoder = self.encoder(**more)
        texts = self.embedded(encoder.text)
        return run_guard(encoder.step(), SHARD, lambda rows: encode_items(rows, texts, encoder), PLAN_STEP, self.place, Options(0))

    def made_anew(self, **more):
        """Return how many samples a run with other settings writes."""
        times = {path: path.stat().st_mtime_ns for path in self.place.folders[0].iterdir()}
        self.run(**more)
        return sum(path.stat().st_mtime_ns != time for path, time in times.items())


FALLBACK = Tiling(16, 16, 8)
TILES = {0.0: None, 0.5: FALLBACK, 0.75: Tiling(8, 16, 0)}


@pytest.fixture
def tiles(monkeypatch):
    """Budgets that cut the small pictures here."""
    monkeypatch.setattr(EncodeFlags, "tilings", lambda self, *size: (TILES[self.memory_gib], TILES[self.fallback_gib]))


@pytest.fixture
def scarce(monkeypatch):
    """The samples whose whole pictures memory does not suffice for."""
    found: set[str] = set()
    plain = encode.encode

    def scant(vae, frames, layout, how, seed_of, tiling=None, *, stream, where):
        if where in found and tiling is None:
            raise DataError("E_OOM", where, "no memory", "memory", "tiles")
        return plain(vae, frames, layout, how, seed_of, tiling, stream=stream, where=where)

    monkeypatch.setattr(encode, "encode", scant)
    return found


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path)


def test_a_second_run_with_the_same_settings_writes_nothing(work):
    work.run()
    assert work.made_anew() == 0


@pytest.mark.parametrize(
    "change",
    [{"vae": OTHER_VAE}, {"text": TINY_TEXT}, {"dtype": "bfloat16"}, {"how": "mode"}, {"seed": 1}, {"memory_gib": 0.5}],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_all_samples_remakes_all(work, change, tiles):
    work.run()
    assert work.made_anew(**change) == 2


def test_a_fallback_that_was_not_needed_remakes_nothing(work, tiles):
    work.run()
    assert work.made_anew(fallback_gib=0.5) == 0


def test_a_fallback_encodes_those_alone_that_memory_did_not_suffice_for(work, tiles, scarce):
    scarce.add("b")
    assert [row["status"] for row in work.run()] == ["ok", "quarantined"]
    (good,) = work.place.folders[0].iterdir()
    time = good.stat().st_mtime_ns
    rows = work.run(fallback_gib=0.5)
    assert [row["tiling"] for row in rows] == [None, FALLBACK.as_json()] and good.stat().st_mtime_ns == time
    assert work.made_anew(fallback_gib=0.5) == 0


@pytest.mark.parametrize("known", ["journal", "note"])
@pytest.mark.parametrize("other", [0.75, 0.0], ids=["another", "none"])
def test_what_was_made_with_a_fallback_holds_with_that_one_alone(work, tiles, scarce, known, other):
    scarce.add("b")
    before = work.run(fallback_gib=0.5)
    if known == "note":
        work.place.journal("encode_latents", SHARD).unlink()
        assert work.run(fallback_gib=0.5) == before
        work.place.journal("encode_latents", SHARD).unlink()
    scarce.clear()
    assert [row["tiling"] for row in before] == [None, FALLBACK.as_json()]
    assert [row["tiling"] for row in work.run(fallback_gib=other)] == [None, None], "memory suffices now"


def test_a_sample_that_another_fallback_outdated_is_replaced_and_not_set_aside(work, tiles, scarce):
    scarce.add("b")
    work.run(fallback_gib=0.5)
    work.run(fallback_gib=0.75)
    assert not list(work.place.quarantine.rglob("*.pt"))


def test_a_video_of_another_name_and_the_same_bytes_remakes_nothing(work, tmp_path):
    before = work.run()
    for folder in ("videos", "control_videos"):
        (tmp_path / folder / "a.mp4").rename(tmp_path / folder / "renamed.mp4")
    records = [minimal("a", 33, *SIZE, path="renamed.mp4", control_path="renamed.mp4"), minimal("b", 33, *SIZE)]
    work.members = record_members(read_records(write_records(tmp_path / "r.jsonl", records), settings_of(tmp_path)))
    work.plan()
    assert {row["video"] for row in work.rows} == {"renamed.mp4", "b.mp4"}
    assert work.made_anew() == 0 and work.run() == before


def test_a_changed_video_remakes_its_own_sample_alone(work, tmp_path):
    work.run()
    (tmp_path / "control_videos" / "a.mp4").write_bytes((tmp_path / "videos" / "a.mp4").read_bytes())
    work.plan()
    assert work.made_anew() == 1


def test_a_video_that_several_samples_are_of_is_read_for_its_digest_once(work, tmp_path, monkeypatch):
    write_pair(tmp_path, "v", 40, 40, SIZE)
    cuts = [minimal(uttid, 33, *SIZE, path="v.mp4", control_path="v.mp4", cut=[start, start + 33]) for start, uttid in enumerate("abc")]
    work.members = record_members(read_records(write_records(tmp_path / "r.jsonl", cuts), settings_of(tmp_path)))
    work.plan()
    for folder in ("videos", "control_videos"):
        os.utime(tmp_path / folder / "v.mp4", ns=(1, 1))  # what the plan read in this process counts no more
    read = count_digests(monkeypatch)
    assert [row["status"] for row in work.run()] == ["ok"] * 3
    assert sorted(path.parent.name for path in read if path.name == "v.mp4") == ["control_videos", "videos"]


def test_a_file_that_was_set_aside_with_its_record_comes_back_by_its_note_though_the_journal_is_gone(work):
    work.run()
    first, members = {path.name: path.stat().st_mtime_ns for path in work.place.home.iterdir()}, work.members
    work.members = members[1:]
    work.plan()
    work.run()
    assert len(list(work.place.home.iterdir())) == 1 == len(list(work.place.quarantine.iterdir()))
    work.place.journal("encode_latents", SHARD).unlink()  # as where a work shard held no record any more
    work.members = members
    work.plan()
    assert {row["adopted"] for row in work.run()} == {0}
    assert {path.name: path.stat().st_mtime_ns for path in work.place.home.iterdir()} == first


def test_a_row_names_the_models_that_made_it(work):
    rows = work.run()
    assert {(row["vae"], row["text_encoder"], row["tiny"], row["adopted"]) for row in rows} == {(VAE.short, TEXT.short, 0, 0)}


@pytest.mark.parametrize(("vae", "text"), [(replace(VAE, tiny=True), TEXT), (VAE, TINY_TEXT)], ids=["vae", "text"])
def test_a_sample_of_either_tiny_model_is_tiny(work, vae, text):
    assert {row["tiny"] for row in work.run(vae=vae, text=text)} == {1}


@pytest.mark.parametrize(("text", "tiny"), [(TEXT, None), (TINY_TEXT, 1)], ids=["released", "tiny"])
def test_of_an_adopted_file_neither_autoencoder_nor_tiling_is_said_and_tiny_by_its_text_alone(work, text, tiny):
    work.run(text=text)
    work.place.journal("encode_latents", SHARD).unlink()
    for row in work.rows:
        sidecar_of(work.place.stage / "notes", row["id"]).unlink()
    rows = work.run(text=text)
    assert {(row["vae"], row["tiling"], row["adopted"], row["tiny"]) for row in rows} == {(None, None, 1, tiny)}


def test_an_adopted_file_is_kept_whatever_the_fallback(work, tiles):
    work.run(memory_gib=0.5)
    work.place.journal("encode_latents", SHARD).unlink()
    for row in work.rows:
        sidecar_of(work.place.stage / "notes", row["id"]).unlink()
    work.run(memory_gib=0.5)
    assert work.made_anew(memory_gib=0.5, fallback_gib=0.75) == 0


def test_a_file_that_other_records_books_made_otherwise_is_not_adopted(work, tmp_path):
    """As a front door keeps them: books for each file of records, one folder of notes for a folder of latents."""
    notes = tmp_path / "notes"
    work.run(notes=notes, how="sample")
    before = {path.name: path.read_bytes() for path in work.place.folders[0].iterdir()}
    work.place = replace(latents_place(tmp_path / "other", work.place.folders[0]), before=work.plans)
    rows = work.run(notes=notes, how="mode")
    assert {row["adopted"] for row in rows} == {0}
    assert all(path.read_bytes() != before[path.name] for path in work.place.folders[0].iterdir())


def test_a_disk_that_fills_up_is_a_fault_and_the_next_run_goes_on(work, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(store, "open", full_after(2000), raising=False)
        with pytest.raises(Fault, match="fault_disk"):
            work.run()
    assert not work.place.manifests("encode_latents", SHARD) and list(work.place.folders[0].iterdir()) == []
    assert [row["status"] for row in work.run()] == ["ok", "ok"]


def test_a_sample_that_memory_did_not_suffice_for_is_tried_again_after_a_gate_that_failed_and_no_other_is_made_anew(work, monkeypatch):
    def small(vae, rgb, control, settings, seeds, where):
        if where == "a":
            raise DataError("E_OOM", where, "no memory", "more", "wait")
        return encode_pair(vae, rgb, control, settings, seeds, where)

    with monkeypatch.context() as patch:
        patch.setattr("vidlatents.encode.encode_pair", small)
        refused = [row["id"] for row in work.run() if row.get("code") in LOOK_AGAIN]
    assert refused == ["a_33_16_24"]
    latents_branch("sections", {SHARD: tuple(row["id"] for row in work.rows)}, work.plans, work.place).look_again(refused)
    assert not work.plans.manifests(PLAN_STEP, SHARD)
    work.plan()
    assert work.made_anew() == 0 and sorted(path.name for path in work.place.folders[0].iterdir()) == ["a_33_16_24.pt", "b_33_16_24.pt"]


def test_a_disk_without_room_is_said_before_anything_is_written(work, monkeypatch):
    """Two samples of (1, 16, 9, 2, 3) float32 twice, an embedding of 512 x 4096 bfloat16 and a picture of 16 x 24 each, and one embedding by itself."""
    embedding = 512 * 4096 * 2
    expected = 2 * (2 * 4 * 16 * 9 * 2 * 3 + embedding + 16 * 24 * 3)
    needs = samples_need(work.rows, work.place, "bfloat16"), embeddings_need(text_items(work.rows, work.texts, "x"), work.texts, "bfloat16")
    assert [list(one.values()) for one in needs] == [[expected], [embedding]]
    both, asked = {**needs[0], **needs[1]}, round(1.05 * (expected + embedding))
    monkeypatch.setattr("vidlatents.room.shutil.disk_usage", lambda path: SimpleNamespace(free=asked - 1))
    with pytest.raises(DataError, match="E_DISK") as caught:
        check_room(both)
    assert not isinstance(caught.value, Fault)
    monkeypatch.setattr("vidlatents.room.shutil.disk_usage", lambda path: SimpleNamespace(free=asked))
    check_room(both)


def test_room_is_asked_of_the_nearest_folder_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("vidlatents.room.shutil.disk_usage", lambda path: SimpleNamespace(free=0))
    with pytest.raises(DataError, match="E_DISK") as caught:
        check_room({tmp_path / "new": 1000})
    assert caught.value.where == str(tmp_path)


def test_samples_that_are_there_need_no_room(work):
    work.run()
    assert samples_need(work.rows, work.place, "bfloat16") == {work.place.folders[0]: 0}
    output_of(work.place, work.rows[0]["name"]).unlink()
    assert samples_need(work.rows, work.place, "bfloat16")[work.place.folders[0]] > 512 * 4096 * 2


class Killed(BaseException):
    """The end of a process, which nothing catches."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_killed_as_a_sample_gets_its_name_has_kept_its_note_and_goes_on_to_the_same_bytes(work, tmp_path, monkeypatch, when):
    """Before: nothing but the note is there. After: no journal knows the file, and the next run takes it for its own and draws nothing anew."""
    quiet = Work(tmp_path / "quiet")
    rows, quiet_files = quiet.run(), {path.name: path.read_bytes() for path in quiet.place.folders[0].iterdir()}
    first = output_of(work.place, work.rows[0]["name"])
    note = sidecar_of(work.place.stage / "notes", work.rows[0]["id"])
    noted = []

    def replace_and_die(source, target, rename=os.replace):
        if target == first:
            noted.append((json.loads(note.read_bytes())["xxh3"], xxh3_file(source)))
            if when == "after":
                rename(source, target)
            raise Killed
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("shardwork.files.os.replace", replace_and_die)
        with pytest.raises(Killed):
            work.run()
    assert [of_note == of_file for of_note, of_file in noted] == [True]
    assert first.exists() is (when == "after")
    time = first.stat().st_mtime_ns if when == "after" else None
    assert work.run() == rows
    assert {path.name: path.read_bytes() for path in work.place.folders[0].iterdir()} == quiet_files
    assert not work.place.quarantine.exists() and time in (None, first.stat().st_mtime_ns)


def test_a_kill_between_the_note_of_a_changed_sample_and_its_file_costs_no_second_content(work, monkeypatch):
    """The old file then stands beside the note of the new one: it is neither adopted nor set aside, but replaced."""
    work.run()
    first = output_of(work.place, work.rows[0]["name"])
    old = first.read_bytes()

    def die(source, target, rename=os.replace):
        if target == first:
            raise Killed
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("shardwork.files.os.replace", die)
        with pytest.raises(Killed):
            work.run(how="mode")
    assert first.read_bytes() == old
    rows = work.run(how="mode")
    made = first.read_bytes()
    assert made != old and {row["adopted"] for row in rows} == {0} and not work.place.quarantine.exists()
    assert work.made_anew(how="mode") == 0 and first.read_bytes() == made


def test_a_note_that_a_kill_left_half_written_is_cleared_and_those_of_other_shards_are_not(work):
    notes = work.place.stage / "notes"
    notes.mkdir(parents=True)
    ours, theirs = (notes / f".{name}.json.0123456789ab.tmp" for name in (work.rows[0]["id"], "other_33_16_24"))
    for path in (ours, theirs):
        path.write_text("{")
    work.run()
    assert not ours.exists() and theirs.exists()
