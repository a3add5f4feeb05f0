"""Whether a release holds together: manifests, scales, lists, tars and checksums, each fault by file with what was found and expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from eventvox.release import DATA, ListedMember, ListedShard, Video, checksum_lines, read_shard_list, read_videos, utf8
from eventvox.stage import KEY, SCALES, SPLITS, checksums_of, described_names, description_of, manifest_of, shards_of
from shardwork.digests import sha256_file
from shardwork.errors import DataError, Problem, plain
from shardwork.jsonio import Json, read_json
from shardwork.packrecord import RECORD_NAME
from shardwork.tables import Row, read_table
from shardwork.tarscan import Scan, Scanned, scan_tar

T = TypeVar("T")
MANIFESTS = ("large", *SCALES)
COMPARED = {"split": "split", "bytes": "size_bytes", "file_xxh3": "file_xxh3", "values_xxh3": "values_xxh3"}
"""Columns that every list of a video must agree on, and their names in Video."""


def verify_release(folder: Path, fast: bool = False) -> list[Problem]:
    """Return every fault of a release, none if it holds together.

    folder : results/<run>/events_release, or a copy of it.   fast : sizes and lists only, no payload is read.
    Raises DataError (bad_argument) if there is no such folder, OSError where the machine does not let us look.
    """
    if not folder.is_dir():
        found = "not a folder" if folder.exists() else "no such folder"
        raise DataError("bad_argument", folder, found, "the folder of a release", "name the folder that holds data/, manifests/, metadata/ and scales/")
    return _Look(folder, fast).problems()


class _Look:
    """One look at one release. What cannot be read is named once, and what would follow from it is passed over."""

    def __init__(self, folder: Path, fast: bool) -> None:
        self._folder, self._fast = folder, fast
        self._found: list[Problem] = []
        self._homes: dict[str, str] = {}
        self._twins: dict[tuple[str, ...], list[str]] = {}
        self._videos: dict[str, Video] = {}
        self._owners: dict[str, str] = {}

    def problems(self) -> list[Problem]:
        scales = {scale: self._guard(read_videos, manifest_of(self._folder, scale)) for scale in MANIFESTS}
        large = scales["large"]
        for scale, videos in scales.items():
            if videos is not None:
                self._look_at_table(manifest_of(self._folder, scale).with_suffix(".csv"), videos)
        self._look_at_scales(scales)
        self._look_for_leaks(large or ())
        self._look_at_metadata(large)
        listed: dict[str, list[ListedShard]] = {}
        for split in SPLITS:
            found = self._guard(read_shard_list, shards_of(self._folder, split), split)
            if found is not None:
                listed[split] = found[1]
                self._look_at_list(split, *found, large)
        self._look_at_payload(listed, large)
        if len(listed) == len(SPLITS):
            self._look_at_checksums([shard for shards in listed.values() for shard in shards])
        return self._found

    def _add(self, where: Path | str, found: str, expected: str) -> None:
        self._found.append(Problem(str(where), found, expected))

    def _guard(self, read: Callable[..., T], path: Path, *arguments: object) -> T | None:
        """Return what a reader makes of a file, or note why it cannot."""
        if not path.is_file():
            self._add(self._name(path), "missing" if not path.exists() else "not a file", "a file of the release")
            return None
        try:
            return read(path, *arguments)
        except DataError as error:
            self._add(error.where.removeprefix(f"{self._folder}/"), error.found, error.expected)
            return None

    def _name(self, path: Path) -> str:
        return plain(path.relative_to(self._folder).as_posix())

    def _look_at_table(self, path: Path, videos: Sequence[Video]) -> None:
        """A CSV says what its JSONL says."""
        rows = self._guard(read_table, path, KEY)
        if rows is None:
            return
        name, jsonl = self._name(path), path.with_suffix(".jsonl").name
        ids, expected = [row[KEY] for row in rows], [video.id for video in videos]
        if len(ids) != len(expected):
            self._add(name, f"{len(ids)} rows", f"{len(expected)} as in {jsonl}")
        if ids != expected:
            self._add_difference(name, ids, expected, jsonl)
            return
        for row, video in zip(rows, videos, strict=True):
            for column, attribute in COMPARED.items():
                if column in row and row[column] != str(getattr(video, attribute)):
                    self._add(f"{name}: {video.id}", f"{column} {plain(row[column])}", f"{getattr(video, attribute)} as in {jsonl}")

    def _add_difference(self, name: str, ids: Sequence[str], expected: Sequence[str], source: str) -> None:
        """Name the ids by which two lists differ; their order where that is all."""
        more, less = (sorted((Counter(one) - Counter(two)).keys()) for one, two in ((ids, expected), (expected, ids)))
        if more:
            self._add(name, f"{_some(more)} too many", f"the ids of {source}")
        if less:
            self._add(name, f"without {_some(less)}", f"the ids of {source}")
        if not more and not less:
            self._add(name, "another order", f"the order of {source}")

    def _look_at_scales(self, scales: Mapping[str, list[Video] | None]) -> None:
        """Small lies within medium, medium within large, and each list of ids is its manifest's."""
        for scale, above in (("medium", "large"), ("small", "medium")):
            videos, outer = scales[scale], scales[above]
            if videos is None:
                continue
            self._look_at_ids(self._folder / "scales" / f"{scale}_ids.txt", scale, videos)
            if outer is None:
                continue
            name, known = self._name(manifest_of(self._folder, scale)), {video.id: video for video in outer}
            for video in videos:
                if video.id not in known:
                    self._add(name, video.id, f"ids of {above} alone")
                    continue
                for column, attribute in COMPARED.items():
                    found, expected = getattr(video, attribute), getattr(known[video.id], attribute)
                    if found != expected:
                        self._add(f"{name}: {video.id}", f"{column} {found}", f"{expected} as in {above}")

    def _look_for_leaks(self, large: Sequence[Video]) -> None:
        """No video stands in both splits under two ids: a model would be tested on what it was trained on."""
        first: dict[str, Video] = {}
        for video in large:
            other = first.setdefault(video.values_xxh3, video)
            if other.split != video.split:
                self._add(f"manifests/large.jsonl: {video.id}", f"in {video.split}, with the voxels of {other.id} in {other.split}", "each video in one split")

    def _look_at_ids(self, path: Path, scale: str, videos: Sequence[Video]) -> None:
        data = self._guard(lambda file: utf8(file.read_bytes(), file), path)
        expected = [video.id for video in videos]
        if data is None or data == "".join(f"{video_id}\n" for video_id in expected):
            return
        name = self._name(path)
        if form := _form(data):
            self._add(name, form, "sorted ids, one a line, LF, newline at the end")
            return
        self._add_difference(name, data.split("\n")[:-1], expected, f"manifests/{scale}.jsonl")

    def _look_at_metadata(self, large: Sequence[Video] | None) -> None:
        self._guard(read_json, self._folder / "metadata" / "scales.json")
        self._look_at_description(large)
        path = self._folder / "metadata" / "quarantine.csv"
        refused: list[Row] | None = self._guard(read_table, path, KEY)
        released = {video.id for video in large or ()}
        for row in refused or ():
            if row[KEY] in released:
                self._add(self._name(path), f"{row[KEY]}, which is released", "ids that are not released")

    def _look_at_description(self, large: Sequence[Video] | None) -> None:
        """The description lists every descriptive file and counts what there is; nothing else lies beside them."""
        path = description_of(self._folder)
        read = self._guard(lambda file: [read_json(file)], path)
        if read is None:
            return
        (description,) = read
        files, counts = (description.get(key) if isinstance(description, dict) else None for key in ("files", "counts"))
        if not isinstance(files, dict) or not isinstance(counts, dict):
            self._add(self._name(path), "no files or no counts", "the description that write_event_manifest writes")
            return
        names = described_names()
        for name in sorted(files.keys() ^ set(names)):
            self._add(f"{self._name(path)}: {plain(name)}", "listed" if name in files else "not listed", "the files of a release alone, and all of them")
        for name in names:
            if name in files:
                self._look_at_described(name, files[name])
        if large is not None and counts.get("videos") != len(large):
            self._add(self._name(path), f"counts.videos {counts.get('videos')!a}", f"{len(large)} as in manifests/large.jsonl")
        known = {*names, *(self._name(found) for found in (path, checksums_of(self._folder), *(shards_of(self._folder, split) for split in SPLITS)))}
        for folder in ("manifests", "scales", "metadata"):
            for found in sorted((self._folder / folder).glob("*")):
                if self._name(found) not in known:
                    self._add(self._name(found), "an extra file", "only the files of a release")

    def _look_at_described(self, name: str, row: Json) -> None:
        """A file that the description lists is as it says."""
        path = self._folder / name
        if not isinstance(row, dict) or not path.is_file():
            return self._add(plain(name), "missing, or described in another layout", "a file as metadata/dataset_description.json describes it")
        for key, found in (("bytes", path.stat().st_size), ("sha256", sha256_file(path))):
            if row.get(key) != found:
                return self._add(plain(name), f"{key} {found}", f"{row.get(key)!a} as in metadata/dataset_description.json")
        return None

    def _look_at_list(self, split: str, per_shard: int, shards: Sequence[ListedShard], large: Sequence[Video] | None) -> None:
        """A list of shards holds every row of its split once, in order, and so many in each."""
        name = self._name(shards_of(self._folder, split))
        for shard, last in ((shard, shard is shards[-1]) for shard in shards):
            count = len(shard.members)
            if count > per_shard or not count or (count < per_shard and not last):
                self._add(f"{name}: {shard.path}", f"{count} members", f"{per_shard}" + (" or fewer" if last else ""))
        if large is None:
            return
        videos = {video.member: video for video in large}
        members = [member for shard in shards for member in shard.members]
        for member in members:
            self._look_at_row(f"{name}: {plain(member.name)}", split, member, videos.get(member.name))
        ours = [video.member for video in large if video.split == split]
        listed = [member.name for member in members if member.name in videos and videos[member.name].split == split]
        if listed != ours:
            self._add_difference(name, listed, ours, "manifests/large.jsonl")

    def _look_at_row(self, where: str, split: str, member: ListedMember, video: Video | None) -> None:
        if video is None:
            self._add(where, "in no manifest", "members that manifests/large.jsonl has")
        elif video.split != split:
            self._add(where, f"in {split}", f"{video.split} as in manifests/large.jsonl")
        elif (member.size_bytes, member.xxh3) != (video.size_bytes, video.file_xxh3):
            found, expected = f"{member.size_bytes} bytes, xxh3 {member.xxh3}", f"{video.size_bytes} bytes, xxh3 {video.file_xxh3}"
            self._add(where, found, f"{expected} as in manifests/large.jsonl")

    def _look_at_payload(self, listed: Mapping[str, list[ListedShard]], large: Sequence[Video] | None) -> None:
        """Every tar that is listed is there and as listed, and nothing else is."""
        expected = {shard.path: shard for shards in listed.values() for shard in shards}
        self._index(expected.values(), large or ())
        data = self._folder / DATA
        own = {data / split / name for split in SPLITS for name in (RECORD_NAME, f"{RECORD_NAME}.lock")}
        there = sorted(path for path in data.rglob("*") if (path.is_symlink() or not path.is_dir()) and path not in own) if data.is_dir() else []
        names = {path.relative_to(self._folder).as_posix(): path for path in there}
        for name in sorted(expected.keys() - names.keys()):
            self._add(name, "missing", f"a tar of {expected[name].size_bytes} bytes")
        for name, path in names.items():
            split = path.relative_to(data).parts[0]
            if name in expected and path.is_file():
                self._look_at_tar(path, expected[name])
            elif split in listed or split not in SPLITS:
                self._add(self._name(path), "not in any list of shards", "only the tars that metadata/shards_<split>.json names")
            elif path.is_file() and large is not None:
                self._look_at_unlisted(path, split, large)

    def _index(self, shards: Iterable[ListedShard], large: Sequence[Video]) -> None:
        """Note once where each member and each list of members belongs; a look at a tar then costs its own members alone."""
        for shard in shards:
            self._twins.setdefault(tuple(member.name for member in shard.members), []).append(shard.path)
            self._homes.update((member.name, shard.path) for member in shard.members)
        self._videos = {video.member: video for video in large}
        self._owners = {video.file_xxh3: video.member for video in large}

    def _scan(self, path: Path) -> Scan:
        scan = scan_tar(path, payload=not self._fast)
        for problem in scan.problems:
            self._add(f"{self._name(path)}: {problem.where}", problem.found, problem.expected)
        return scan

    def _look_at_unlisted(self, path: Path, split: str, large: Sequence[Video]) -> None:
        """A tar whose list cannot be read is compared with the manifest alone."""
        videos = {video.member: video for video in large}
        for member in self._scan(path).members:
            where, video = f"{self._name(path)}: {plain(member.name)}", videos.get(member.name)
            digest = member.xxh3 or (video.file_xxh3 if video else "")
            self._look_at_row(where, split, ListedMember(member.name, member.size_bytes, digest), video)

    def _look_at_tar(self, path: Path, shard: ListedShard) -> None:
        before = len(self._found)
        scan = self._scan(path)
        name = self._name(path)
        if scan.complete:
            names = tuple(member.name for member in scan.members)
            twin = next((other for other in self._twins.get(names, ()) if other != shard.path), None)
            if names and twin is not None:
                self._add(name, f"the members of {twin}", "its own: were two names exchanged?")
                return
            self._look_at_members(name, scan.members, shard.members)
        if len(self._found) > before:
            return
        if scan.size_bytes != shard.size_bytes:
            self._add(name, f"{scan.size_bytes} bytes", f"{shard.size_bytes} as listed")
        elif scan.sha256 is not None and scan.sha256 != shard.sha256:
            self._add(name, f"sha256 {scan.sha256}", f"{shard.sha256} as listed")

    def _look_at_members(self, name: str, found: Sequence[Scanned], listed: Sequence[ListedMember]) -> None:
        wanted, seen = {member.name: member for member in listed}, Counter(member.name for member in found)
        for member, count in seen.items():
            where = f"{name}: {plain(member)}"
            if count > 1:
                self._add(where, f"stands {count} times", "once")
            if member in self._homes and member not in wanted:
                self._add(where, "a member of this tar", f"in {self._homes[member]}")
            elif member not in wanted:
                self._add(where, "a member of this tar" if member in self._videos else "in no manifest", "only members that are listed")
        for scanned in found:
            if (row := wanted.get(scanned.name)) is not None:
                self._look_at_bytes(f"{name}: {plain(scanned.name)}", scanned, row)
        for member in wanted:
            if member not in seen:
                self._add(f"{name}: {plain(member)}", "missing", "a member of this tar")
        if seen == Counter(wanted.keys()) and [member.name for member in found] != list(wanted):
            self._add(name, "its members in another order", "sorted by id")

    def _look_at_bytes(self, where: str, member: Scanned, row: ListedMember) -> None:
        if member.size_bytes != row.size_bytes:
            self._add(where, f"{member.size_bytes} bytes", f"{row.size_bytes}")
        elif member.xxh3 is not None and member.xxh3 != row.xxh3:
            owner = self._owners.get(member.xxh3)
            self._add(where, f"xxh3 {member.xxh3}" + (f", the payload of {owner}" if owner else ""), row.xxh3)

    def _look_at_checksums(self, shards: Sequence[ListedShard]) -> None:
        path = checksums_of(self._folder)
        text, expected = self._guard(lambda file: utf8(file.read_bytes(), file), path), checksum_lines(list(shards))
        if text is None or text == expected:
            return
        name = self._name(path)
        if form := _form(text):
            self._add(name, form, "sha256, two spaces, path from the release's root; sorted, LF, newline at the end")
            return
        wanted = {shard.path: shard.sha256 for shard in shards}
        before, paths = len(self._found), []
        for number, line in enumerate(text.split("\n")[:-1], 1):
            digest, gap, entry = line[:64], line[64:66], line[66:]
            paths.append(entry)
            if entry.startswith("/") or "\\" in entry or ".." in entry.split("/"):
                self._add(f"{name}:{number}", f"path {plain(entry)}", "a path from the release's root, with forward slashes")
            elif gap != "  " or entry not in wanted:
                self._add(f"{name}:{number}", plain(line), "sha256, two spaces and a tar that metadata/shards_<split>.json names")
            elif digest != wanted[entry]:
                self._add(f"{name}:{number}", f"{plain(digest)} for {entry}", f"{wanted[entry]} as in metadata/shards_<split>.json")
        for entry in sorted(wanted.keys() - set(paths)):
            self._add(name, f"without {entry}", "an entry for every tar")
        if len(self._found) == before:
            self._add(name, "lines out of order or repeated", "one line for each tar, sorted by path")


def _form(text: str) -> str:
    """Return what is wrong with the form of a list of lines; empty if nothing."""
    if text.startswith("\ufeff"):
        return "a byte order mark"
    if "\r" in text:
        return f"CR at line {text[: text.index(chr(13))].count(chr(10)) + 1}"
    if text and not text.endswith("\n"):
        return "no newline at the end"
    return ""


def _some(ids: Iterable[str]) -> str:
    """Return a few ids as words."""
    listed = [plain(video_id) for video_id in ids]
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
