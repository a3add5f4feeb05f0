"""The contract holds for plan_latents, encode_text and verify_latents.

The first and the last write no file of an item: what they say of it is its row alone. Where the contract speaks of an item's own file, the fact here is that
rows come back as they were. The main output is the manifest for the first, the file that is looked at for the last. What the steps before would leave is
written by the tests.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shardwork.digests import both_digests
from shardwork.jsonio import dumps
from shardwork.run import write_manifest
from shardwork.shards import shard_of
from shardwork.step import Fields
from tests.contract.contract import ROOT, StageContract, World
from tests.contract.latents_steps import REFUSED, run_here
from tests.contract.test_contract_latents import LatentsWorld, item_of, uttid_of
from tests.vidlatents.tiny_models import content
from vidlatents.stage import ENCODE_STEP, PLAN_STEP, TEXT_SHARD, TEXT_STEP, VERIFY_STEP, embedding_of, latents_place, plans_place, text_place
from vidlatents.store import save_sample
from vidlatents.text_step import read_embedding

SHARD = "0000-of-0001"


class StepWorld(World):
    """A step whose quiet runs are made in this process, and whose disturbed ones in processes of their own."""

    step: str

    def flags(self, shard: str, workers: int) -> list[str]:
        """Return the flags of the command, once what the steps before leave is there."""
        raise NotImplementedError

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        return [sys.executable, str(ROOT / "tests" / "contract" / "latents_steps.py"), self.step, *self.flags(shard, workers), *flags]

    def run(self, work_shards: int = 1, workers: int = 1, *flags: str) -> str:
        if workers > 1:
            return super().run(work_shards, workers, *flags)
        said = ""
        for shard in self.shards(work_shards):
            code, more = run_here(self.step, [*self.flags(shard, 0), *flags])
            assert code == 0, more
            said += more
        return said


class PlansWorld(StepWorld, LatentsWorld):
    step = PLAN_STEP
    bad_status = "quarantined"
    least_disk = 4 << 10

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.home = None
        self.place = plans_place(self.stage)

    def flags(self, shard: str, workers: int) -> list[str]:
        roots = (f"--records={self.data / 'r.jsonl'}", f"--videos={self.data / 'videos'}", f"--control-videos={self.data / 'control_videos'}")
        return [*roots, f"--stage={self.stage}", f"--books={self.folder / 'books'}", f"--shard={shard}", f"--workers={workers}"]

    def manifest(self, shard: str) -> Path:
        return self.place.manifest(PLAN_STEP, shard, "by-hand")

    def output(self, item_id: str) -> Path:
        return self.manifest(SHARD)


class VerifyWorld(StepWorld):
    """Files as encode_latents leaves them, looked at without torch: further levels look at more of a file, which is no matter of the step."""

    step = VERIFY_STEP
    good = (item_of("a"), item_of("b-b"), item_of("NA"))
    bad, bad_code = item_of("short"), "E_FILE_ZIP"
    spare = item_of("spare")
    least_disk = 8 << 10

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.place = latents_place(self.stage, folder / "run" / "latents")
        self.changes: dict[str, int] = {}
        self.prepared: dict[str, object] = {}

    def set_table(self, ids: tuple[str, ...]) -> None:
        self.current = ids

    def change_source(self, item_id: str) -> None:
        self.changes[item_id] = 1

    def shards(self, work_shards: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for item in self.current:
            found.setdefault(shard_of(uttid_of(item), work_shards), []).append(item)
        return dict(sorted(found.items()))

    def flags(self, shard: str, workers: int) -> list[str]:
        self.earlier(shard)
        where = (f"--stage={self.stage}", f"--folder={self.place.home}", f"--shard={shard}", f"--workers={workers}")
        return [*where, "--model=wan21", "--layout=sections", "--level=crc"]

    def earlier(self, shard: str) -> None:
        """Do what encode_latents does where its manifest is gone, or its items have changed: make again what is not as it should be."""
        ids = self.shards(int(shard.rpartition("-")[2]))[shard]
        now = [ids, dict(self.changes)]
        if self.prepared.get(shard) == now and self.place.manifests(ENCODE_STEP, shard):
            return
        self.prepared[shard] = now
        write_manifest(self.place.manifest(ENCODE_STEP, shard, "by-hand"), [self.encoded(item) for item in ids], ids)

    def encoded(self, item: str) -> Fields:
        path, seed = self.sample(item), self.ids().index(item) if item in self.ids() else 9
        data = b"written so " * 200 if item == self.bad else sample_bytes(seed + 10 * self.changes.get(item, 0))
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        xxh3, sha256 = both_digests(path)
        files = {f"../latents/{path.name}": {"bytes": len(data), "digest": xxh3}}
        return {"id": item, "status": "ok", "code": "ok", "uttid": uttid_of(item), "sha256": sha256, "files": files}

    def sample(self, item: str) -> Path:
        assert self.place.home is not None
        return self.place.home / f"{item}.pt"

    def manifest(self, shard: str) -> Path:
        return self.place.manifest(VERIFY_STEP, shard, "by-hand")

    def output(self, item_id: str) -> Path:
        """Return a sample; of the refused one what is set aside, while the manifest of encode_latents still names it."""
        path = self.sample(item_id)
        return path if item_id != self.bad or path.exists() else self.place.aside(path)


@cache
def sample_bytes(seed: int) -> bytes:
    folder = made()
    save_sample(folder / "x.pt", content(seed=seed, height=16, width=24))
    return (folder / "x.pt").read_bytes()


@cache
def made() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp())


class RowsContract(StageContract):
    """Facts of a step that writes rows alone. Its manifest is written by every run, and last: a redo that fails has nothing to keep."""

    tries = {**StageContract.tries, "events": (3,), "at_call": (1,), "cut": ((2, 2),), "spoilt_as": ("truncated", "foreign", "empty", "missing")}
    test_failed_redo_keeps_what_was_there = None  # type: ignore[assignment]
    test_missing_file_is_made_again = None  # type: ignore[assignment] # as one that is spoilt

    def bring_back(self, world: World) -> None:
        """Do what the step before does where this one no longer knows what it has refused and set aside."""

    def test_second_run_makes_nothing_and_changes_no_byte(self, world: World) -> None:
        world.run()
        first = world.everything()
        said = world.run()
        assert f"{len(world.good)} kept" in said and "made" not in said
        assert world.everything() == first

    def test_flipped_byte_is_named_and_mended_under_verify_full(self, world: World, undisturbed: dict[str, Any]) -> None:
        """Under verify=full every item is looked at again, for its sources are all there is to look at."""
        world.run()
        assert f"{len(world.good)} made" in world.run(1, 1, "--verify=full")
        assert world.everything() == undisturbed

    def test_file_that_is_not_ours_is_named_set_aside_and_made_again(self, world: World, undisturbed: dict[str, Any], spoilt_as: str) -> None:
        """A manifest is written over: the journal knows its rows."""
        world.run()
        (manifest,) = map(world.manifest, world.shards(1))
        data = {"truncated": manifest.read_bytes()[:-7], "foreign": b"not one of ours", "empty": b""}.get(spoilt_as)
        manifest.unlink() if data is None else manifest.write_bytes(data)
        assert f"{len(world.good)} kept" in world.run()
        assert world.everything() == undisturbed

    def test_lost_journal_costs_a_check_and_not_the_work(self, world: World, undisturbed: dict[str, Any]) -> None:
        """The check is the work."""
        world.run()
        shutil.rmtree(world.stage / ".journal")
        self.bring_back(world)
        assert f"{len(world.good)} made" in world.run()
        assert world.everything() == undisturbed

    def test_torn_journal_line_costs_one_item_a_check(self, world: World, undisturbed: dict[str, Any]) -> None:
        world.run()
        for journal in (world.stage / ".journal").glob("*/*.jsonl"):
            journal.write_bytes(journal.read_bytes()[:-9])
        assert "1 made" in world.run()
        assert world.everything() == undisturbed

    def test_redo_makes_everything_again(self, world: World, undisturbed: dict[str, Any]) -> None:
        world.run()
        self.bring_back(world)
        assert f"{len(world.good)} made" in world.run(1, 1, "--redo=1")
        assert world.everything() == undisturbed

    def test_changed_source_is_refused_until_the_table_is_made_again_then_redone(self, world: World) -> None:
        """What changed is seen at once, and looked at again."""
        world.run()
        world.change_source(world.good[0])
        assert "1 made" in world.run()
        assert {row["status"] for item_id, row in world.rows().items() if item_id != world.bad} == {"ok"}

    def test_removed_id_is_set_aside_and_comes_back_without_work(self, world: World, undisturbed: dict[str, Any]) -> None:
        """Its row goes, and comes back from the journal."""
        world.run()
        world.set_table(world.ids()[1:])
        world.run()
        assert world.good[0] not in world.rows()
        world.set_table(world.ids())
        assert f"{len(world.good)} kept" in world.run()
        assert world.everything() == undisturbed


class TestPlanLatents(RowsContract):
    world_class = PlansWorld

    def test_row_of_a_changed_video_has_its_digest(self, world: PlansWorld, undisturbed: dict[str, Any]) -> None:
        world.run()
        world.change_source(world.good[0])
        world.run()
        rows, before = world.rows(), undisturbed["rows"]
        changed = {item_id for item_id in world.good if rows[item_id]["video_digest"] != before[item_id]["video_digest"]}
        assert changed == {world.good[0]}


class TestVerifyLatents(RowsContract):
    world_class = VerifyWorld
    tries = {**RowsContract.tries, "at_call": (2,)}  # the first rename sets the refused sample aside, the second is the manifest's

    def bring_back(self, world: World) -> None:
        """A refused sample is missed then (fault_stale), and encode_latents brings it back."""
        assert isinstance(world, VerifyWorld)
        world.prepared.clear()

    def test_torn_journal_line_costs_one_item_a_check(self, world: World, undisturbed: dict[str, Any]) -> None:
        """The last line is of the refused sample."""
        world.run()
        (journal,) = (world.stage / ".journal").glob("*/*.jsonl")
        assert world.bad in journal.read_text().splitlines()[-1]
        journal.write_bytes(journal.read_bytes()[:-9])
        self.bring_back(world)
        assert f"{len(world.good)} kept" in world.run()
        assert world.everything() == undisturbed

    @pytest.mark.parametrize("kind", ["flipped", "missing"])
    def test_sample_that_is_not_as_written_is_set_aside_and_made_again(self, world: VerifyWorld, undisturbed: dict[str, Any], kind: str) -> None:
        world.run()
        spoilt = world.sample(world.good[1])
        data = bytearray(spoilt.read_bytes())
        data[len(data) // 2] ^= 1
        spoilt.unlink() if kind == "missing" else spoilt.write_bytes(data)
        code, said = run_here(VERIFY_STEP, world.flags(SHARD, 0))
        assert code == 1 and "[fault_stale]" in said and spoilt.name in said
        assert not spoilt.exists() and (world.place.quarantine / spoilt.name).exists() is (kind == "flipped")
        assert not world.place.manifests(ENCODE_STEP, SHARD), "the same command of the workflow makes the file again"
        world.run()
        assert world.everything() == undisturbed

    def test_wrong_flag_is_bad_input_before_anything_starts(self, world: World) -> None:
        """The manifest of encode_latents is there before."""
        done = world.run_shard(SHARD, 1, "--no-such-flag")
        assert done.returncode == 2
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
        assert not (world.stage / ".journal").exists()

    def test_no_sample_that_is_whole_is_touched(self, world: VerifyWorld) -> None:
        world.flags(SHARD, 0)
        before = {path.name: path.stat().st_mtime_ns for path in map(world.sample, world.good)}
        world.run()
        self.bring_back(world)
        world.run(1, 1, "--redo=1")
        assert {path.name: path.stat().st_mtime_ns for path in map(world.sample, world.good)} == before


def prompt_of(word: str) -> str:
    return REFUSED if word == "refused" else f"the prompt {word}"


def digest(word: str) -> str:
    """Return the sha256 of a prompt in which there is nothing to clean."""
    return hashlib.sha256(prompt_of(word).encode()).hexdigest()


class TextWorld(StepWorld):
    """All prompts are one shard, whatever number is asked for; an item is a prompt, whose digest is its id."""

    step = TEXT_STEP
    good = (digest("one"), digest("two"), digest("of three words"))
    bad, bad_code, spare = digest("refused"), "E_NONFINITE", digest("late")
    prompts = {digest(word): prompt_of(word) for word in ("one", "two", "of three words", "refused", "late")}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.books, self.weights = folder / "run", folder / "weights"
        self.stage = self.books / "text"
        self.plans, self.place = plans_place(folder / "plans"), text_place(self.stage)
        self.write_weights(0)

    def write_weights(self, last: int) -> None:
        """Write what a card is made of; the stand-in loads none of it."""
        header = dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
        weights = len(header).to_bytes(8, "little") + header + bytes([last])
        for name, data in {"text_encoder/config.json": b"{}", "text_encoder/model.safetensors": weights, "tokenizer/tokenizer_config.json": b"{}"}.items():
            path = self.weights / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def set_table(self, ids: tuple[str, ...]) -> None:
        self.current = ids
        # two samples of each prompt: it is encoded once
        rows: list[Fields] = [
            {"id": f"{name}{item[:8]}", "status": "ok", "code": "ok", "uttid": f"{name}{item[:8]}", "prompt": self.prompts[item], "prompt_digest": item}
            for item in ids
            for name in ("x", "y")
        ]
        write_manifest(self.plans.manifest(PLAN_STEP, SHARD, "by-hand"), rows, [str(row["id"]) for row in rows])

    def change_source(self, item_id: str) -> None:
        self.write_weights(1)

    def shards(self, work_shards: int) -> dict[str, list[str]]:
        return {TEXT_SHARD: list(self.current)}

    def flags(self, shard: str, workers: int) -> list[str]:
        where = (f"--plans={self.plans.stage}", "--shards=0/1", f"--books={self.books}", f"--weights={self.weights}")
        return [*where, "--device=cpu", f"--workers={workers}"]

    def manifest(self, shard: str) -> Path:
        return self.place.manifest(TEXT_STEP, shard, "by-hand")

    def output(self, item_id: str) -> Path:
        from vidlatents.card import text_card

        return embedding_of(self.place, item_id, text_card(self.weights).short)


class TestEncodeText(StageContract):
    world_class = TextWorld

    def test_changed_source_is_refused_until_the_table_is_made_again_then_redone(self, world: World) -> None:
        """Another prompt is another item. What else an embedding is made from is the text encoder: all are made again at once, and the old ones set aside."""
        world.run()
        old = set(map(world.output, world.good))
        world.change_source(world.good[0])
        assert f"{len(world.good)} made" in world.run()
        assert not any(path.exists() for path in old)
        assert all((world.stage / "quarantine" / "embeds" / path.name).exists() for path in old)
        assert all(world.output(item_id).exists() for item_id in world.good)

    def test_prompt_of_several_samples_is_encoded_once_and_read_as_it_was_encoded(self, world: World, undisturbed: dict[str, Any]) -> None:
        world.run()
        embed, mask = read_embedding(world.output(digest("of three words")))
        assert sorted(undisturbed["rows"]) == sorted(world.ids())
        assert int(mask.sum()) == 5 and embed.shape == (512, 1024)
        assert embed[:5].unique().tolist() == [len("the prompt of three words")] and not embed[5:].any()
