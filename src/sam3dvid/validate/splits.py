"""T1, across clips: the configuration, the manifest, and that assets are there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import yaml

from sam3dvid.validate.assets import AssetFacts
from sam3dvid.validate.bounds import MOST_OBJECTS
from sam3dvid.validate.clips import ClipFacts
from sam3dvid.validate.dataset import Unreadable, parse_json, read_bytes
from sam3dvid.validate.kinds import Values, shown
from sam3dvid.validate.layout import listed
from sam3dvid.validate.report import LAYOUT, Found
from sam3dvid.validate.schema import CLIP_ID, SPLITS
from shardwork.jsonio import Json

MANIFEST, CONFIG = "manifest.jsonl", "config.yaml"
MANIFEST_KEYS = ("clip_id", "split", "N", "arc_span_deg", "seed", "path")
LARGEST_BYTES, LARGEST_CONFIG_BYTES = 1 << 30, 1 << 20


def look_at_config(found: Found, root: Path) -> None:
    """Note a config.yaml that is no mapping in YAML. What it says is the generator's own matter."""
    try:
        text = read_bytes(root, CONFIG, LARGEST_CONFIG_BYTES).decode("utf-8")
    except Unreadable as error:
        return found.add(LAYOUT, error.problem.where, error.problem.found, error.problem.expected)
    except UnicodeDecodeError as error:
        return found.add(LAYOUT, CONFIG, f"byte {error.start} is not UTF-8", "YAML in UTF-8")
    if not text.strip() or "\0" in text:
        return found.add(LAYOUT, CONFIG, "no text", "the configuration that the dataset was made with")
    if (problem := _not_a_mapping(text)) is not None:
        found.add(LAYOUT, CONFIG, problem, "a mapping in YAML")
    return None


def _not_a_mapping(text: str) -> str | None:
    """Return what a text is that is no mapping in YAML."""
    try:
        # composed, not built: what an unknown tag would make of a value does not matter, and a date that is none neither
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        return f"no YAML ({' '.join(str(error).split())[:200]})"
    if node is None:
        return "an empty document"
    if not isinstance(node, yaml.MappingNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
    return None if node.value else "an empty mapping"


def look_at_manifest(found: Found, root: Path, clips: Collection[tuple[str, str]], looked_at: Sequence[ClipFacts]) -> None:
    """Note where the manifest is not one exact line for each clip.

    clips : (split, clip_id) of every clip's folder.   looked_at : the clips whose files were read.
    """
    try:
        data = read_bytes(root, MANIFEST, LARGEST_BYTES)
    except Unreadable as error:
        return found.add(LAYOUT, error.problem.where, error.problem.found, error.problem.expected)
    lines = data.split(b"\n")
    if lines.pop():
        found.add(LAYOUT, MANIFEST, "no line feed at the end", "a last line that ends in LF")
    facts = {(one.split, one.clip_id): one for one in looked_at}
    told: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        where = f"{MANIFEST}:{number}"
        try:
            content = parse_json(line, where)
        except Unreadable as error:
            found.add(LAYOUT, error.problem.where, error.problem.found, error.problem.expected)
            continue
        name = _line(Values(where, found), content, facts)
        if name is not None:
            told.append(name)
    _look_at_names(found, told, set(clips))
    return None


def _line(values: Values, content: Json, facts: dict[tuple[str, str], ClipFacts]) -> tuple[str, str] | None:
    """Return which clip a line is about, None if it does not say."""
    record = values.record("", content, MANIFEST_KEYS)
    clip_id = values.text("clip_id", record["clip_id"], CLIP_ID) if "clip_id" in record else None
    split = values.text("split", record["split"], "|".join(SPLITS)) if "split" in record else None
    if "N" in record:
        values.whole("N", record["N"], 1, MOST_OBJECTS)
    if "seed" in record:
        values.whole("seed", record["seed"])
    if "arc_span_deg" in record:
        values.number("arc_span_deg", record["arc_span_deg"])
    if clip_id is None or split is None:
        return None
    if "path" in record:
        values.same("path", record["path"], f"clips/{split}/{clip_id}")
    fact = facts.get((split, clip_id))
    if fact is not None:
        for key, wanted in (("N", len(fact.objects) or None), ("seed", fact.seed), ("arc_span_deg", fact.arc_span_deg)):
            if wanted is not None and key in record and record[key] != wanted:
                values.fault(key, shown(record[key]), f"{wanted!r}, as the clip's files say")
    return split, clip_id


def _look_at_names(found: Found, told: list[tuple[str, str]], clips: set[tuple[str, str]]) -> None:
    names = [f"clips/{split}/{clip_id}" for split, clip_id in told]
    there = {f"clips/{split}/{clip_id}" for split, clip_id in clips}
    if twice := {name for before, name in pairwise(sorted(names)) if name == before}:
        found.add(LAYOUT, MANIFEST, f"more than one line for {listed(twice)}", "one line a clip")
    elif names != sorted(names):
        first = next(name for before, name in pairwise(names) if name < before)
        found.add(LAYOUT, MANIFEST, f"{first} after a later one", "lines sorted by path")
    if gone := set(names) - there:
        found.add(LAYOUT, MANIFEST, f"lines without a folder: {listed(gone)}", "one folder a line")
    if untold := there - set(names):
        found.add(LAYOUT, MANIFEST, f"no line for {listed(untold)}", "one line a clip")


def look_at_objects_assets(found: Found, clips: Iterable[ClipFacts], folders: Collection[tuple[str, str]], assets: Iterable[AssetFacts]) -> None:
    """Note objects whose asset is not there, or has another source.   folders : (split, asset_id) of every asset's folder."""
    sources = {(one.split, one.asset_id): one.source for one in assets}
    for clip in clips:
        for index, (asset_id, source) in enumerate(clip.objects):
            where = f"{clip.clip}/objects.json: [{index}]"
            if asset_id is None:
                continue
            if (clip.split, asset_id) not in folders:
                found.add(LAYOUT, f"{where}.asset_id", f"no asset {asset_id} in assets/{clip.split}", "an asset of the clip's split")
            elif (stated := sources.get((clip.split, asset_id))) is not None and source is not None and source != stated:
                found.add(LAYOUT, f"{where}.source", source, f"{stated}, as the asset's meta.json has it")
