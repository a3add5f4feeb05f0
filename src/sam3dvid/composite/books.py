"""The dataset's books: one line a clip in manifest.jsonl, and the configuration that it was made with in config.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from sam3dvid.stage import CLIP_STEPS, CONFIG, MANIFEST
from shardwork.errors import Fault
from shardwork.files import write_bytes
from shardwork.jsonio import Json, write_jsonl
from shardwork.step import Fields

HOSTS_OWN = (
    *("python", "results", "verify", "prune", "workers", "work_shards", "clips_per_shard"),
    *("device", "threads", "clip_seconds", "clips_per_blender", "controls", "fps", "max_quarantined"),
)
"""Keys of a configuration that say where and how a run works: they change no byte of a dataset."""


def manifest_lines(made: Iterable[Fields], validated: Iterable[Fields]) -> list[dict[str, Json]]:
    """Return a line for every clip that passed, sorted by path.   made, validated : rows of composite_clips and validate_clips, of all shards.

    Raises Fault (manifest_mismatch) for a clip that passed without being made.   Source: seed 002, section 2.
    """
    records = {row["id"]: row for row in made if row["status"] == "ok"}
    lines = []
    for row in validated:
        if row["status"] != "ok":
            continue
        if (record := records.get(row["id"])) is None:
            raise Fault("manifest_mismatch", row["id"], f"a row of {CLIP_STEPS[1]} alone", f"one of {CLIP_STEPS[0]} too", "run the workflow again")
        lines.append(
            {
                "clip_id": record["id"],
                "split": record["split"],
                "N": record["num_objects"],
                "arc_span_deg": record["arc_span_deg"],
                "seed": record["seed"],
                "path": f"clips/{record['split']}/{record['id']}",
            }
        )
    return sorted(lines, key=lambda line: line["path"])


def config_text(config: Mapping[str, Any]) -> str:
    """Return a configuration as YAML, keys sorted, as far as it is `portable`."""
    import yaml

    return str(yaml.safe_dump(portable(config), sort_keys=True, allow_unicode=False, default_flow_style=False, width=160))


def portable(value: Any) -> Any:
    """Return a configuration, or a part of one, without what is the host's own, and of absolute paths the last part alone."""
    if isinstance(value, Mapping):
        return {key: portable(one) for key, one in value.items() if key not in HOSTS_OWN and one is not None}
    if isinstance(value, list | tuple):
        return [portable(one) for one in value]
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):
            if (path := kind(value)).is_absolute():
                return path.name
    return value


def write_books(dataset: Path, lines: Sequence[Mapping[str, Json]], config: Mapping[str, Any]) -> None:
    """Write config.yaml, then manifest.jsonl, each atomically."""
    write_bytes(dataset / CONFIG, config_text(config).encode())
    write_jsonl(dataset / MANIFEST, lines)
