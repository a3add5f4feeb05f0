"""Clips of finished assets, made by the steps of the workflow in this process, with the CPU seconds of each part. For benchmarks/clips*.py."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.composite.composite_step import Stock as Beside
from sam3dvid.composite.composite_step import composite_step
from sam3dvid.composite.origin import Origin, read_origin
from sam3dvid.composite.settings import CompositeSettings
from sam3dvid.composite.validate_step import validate_step
from sam3dvid.controls.controls_step import controls_step
from sam3dvid.controls.settings import ControlSettings
from sam3dvid.plan.catalogue import Meshes, read_assets
from sam3dvid.plan.draw import draw_num_objects
from sam3dvid.plan.plan_step import plan_step, stock_of
from sam3dvid.plan.planfile import read_plan
from sam3dvid.plan.planner import Stock, plan_clip
from sam3dvid.plan.settings import PlanSettings
from sam3dvid.render.render_step import render_step
from sam3dvid.render.settings import RenderHost, RenderSettings
from sam3dvid.stage import ClipPlaces, asset_of, clip_controls_of, clip_name, clip_of, clip_places, plan_of, render_of, seed_of
from shardwork.journal import look
from shardwork.jsonio import Json, read_json
from shardwork.step import Item
from shardwork.streams import stream

RENDERED = ("colours", "visible", "amodal", "encode")
"""Parts of rendering that its record counts. What it does beside them is called setup here: import, reading back, digests, the record."""
REST = ("planning", "setup", *RENDERED[1:], "compositing", "validation")
"""Parts of a clip that are no colours. Control videos are no part of the dataset."""

CHOICE = 15
"""Clips that a typical one is chosen from."""


def add_stock(arguments) -> None:
    """Add the flags that say what clips are made of: the demo's assets and backgrounds, if nothing else is named."""
    arguments.add_argument("--dataset", type=Path, default=Path("results/demo/dataset"), help="holds at least four finished assets of the split")
    arguments.add_argument("--pool", type=Path, default=Path("results/demo/pools/polyhaven"), help="folder of frozen backgrounds")
    arguments.add_argument("--split", default="eval")


def stock_from(args) -> Stock:
    """Return what the flags name."""
    return stock_of(args.split, read_assets(args.dataset, args.split), read_pool(args.pool), args.dataset)


def clips_with(num_objects: int, split: str) -> Iterator[str]:
    """Yield the ids of clips with so many objects, in order."""
    return (one for one in map(clip_name, range(100_000)) if draw_num_objects(stream(seed_of(one, split), "num_objects")) == num_objects)


def typical_clip(num_objects: int, stock: Stock) -> str:
    """Return which of the first CHOICE clips with so many objects shows nearly their mean of pixels: one may fill half the frame, another a fiftieth."""
    small = PlanSettings(frames=4, width=64, height=64)
    ids = list(islice(clips_with(num_objects, stock.split), CHOICE))
    covered = {one: sum(map(sum, plan_clip(one, stock, small)["visibility"]["visible_px"])) for one in ids}
    mean = sum(covered.values()) / len(covered)
    return min(ids, key=lambda one: abs(covered[one] - mean))


def meshes_of(plan: dict[str, Json], dataset: Path) -> list[Path]:
    """Return the mesh of each object."""
    return [asset_of(dataset, one["asset_id"], plan["split"]) / "mesh.glb" for one in plan["objects"]]


def cpu_seconds() -> float:
    """Return what this process and those that it waited for have used, of all threads."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@contextmanager
def count(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Note the CPU seconds of what is done inside."""
    before = cpu_seconds()
    yield
    seconds[name] = cpu_seconds() - before


@dataclass(frozen=True, slots=True)
class Made:
    """A clip.   plan : its plan.   seconds : part -> CPU seconds.   folder : of its render.   record : of its render.   covered : objects' pixels a frame."""

    plan: dict[str, Json]
    seconds: dict[str, float]
    folder: Path
    record: dict[str, Json]
    covered: float

    @property
    def rest(self) -> float:
        """Return the CPU seconds of all but colours."""
        return sum(self.seconds[name] for name in REST)


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where clips are made: an empty folder, in which a dataset has the assets of another."""

    stock: Stock
    pool: Path
    places: ClipPlaces
    dataset: Path
    origin: Origin

    def make(self, clip_id: str, settings: PlanSettings, render: RenderSettings, host: RenderHost) -> Made:
        """Make a clip from plan to control videos. Meshes are read anew, as where assets are many. Raises AssetRefused for a clip that is not valid."""
        split, places = self.stock.split, self.places
        seconds: dict[str, float] = {}
        stock = replace(self.stock, shape_of=Meshes(self.dataset, split))
        plan_file, rendered = plan_of(places.plans, clip_id, split), render_of(places.renders, clip_id, split)
        with count(seconds, "planning"):
            about = plan_step(settings, stock).run_item(Item(clip_id, {}, (plan_file,)))
        plan = read_plan(plan_file)
        item = Item(clip_id, {"scene": about["scene"], "split": split}, (rendered,), (plan_file,))
        with count(seconds, "setup"):
            render_step(render, host, self.dataset).run_item(item)
        noted = read_json(rendered / "render.json")
        seconds |= {name: noted["timing"]["cpu_seconds"].get(name, 0.0) for name in RENDERED}
        seconds["setup"] -= sum(seconds[name] for name in RENDERED)
        clip = clip_of(self.dataset, clip_id, split)
        with count(seconds, "compositing"):
            composite_step(CompositeSettings(), Beside(places.plans, self.pool, self.origin)).run_item(Item(clip_id, item.inputs, (clip,), (rendered,)))
        inputs = {"split": split, "digest": (look(clip, True) or {})["digest"]}
        with count(seconds, "validation"):
            validate_step(self.dataset, any_size=True).run_item(Item(clip_id, inputs, (), (clip,)))
        with count(seconds, "controls"):
            controls_step(ControlSettings()).run_item(Item(clip_id, inputs, clip_controls_of(places.controls, clip_id, split), (clip,)))
        pixels = noted["record"]["visible_px"]
        return Made(plan, seconds, rendered, noted["record"], sum(map(sum, pixels)) / len(pixels))


def workshop(args, folder: Path) -> Workshop:
    """Return a workshop in an empty folder, with what the flags name."""
    dataset = folder / "dataset"
    dataset.mkdir()
    (dataset / "assets").symlink_to((args.dataset / "assets").resolve())
    places = clip_places(folder / "plans", folder / "renders", folder / "clips", dataset, folder / "controls")
    return Workshop(stock_from(args), args.pool, places, dataset, read_origin())
