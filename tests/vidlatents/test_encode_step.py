"""The step encode_latents: what a change remakes, what a row says of who made it, and a disk that fills up. The autoencoder is a stand-in."""

import errno
import io
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from shardwork.errors import DataError, Fault
from shardwork.run import Options, run_guard, run_shard
from tests.contract.latents_stage import pooled
from tests.vidlatents.pairs import minimal, settings_of, write_pair, write_records
from vidlatents import store
from vidlatents.card import Card
from vidlatents.encode_step import Encoder, VaeModel, encode_items
from vidlatents.members import record_members
from vidlatents.plan_step import digest_of, plan_items, plan_step
from vidlatents.records import read_records
from vidlatents.room import check_room, embeddings_need, samples_need
from vidlatents.settings import EncodeFlags, SetSettings
from vidlatents.stage import PLAN_STEP, embedding_of, latents_place, output_of, plans_place, sidecar_of, text_place
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


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path)


def test_a_second_run_with_the_same_settings_writes_nothing(work):
    work.run()
    assert work.made_anew() == 0


@pytest.mark.parametrize(
    "change",
    [{"vae": OTHER_VAE}, {"text": TINY_TEXT}, {"dtype": "bfloat16"}, {"how": "mode"}, {"seed": 1}, {"memory_gib": 0.5}, {"fallback_gib": 0.5}],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_all_samples_remakes_all(work, change, monkeypatch):
    monkeypatch.setattr(EncodeFlags, "tilings", lambda self, *size: tuple(Tiling(16, 16, 8) if gib else None for gib in (self.memory_gib, self.fallback_gib)))
    work.run()
    assert work.made_anew(**change) == 2


def test_a_changed_video_remakes_its_own_sample_alone(work, tmp_path):
    work.run()
    (tmp_path / "control_videos" / "a.mp4").write_bytes((tmp_path / "videos" / "a.mp4").read_bytes())
    work.plan()
    assert work.made_anew() == 1


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


def test_of_an_adopted_file_neither_autoencoder_nor_tiling_is_said(work):
    work.run()
    work.place.journal("encode_latents", SHARD).unlink()
    for row in work.rows:
        sidecar_of(work.place.stage / "notes", row["id"]).unlink()
    rows = work.run()
    assert {(row["vae"], row["tiling"], row["adopted"]) for row in rows} == {(None, None, 1)}


def test_a_file_that_other_records_books_made_otherwise_is_not_adopted(work, tmp_path):
    """As a front door keeps them: books for each file of records, one folder of notes for a folder of latents."""
    notes = tmp_path / "notes"
    work.run(notes=notes, how="sample")
    before = {path.name: path.read_bytes() for path in work.place.folders[0].iterdir()}
    work.place = replace(latents_place(tmp_path / "other", work.place.folders[0]), before=work.plans)
    rows = work.run(notes=notes, how="mode")
    assert {row["adopted"] for row in rows} == {0}
    assert all(path.read_bytes() != before[path.name] for path in work.place.folders[0].iterdir())


class FullDisk(io.FileIO):
    """A file on a disk that takes some bytes and is full."""

    def write(self, data):
        super().write(memoryview(data)[:2000])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_fills_up_is_a_fault_and_the_next_run_goes_on(work, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(store, "open", lambda path, mode: FullDisk(path, mode.replace("b", "")), raising=False)
        with pytest.raises(Fault, match="fault_disk"):
            work.run()
    assert not work.place.manifests("encode_latents", SHARD) and list(work.place.folders[0].iterdir()) == []
    assert [row["status"] for row in work.run()] == ["ok", "ok"]


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


def test_samples_that_are_there_need_no_room(work):
    work.run()
    assert samples_need(work.rows, work.place, "bfloat16") == {work.place.folders[0]: 0}
    output_of(work.place, work.rows[0]["name"]).unlink()
    assert samples_need(work.rows, work.place, "bfloat16")[work.place.folders[0]] > 512 * 4096 * 2
