"""How a pool is frozen once, and kept as it was: the same call keeps all of it, any other is refused before anything changes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sam3dvid.backgrounds.pool import CREDITS, FORMAT_VERSION, SPLITS, index_bytes, picture_problem, read_pool, read_selection
from sam3dvid.codes import AssetRefused
from sam3dvid.stage import ONE_SHARD, SELECTION
from shardwork.digests import sha256_file
from shardwork.errors import DataError
from shardwork.files import write_bytes
from shardwork.jsonio import Json, read_json, write_json
from shardwork.locks import held_lock
from shardwork.place import Place
from shardwork.run import Options, run_shard
from shardwork.step import Fields, Item, Step, quarantined


@dataclass(frozen=True, slots=True)
class Freezer:
    """What a pool is frozen by.

    kind : polyhaven or sa1b.   settings : all that decides its rows.   credits : its rows -> what CREDITS.md says.   max_refused : with more refused
    sources it is not frozen yet, so that they can be mended; None freezes it all the same.
    """

    kind: str
    folder: Path
    place: Place
    settings: Mapping[str, Json]
    credits: Callable[[Sequence[Fields]], str]
    max_refused: int | None = None

    @property
    def book(self) -> Path:
        """Size, time and sha256 of each source when the pool was last looked at, so that it need not be read again."""
        return self.place.stage / "sources.json"

    def build(self, step: Step, items: Sequence[Item], options: Options) -> list[Fields]:
        """Return the manifest rows of a pool after it is frozen, or found frozen by the same settings and sources.

        step : its run_item returns {"source": {sha256, ...}, "pictures": [rows of the index]}.
        Raises Fault (fault_busy) while another process builds it; AssetRefused: pool_frozen before anything changes; bad_pool if no picture passed, or
        a lost picture could not be made again as it was.
        """
        with held_lock(self.place.stage / ".freeze.lock", self.folder, "pool"):
            return self._build(step, items, options)

    def _build(self, step: Step, items: Sequence[Item], options: Options) -> list[Fields]:
        frozen = read_selection(self.folder)
        if frozen is not None:
            lost = self._check(frozen, items)
            items = [replace(item, verdict=frozen["refused"].get(item.id), sources=() if item.id in lost else item.sources) for item in items]
        rows = run_shard(step, ONE_SHARD, items, self.place, options)
        if frozen is None and (twice := _duplicates(rows)):
            items = [replace(item, verdict=twice.get(item.id)) for item in items]
            rows = run_shard(step, ONE_SHARD, items, self.place, options)
        refused = sum(row["status"] != "ok" for row in rows)
        if frozen is None and self.max_refused is not None and refused > self.max_refused:
            print(f"{self.folder}: {refused} refused, {self.max_refused} allowed: not frozen yet", file=sys.stderr)
            return rows
        self._freeze(frozen, rows)
        self._note(items, rows)
        return rows

    def _check(self, frozen: Mapping[str, Json], items: Sequence[Item]) -> set[str]:
        """Return the items whose source is gone but whose pictures are all there: they need no source any more.

        Raises AssetRefused (pool_frozen, bad_pool), or DataError (source_changed), unless a frozen pool is what this call would make.
        """
        where = self.folder / SELECTION
        if frozen["kind"] != self.kind:
            raise AssetRefused("pool_frozen", where, f"a pool of kind {frozen['kind']}", f"one of kind {self.kind}, or an empty folder")
        if frozen["settings"] != dict(self.settings):
            names = sorted(name for name in {*frozen["settings"], *self.settings} if frozen["settings"].get(name) != self.settings.get(name))
            found = ", ".join(f"{name} {self.settings.get(name)!r}" for name in names)
            raise AssetRefused("pool_frozen", where, found, ", ".join(f"{name} {frozen['settings'].get(name)!r}" for name in names))
        ids, known = {item.id for item in items}, {*frozen["sources"], *frozen["refused"]}
        if ids - known or frozen["sources"].keys() - ids:  # a refused source may be taken out of the table
            new, gone = sorted(ids - known), sorted(frozen["sources"].keys() - ids)
            found = f"{len(new)} sources more{f' such as {new[0]}' if new else ''}, {len(gone)} fewer{f' such as {gone[0]}' if gone else ''}"
            raise AssetRefused("pool_frozen", where, found, f"the {len(known)} sources that it was frozen with")
        return self._check_sources(frozen["sources"], items)

    def _check_sources(self, sources: Mapping[str, Json], items: Sequence[Item]) -> set[str]:
        book, lost = self._book(), set()
        for item in items:
            if (record := sources.get(item.id)) is None:
                continue
            (source,) = item.sources
            if (change := source.change()) is not None:
                if change.code != "missing_file":
                    raise change
                if not item.outputs:
                    raise AssetRefused("bad_pool", source.name, "no such file", "the picture as it was frozen")
                lost.add(item.id)
            elif book.get(item.id) != [source.bytes, source.mtime_ns, record["sha256"]] and (found := sha256_file(source.path)) != record["sha256"]:
                raise AssetRefused("pool_frozen", item.id, f"sha256 {found}", f"{record['sha256']} as the pool was frozen with")
        self._check_pictures(lost)
        return lost

    def _check_pictures(self, lost: Collection[str]) -> None:
        """Raise AssetRefused (bad_pool) if a picture is not as it was frozen and its source is gone: nothing could make it again."""
        if not lost:
            return
        pool = read_pool(self.folder)
        for row in (*pool.eval, *pool.train):
            if row["split_key"] in lost and (problem := picture_problem(pool.picture(row), row)):
                raise AssetRefused("bad_pool", row["file"], f"{problem}, and its source {row['source_file']} is gone", f"sha256 {row['sha256']}, or its source")

    def _book(self) -> Mapping[str, Json]:
        try:
            found = read_json(self.book)
        except (FileNotFoundError, DataError):
            return {}
        return found if isinstance(found, dict) else {}

    def _note(self, items: Sequence[Item], rows: Sequence[Fields]) -> None:
        sums = {row["id"]: row["source"]["sha256"] for row in rows if row["status"] == "ok"}
        book = {item.id: [item.sources[0].bytes, item.sources[0].mtime_ns, sums[item.id]] for item in items if item.sources and item.id in sums}
        if book != self._book():
            write_json(self.book, book)

    def _freeze(self, frozen: Mapping[str, Json] | None, rows: Sequence[Fields]) -> None:
        """Write the index, the credits and, last, what freezes them; of a frozen pool, only what is missing or spoilt."""
        passed = [row for row in rows if row["status"] == "ok"]
        pictures = [picture for row in passed for picture in row["pictures"]]
        if not pictures:
            raise AssetRefused("bad_pool", self.folder, "no picture that passed", "at least one", "see the rows of the manifest for what was refused")
        files = {f"{split}.jsonl": index_bytes([picture for picture in pictures if picture["pool"] == split]) for split in SPLITS}
        files[CREDITS] = self.credits(pictures).encode()
        selection: dict[str, Json] = {
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "settings": dict(self.settings),
            "sources": {row["id"]: row["source"] for row in passed},
            "refused": {row["id"]: row for row in rows if row["status"] != "ok"},
            "index": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        }
        if names := sorted(key for key in selection if frozen is not None and key != "refused" and selection[key] != frozen[key]):
            raise AssetRefused("bad_pool", self.folder, f"other {', '.join(names)} than were frozen", "pictures as they were frozen")
        for name, data in files.items():
            path = self.folder / name
            if not path.is_file() or path.read_bytes() != data:
                write_bytes(path, data)
        if frozen is None:
            write_json(self.folder / SELECTION, selection)


def _duplicates(rows: Sequence[Fields]) -> dict[str, Fields]:
    """Return verdicts on sources whose bytes stand in the table under an earlier id too."""
    first: dict[str, str] = {}
    twice: dict[str, Fields] = {}
    for row in sorted((row for row in rows if row["status"] == "ok"), key=lambda row: row["id"]):
        if (other := first.setdefault(row["source"]["sha256"], row["id"])) != row["id"]:
            error = AssetRefused("duplicate_image", row["source"]["file"], f"the bytes of {other}", "one picture an id")
            twice[row["id"]] = quarantined(row["id"], error)
    return twice
