"""Plans with their renders, made without Blender: masks and depth are ray cast, colours are painted. With assets and a pool that hold what the format asks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

from sam3dvid.assets.mesh import read_canonical
from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.conventions import pose_in_camera
from sam3dvid.plan.catalogue import read_assets
from sam3dvid.plan.plan_step import plan_items, plan_step, stock_of
from sam3dvid.plan.planfile import read_plan
from sam3dvid.raycast import Caster, frame_truth
from sam3dvid.stage import PLAN_STEP, RENDER_STEP, plan_of, plans_place, render_of, renders_place
from shardwork.digests import seal, sha256_file
from shardwork.files import atomic_folder
from shardwork.jsonio import write_json
from shardwork.place import Place, the_manifest
from shardwork.run import Options, run_shard
from shardwork.step import Fields, Item, Step, upstream
from tests.sam3dvid.datasets import write_asset, write_frame
from tests.sam3dvid.stock import SMALL, pool_row, write_pool

SPLIT = "eval"
SHARD = "0000-of-333334"
"""Of clips by three."""
LIMITED = replace(SMALL, max_attempts=1, max_position_tries=4)
"""Under which some seeds have no plan."""


def write_photos(folder: Path, slugs: tuple[str, ...] = ("meadow", "street"), size: tuple[int, int] = (512, 256)) -> None:
    """Write a frozen pool of blurred pictures, whose rows are true."""
    rows, pictures = [], {}
    for number, slug in enumerate(slugs):
        name = f"ph_{slug}_v0"
        small = np.random.default_rng(number).integers(0, 255, (8, 16, 3), np.uint8)
        data = cv2.imencode(".png", cv2.resize(small, size, interpolation=cv2.INTER_CUBIC))[1].tobytes()
        known = {"source": "polyhaven", "split_key": slug, "file": f"{SPLIT}/{name}.png", "authors": ["A. Maker"], "projection": {"view": 0}}
        rows.append(pool_row(name, *size, data=data) | known)
        pictures[name] = data
    write_pool(folder, rows, pictures)


class Renders:
    """A folder with finished assets, a pool, plans and renders."""

    def __init__(self, folder: Path, assets: int = 5, settings=SMALL) -> None:
        self.folder, self.settings = folder, settings
        self.dataset, self.pool = folder / "run" / "dataset", folder / "pool"
        self.plans: Place = plans_place(folder / "run" / "plans")
        self.renders: Place = renders_place(folder / "run" / "renders", self.plans)
        for number in range(assets):
            write_asset(self.dataset, SPLIT, number)
        write_photos(self.pool)

    def plan(self, clip_ids: list[str], shard: str = SHARD) -> list[Fields]:
        """Plan clips; return their rows."""
        assets, pool = read_assets(self.dataset, SPLIT), read_pool(self.pool)
        step = plan_step(self.settings, stock_of(SPLIT, assets, pool, self.dataset))
        return run_shard(step, shard, plan_items(clip_ids, SPLIT, assets, pool, self.plans), self.plans, Options(workers=0))

    def render(self, shard: str = SHARD, redo: int = 0) -> list[Fields]:
        """Render the planned clips; return their rows. Another `redo` gives objects other colours."""
        items = []
        for row in the_manifest(self.plans, PLAN_STEP, shard):
            outputs = (render_of(self.renders, row["id"], SPLIT),)
            if row["status"] == "ok":
                items.append(Item(row["id"], {"scene": row["scene"]}, outputs))
            else:
                items.append(Item(row["id"], None, outputs, verdict=upstream(row, PLAN_STEP)))
        step = Step(RENDER_STEP, 1, {}, lambda item: self._paint(item, redo))
        return run_shard(step, shard, items, self.renders, Options(workers=0, redo=redo))

    def plan_path(self, clip_id: str) -> Path:
        return plan_of(self.plans, clip_id, SPLIT)

    def read_plan(self, clip_id: str):
        return read_plan(self.plan_path(clip_id))

    def folder_of(self, clip_id: str) -> Path:
        return render_of(self.renders, clip_id, SPLIT)

    def _paint(self, item: Item, redo: int) -> Fields:
        plan = self.read_plan(item.id)
        with atomic_folder(item.outputs[0]) as temp:
            paint(plan, self.dataset, temp, redo)
            finish(temp, item.fingerprint)
        return {"split": SPLIT}


def paint(plan, dataset: Path, folder: Path, redo: int = 0) -> None:
    """Write the pictures of a render."""
    objects, cameras = plan["objects"], plan["cameras"]
    for name in ("rgb", "rgba_fg", "mask_visible", "depth", *(f"mask_amodal/obj{one['k']}" for one in objects)):
        (folder / name).mkdir(parents=True)
    casters = [Caster(*read_canonical(dataset / one["mesh"])) for one in objects]
    R_wo, t_wo, s_wo = (np.array([one[key] for one in objects]) for key in ("R_wo", "t_wo", "s_wo"))
    rng = np.random.default_rng([plan["seed"], redo])
    for t, frame in enumerate(cameras["frames"]):
        R_co, t_co, _ = pose_in_camera(np.array(frame["T_cw"]), R_wo, t_wo, s_wo)
        truth = frame_truth(casters, R_co, t_co, s_wo[:, 0], np.array(cameras["K"]), cameras["width"], cameras["height"])
        write_frame(folder, t, truth, rng)
    shutil.rmtree(folder / "rgb")


def finish(folder: Path, fingerprint: str = "", timing: dict[str, object] | None = None) -> None:
    """Write a render's record, with the digests of the files as they are now."""
    (folder / "render.json").unlink(missing_ok=True)
    files = {path.relative_to(folder).as_posix(): sha256_file(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    record = {"blender_version": "4.5.15", "files": files, "read_back": {"K_px": 0.0}}
    noted = {"fingerprint": fingerprint, "record": record, "settings": {"samples": 4}, "timing": timing or {"device": "CPU"}}
    write_json(folder / "render.json", seal(noted))
