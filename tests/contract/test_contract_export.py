"""The contract of release shards holds for exports of clips."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("webdataset", reason="webdataset writes the tars: it comes with the extra `clips`")

from shardwork.jsonio import dumps
from tests.contract.contract import ROOT
from tests.contract.release import PER_SHARD, ReleaseContract, ReleaseWorld
from tests.sam3dvid.datasets import Clip, write_dataset
from tests.sam3dvid.exported_datasets import change_json

SPLIT = "train"
# of one object each, so that one's masks may stand in the other's place
MADE = (Clip(SPLIT, "90000000", (0,), "ph_street_v0"), Clip(SPLIT, "90000001", (1,), "ph_lane_v0", start_azimuth_deg=90.0))


@pytest.fixture(scope="module", autouse=True)
def made(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make the dataset whose clips every world copies."""
    ExportWorld.made = write_dataset(tmp_path_factory.mktemp("made") / "dataset", MADE, frames=2, size=64)


class ExportWorld(ReleaseWorld):
    units = ("00000031", "00000002", "90000000", "00000000", "00000010", "00000009", "12345678")
    late = "99999999"
    made: Path

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.dataset, self.shards = folder / "dataset", folder / "export"
        self.declared = self.shards / "index.json"
        shutil.copytree(self.made / "assets", self.dataset / "assets")
        for index, unit in enumerate(sorted((*self.units, self.late))):
            # two after two: the first and the third differ
            shutil.copytree(self.made / MADE[index // 2 % 2].path, self.folder_of(unit))
            change_json(self.folder_of(unit) / "meta.json", clip_id=unit)

    def folder_of(self, unit: str) -> Path:
        return self.dataset / "clips" / SPLIT / unit

    def set_units(self, ids: tuple[str, ...]) -> None:
        lines = [{"clip_id": unit, "split": SPLIT, "path": f"clips/{SPLIT}/{unit}"} for unit in ids]
        (self.dataset / "manifest.jsonl").write_text("".join(dumps(line) + "\n" for line in lines))

    def source(self, unit: str) -> Path:
        return self.folder_of(unit) / "mask_visible" / "000.png"

    def command(self, workers: int, per_shard: int, *flags: str) -> list[str]:
        where = (f"--dataset={self.dataset}", f"--out={self.shards}", f"--split={SPLIT}", "--any-size")
        # finished shards are always compared by digest
        more = [flag.replace("--members-per-shard", "--clips-per-shard") for flag in flags if flag != "--verify=full"]
        return [sys.executable, str(ROOT / "scripts" / "export_clips.py"), *where, f"--clips-per-shard={per_shard}", f"--workers={workers}", *more]


class TestExport(ReleaseContract):
    world_class = ExportWorld

    @pytest.fixture
    def packed(self, world: ReleaseWorld, quiet: ReleaseWorld) -> ReleaseWorld:
        shutil.copytree(quiet.shards, world.shards)
        return world

    @pytest.mark.parametrize("kind", ["flipped", "longer", "missing"])
    def test_source_that_changed_since_the_manifest_is_named_and_not_packed(self, world: ReleaseWorld, undisturbed, kind: str) -> None:
        """The plan is made of the clips as they are: what is missing shows before anything is written, and what is mended makes another plan."""
        source = world.source(sorted(world.units)[2])
        data = source.read_bytes()
        source.unlink() if kind == "missing" else source.write_bytes({"flipped": data[:-1] + bytes([data[-1] ^ 1]), "longer": data + b"x"}[kind])
        done = world.start(2)
        assert done.returncode == 2 and "[bad_clip]" in done.stderr and str(source) in done.stderr
        assert len(world.tars()) == (0 if kind == "missing" else 3), "the other shards are made"
        self.nothing_is_wrong(world, undisturbed)
        assert not world.declared.exists()
        source.write_bytes(data)
        assert ("4 made" if kind == "missing" else "3 kept, 1 made") in world.run(0, PER_SHARD, "--replan")
        assert world.everything() == undisturbed
