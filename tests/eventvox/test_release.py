"""The verifier of a release: each check is shown to fail on a planted fault, and no byte flip gets past it or makes it stumble."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventvox.__main__ import main
from eventvox.release import checksum_lines, pack_split, read_shard_list, read_videos, write_checksums
from eventvox.release_check import verify_release
from eventvox.stage import SPLITS, checksums_of, description_of, shards_of
from shardwork.errors import DataError
from shardwork.pack import PackOptions
from shardwork.tarball import Member, write_tar
from shardwork.tarscan import scan_tar
from tests.contract.contract import ROOT
from tests.eventvox.releases import write_event_file, write_manifests

TRAIN = ("000012", "L" * 100, "NA", "a", "a-b")
VALIDATION = ("v_--edUL8zmA", "v_b")
MEDIUM, SMALL = ("000012", "NA", "v_b"), ("NA",)
TAR, LAST, OTHER = "data/train/train-000000.tar", "data/train/train-000002.tar", "data/validation/validation-000000.tar"
CHECKSUMS = "metadata/shard_checksums.sha256"


def make_release(folder: Path, train: tuple[str, ...] = TRAIN, validation: tuple[str, ...] = VALIDATION) -> Path:
    """Return a packed release of small event files, two in a shard."""
    release, stage = folder / "events_release", folder / "events"
    splits = {**dict.fromkeys(train, "train"), **dict.fromkeys(validation, "validation")}
    for seed, (video_id, split) in enumerate(splits.items()):
        write_event_file(stage / split / f"{video_id}.h5", seed)
    write_manifests(release, stage, splits, MEDIUM, SMALL)
    for split in SPLITS:
        pack_split(release, stage, split, 2, PackOptions(workers=0))
    write_checksums(release)
    return release


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    return make_release(tmp_path_factory.mktemp("good"))


@pytest.fixture
def release(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "sp ace's release"))


def lines(release: Path, fast: bool = False) -> list[str]:
    return [str(problem) for problem in verify_release(release, fast)]


def edit(path: Path, old: str, new: str, count: int = 1) -> None:
    """Replace text in a file; it must be there."""
    data = path.read_bytes()
    assert old.encode() in data
    path.write_bytes(data.replace(old.encode(), new.encode(), count))


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def contents(tar: Path) -> list[tuple[str, bytes]]:
    with tarfile.open(tar) as opened:
        found = []
        for member in opened:
            file = opened.extractfile(member)
            assert file is not None
            found.append((member.name, file.read()))
        return found


def rewrite(tar: Path, members: list[tuple[str, bytes]]) -> None:
    write_tar(tar, [Member(name, data) for name, data in members])


def rewrite_by_tarfile(tar: Path, **fields) -> None:
    """Write the same members with another field, as another program would."""
    members = contents(tar)
    kind = fields.pop("format", tarfile.GNU_FORMAT)
    with tarfile.open(tar, "w", format=kind) as opened:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            for key, value in fields.items():
                setattr(info, key, value)
            opened.addfile(info, io.BytesIO(data))


def relist(release: Path, change) -> None:
    """Change the list of the train shards and make the checksum file again, so that the fault is in the list alone."""
    path = shards_of(release, "train")
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    write_checksums(release)


def swap(one: Path, two: Path) -> None:
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def swap_payloads(release: Path) -> None:
    (a, x), (b, y) = contents(release / LAST.replace("2.tar", "1.tar"))
    rewrite(release / LAST.replace("2.tar", "1.tar"), [(a, y), (b, x)])


def member_end(tar: Path) -> int:
    """Return where the second member's header begins."""
    with tarfile.open(tar) as opened:
        return opened.getmembers()[1].offset


def redescribe(release: Path) -> None:
    """Let the description agree with the manifests as they are now, so that only what they say is compared."""
    path = description_of(release)
    if path.is_file():
        description = json.loads(path.read_text())
        for name in [name for name in description["files"] if (release / name).is_file()]:
            data = (release / name).read_bytes()
            description["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        path.write_text(json.dumps(description))


def test_whole_release_is_valid(good: Path) -> None:
    assert lines(good) == [] == lines(good, fast=True)


def test_release_without_a_split_is_valid_and_sha256sum_agrees(tmp_path: Path) -> None:
    release = make_release(tmp_path, validation=())
    assert json.loads(shards_of(release, "validation").read_text()) == {"members_per_shard": 2, "shards": [], "split": "validation"}
    assert lines(release) == []
    assert sha256sum(release).returncode == 0


def test_219_shards_for_the_published_counts(tmp_path: Path) -> None:
    from eventvox.release import Video, event_plan

    videos = [Video(f"v_{n:05d}", "train" if n < 2341 else "validation", 1, "", "") for n in range(3263)]
    plans = [event_plan(videos, split, 15) for split in SPLITS]
    # 2,341 + 922 = 3,263 is one of the pairs of counts that give the published 157 and 62 tars
    assert [len(plan.shards) for plan in plans] == [157, 62]
    assert plans[1].shards[-1].name == "validation-000061.tar"


FAULTS = {
    "missing tar": (lambda r: (r / TAR).unlink(), f"{TAR}: missing", True),
    "extra tar": (lambda r: shutil.copy(r / TAR, r / "data/train/train-000009.tar"), "data/train/train-000009.tar: not in any list of shards", True),
    "extra file": (lambda r: (r / "data/train/notes.txt").write_text("x"), "data/train/notes.txt: not in any list", True),
    "tar of another split": (lambda r: shutil.copy(r / TAR, r / "data/test-000000.tar"), "data/test-000000.tar: not in any list", True),
    "cut in a member": (lambda r: os.truncate(r / TAR, member_end(r / TAR) + 2000), f"{TAR}: member {'L' * 100}.h5: cut after", True),
    "cut in a header": (lambda r: os.truncate(r / TAR, member_end(r / TAR) + 100), "the file ends at byte", True),
    "cut at a member boundary": (lambda r: os.truncate(r / TAR, member_end(r / TAR)), f"{TAR}: member 000012.h5: the file ends at byte", True),
    "cut before the end": (lambda r: os.truncate(r / OTHER, end_of(r / OTHER)), "expected another member, or the zeros that end a tar", True),
    "cut in the end": (lambda r: os.truncate(r / OTHER, end_of(r / OTHER) + 1024), f"{OTHER}: end: the file has", True),
    "bytes after the end": (lambda r: (r / OTHER).write_bytes((r / OTHER).read_bytes() + b"x" * 512), f"{OTHER}: end: the file has", True),
    "empty tar": (lambda r: (r / OTHER).write_bytes(b""), f"{OTHER}: the first member: the file ends at byte 0", True),
    "flipped byte in a header": (lambda r: flip(r / TAR, 3), f"{TAR}: header at byte 0, after the first member: its checksum does not hold", True),
    "flipped byte in a payload": (lambda r: flip(r / TAR, 5000), f"{TAR}: 000012.h5: xxh3", False),
    "flipped byte in the padding": (lambda r: flip(r / TAR, member_end(r / TAR) - 1), f"{TAR}: member 000012.h5: bytes after its payload", False),
    "flipped byte in the end": (lambda r: flip(r / OTHER, -1), f"{OTHER}: end: bytes that are not zero", True),
    "payloads exchanged": (swap_payloads, "data/train/train-000001.tar: NA.h5: ", True),
    "tars exchanged": (lambda r: swap(r / TAR, r / LAST), f"{TAR}: the members of {LAST}, expected its own", True),
    "member twice": (lambda r: rewrite(r / LAST, contents(r / LAST) * 2), f"{LAST}: a-b.h5: stands 2 times, expected once", True),
    "unknown member": (lambda r: rewrite(r / LAST, [*contents(r / LAST), ("x.h5", b"x")]), f"{LAST}: x.h5: in no manifest", True),
    "member of another tar": (lambda r: rewrite(r / LAST, [*contents(r / LAST), *contents(r / OTHER)]), f"a member of this tar, expected in {OTHER}", True),
    "member missing": (lambda r: rewrite(r / TAR, contents(r / TAR)[:1]), f"{TAR}: {'L' * 100}.h5: missing", True),
    "member of another size": (lambda r: rewrite(r / LAST, [("a-b.h5", b"short")]), f"{LAST}: a-b.h5: 5 bytes, expected", True),
    "members in another order": (lambda r: rewrite(r / TAR, contents(r / TAR)[::-1]), f"{TAR}: its members in another order", True),
    "mtime": (lambda r: rewrite_by_tarfile(r / TAR, mtime=1700000000), f"{TAR}: member 000012.h5: mtime 1700000000, expected 0", True),
    "uid": (lambda r: rewrite_by_tarfile(r / TAR, uid=1000), "uid 1000, expected 0", True),
    "gid": (lambda r: rewrite_by_tarfile(r / TAR, gid=1000), "gid 1000, expected 0", True),
    "owner": (lambda r: rewrite_by_tarfile(r / TAR, uname="me"), "owner name 'me', expected ''", True),
    "mode": (lambda r: rewrite_by_tarfile(r / TAR, mode=0o600), "mode 0o600, expected 0o644", True),
    "ustar format": (lambda r: rewrite_by_tarfile(r / OTHER, format=tarfile.USTAR_FORMAT), "format 'ustar\\x0000', expected 'ustar  '", True),
    "pax format": (lambda r: rewrite_by_tarfile(r / TAR, format=tarfile.PAX_FORMAT), "type 'x', expected '0'", True),
    "link as a member": (lambda r: rewrite_by_tarfile(r / LAST, type=tarfile.SYMTYPE, linkname="/etc/passwd"), "type '2', expected '0'", True),
    "list names no tar": (lambda r: relist(r, lambda v: v["shards"].pop()), "metadata/shards_train.json: without a-b.h5", True),
    "list with a member too many": (
        lambda r: relist(r, lambda v: v["shards"][2]["members"].append({"bytes": 1, "name": "x.h5", "xxh3": "0" * 32})),
        "metadata/shards_train.json: x.h5: in no manifest, expected members that manifests/large.jsonl has",
        True,
    ),
    "list with another digest": (lambda r: relist(r, lambda v: v["shards"][0]["members"][0].update(xxh3="0" * 32)), "shards_train.json: 000012.h5: ", True),
    "list with a short shard": (lambda r: relist(r, lambda v: v["shards"][0]["members"].pop()), f"shards_train.json: {TAR}: 1 members, expected 2", True),
    "list with another sha256": (lambda r: relist(r, lambda v: v["shards"][0].update(sha256="0" * 64)), f"{TAR}: sha256 ", False),
    "list with another path": (lambda r: edit(shards_of(r, "train"), TAR, "/data/x.tar"), "shards_train.json: shard 0: path '/data/x.tar'", True),
    "list of another split": (lambda r: shutil.copy(shards_of(r, "train"), shards_of(r, "validation")), "shards_validation.json: split 'train'", True),
    "no list": (lambda r: shards_of(r, "train").unlink(), "metadata/shards_train.json: missing", True),
    "list that is no JSON": (lambda r: edit(shards_of(r, "train"), "{", ""), "metadata/shards_train.json: ", True),
    "no checksums": (lambda r: checksums_of(r).unlink(), f"{CHECKSUMS}: missing", True),
    "checksums with CRLF": (lambda r: edit(r / CHECKSUMS, "\n", "\r\n", -1), f"{CHECKSUMS}: CR at line 1", True),
    "checksums with a mark": (lambda r: (r / CHECKSUMS).write_bytes(b"\xef\xbb\xbf" + (r / CHECKSUMS).read_bytes()), f"{CHECKSUMS}: a byte order mark", True),
    "checksums with an absolute path": (lambda r: edit(r / CHECKSUMS, "  data", "  /data"), f"{CHECKSUMS}:1: path /data/train", True),
    "checksums with backslashes": (lambda r: edit(r / CHECKSUMS, "data/train/", "data\\train\\"), f"{CHECKSUMS}:1: path data\\train\\", True),
    "checksums with one space": (lambda r: edit(r / CHECKSUMS, "  data", " data"), f"{CHECKSUMS}:1: ", True),
    "checksums in binary mode": (lambda r: edit(r / CHECKSUMS, "  data", " *data"), f"{CHECKSUMS}:1: ", True),
    "checksums without a newline": (lambda r: os.truncate(r / CHECKSUMS, (r / CHECKSUMS).stat().st_size - 1), f"{CHECKSUMS}: no newline at the end", True),
    "checksums out of order": (lambda r: reorder(r / CHECKSUMS), f"{CHECKSUMS}: lines out of order or repeated", True),
    "checksums without a tar": (lambda r: cut_line(r / CHECKSUMS), f"{CHECKSUMS}: without {OTHER}", True),
    "checksums with a tar too many": (lambda r: append(r / CHECKSUMS, f"{'0' * 64}  data/train/x.tar\n"), f"{CHECKSUMS}:5: ", True),
    "checksums of older tars": (lambda r: (r / CHECKSUMS).write_text(stale(r)), f"{CHECKSUMS}:1: {'0' * 64} for {TAR}, expected ", True),
    "scale id not in large": (lambda r: add_to_scale(r, "medium", "zz"), "manifests/medium.jsonl: zz, expected ids of large alone", True),
    "small not within medium": (lambda r: add_to_scale(r, "small", "a"), "manifests/small.jsonl: a, expected ids of medium alone", True),
    "ids file without an id": (lambda r: edit(r / "scales/medium_ids.txt", "NA\n", ""), "scales/medium_ids.txt: without NA", True),
    "ids file with an id too many": (lambda r: append(r / "scales/small_ids.txt", "a\n"), "scales/small_ids.txt: a too many", True),
    "ids file out of order": (lambda r: (r / "scales/medium_ids.txt").write_text("v_b\nNA\n000012\n"), "scales/medium_ids.txt: another order", True),
    "ids file with CRLF": (lambda r: edit(r / "scales/medium_ids.txt", "\n", "\r\n", -1), "scales/medium_ids.txt: CR at line 1", True),
    "no ids file": (lambda r: (r / "scales/small_ids.txt").unlink(), "scales/small_ids.txt: missing", True),
    "scale with another split": (lambda r: edit(r / "manifests/medium.jsonl", '"train"', '"validation"'), "medium.jsonl: 000012: split validation", True),
    "id in both splits": (lambda r: double(r / "manifests/large.jsonl"), "manifests/large.jsonl:2: 000012 in both splits", True),
    "row without member": (lambda r: append_row(r / "manifests/large.jsonl", "zz"), "metadata/shards_train.json: without zz.h5", True),
    "row gone": (lambda r: cut_line(r / "manifests/large.jsonl"), "metadata/shards_validation.json: v_b.h5: in no manifest", True),
    "split of the folder": (lambda r: edit(r / "manifests/large.jsonl", '"train"', '"validation"'), "shards_train.json: 000012.h5: in train", True),
    "manifest of another file": (lambda r: edit(r / "manifests/large.jsonl", '"bytes":1', '"bytes":2'), "shards_train.json: 000012.h5: ", True),
    "CSV with a row too few": (lambda r: cut_line(r / "manifests/large.csv"), "manifests/large.csv: 6 rows, expected 7 as in large.jsonl", True),
    "CSV with another id": (lambda r: edit(r / "manifests/large.csv", "\nNA,", "\nNB,"), "manifests/large.csv: NB too many", True),
    "CSV with another split": (lambda r: edit(r / "manifests/large.csv", ",train", ",validation"), "manifests/large.csv: 000012: split validation", True),
    "CSV that is none": (lambda r: append(r / "manifests/medium.csv", '"x'), "manifests/medium.csv:", True),
    "JSONL with NaN": (lambda r: edit(r / "manifests/large.jsonl", "1.5", "NaN"), "manifests/large.jsonl:1: NaN is not JSON", True),
    "JSONL with a key twice": (lambda r: edit(r / "manifests/large.jsonl", "{", '{"bytes":1,'), "manifests/large.jsonl:1: key 'bytes' stands twice", True),
    "JSONL with CRLF": (lambda r: edit(r / "manifests/large.jsonl", "\n", "\r\n"), "manifests/large.jsonl:1: a line that ends in CR LF", True),
    "JSONL with an empty line": (lambda r: append(r / "manifests/large.jsonl", "\n"), "manifests/large.jsonl:8: ", True),
    "JSONL cut": (lambda r: os.truncate(r / "manifests/small.jsonl", 50), "manifests/small.jsonl: no newline at its end", True),
    "JSONL with a dotted id": (
        lambda r: edit(r / "manifests/large.jsonl", '"video_id":"NA"', '"video_id":"N.A"'),
        "large.jsonl:3: video_id: 'N.A', expected an id",
        True,
    ),
    "JSONL without a digest": (lambda r: edit(r / "manifests/large.jsonl", '"file_xxh3"', '"xxh3"'), "large.jsonl:1: file_xxh3: missing", True),
    "no manifest": (lambda r: (r / "manifests/large.jsonl").unlink(), "manifests/large.jsonl: missing", True),
    "quarantined yet released": (lambda r: append(r / "metadata/quarantine.csv", "NA,truncated\n"), "quarantine.csv: NA, which is released", True),
    "no quarantine table": (lambda r: (r / "metadata/quarantine.csv").unlink(), "metadata/quarantine.csv: missing", True),
    "no description": (lambda r: (r / "metadata/dataset_description.json").unlink(), "metadata/dataset_description.json: missing", True),
    "scales.json that is none": (lambda r: (r / "metadata/scales.json").write_text("[1,]"), "metadata/scales.json: ", True),
}
UNDESCRIBED = {"a manifest's other value": (lambda r: edit(r / "manifests/large.jsonl", "1.5", "2.5"), "manifests/large.jsonl: sha256 ")}


def end_of(tar: Path) -> int:
    """Return where the zeros begin that end a tar."""
    with tarfile.open(tar) as opened:
        last = opened.getmembers()[-1]
        return last.offset_data + -(-last.size // 512) * 512


def reorder(path: Path) -> None:
    rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join([rows[1], rows[0], *rows[2:]]))


def cut_line(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def append(path: Path, text: str) -> None:
    path.write_bytes(path.read_bytes() + text.encode())


def stale(release: Path) -> str:
    return "0" * 64 + (release / CHECKSUMS).read_text()[64:]


def append_row(path: Path, video_id: str) -> None:
    row = json.loads(path.read_text().splitlines()[0])
    append(path, json.dumps({**row, "video_id": video_id}) + "\n")


def double(path: Path) -> None:
    first = path.read_text().splitlines(keepends=True)[0]
    path.write_text(first + first.replace('"train"', '"validation"') + "".join(path.read_text().splitlines(keepends=True)[1:]))


def add_to_scale(release: Path, scale: str, video_id: str) -> None:
    path = release / "manifests" / f"{scale}.jsonl"
    append_row(path, video_id)
    rows = sorted(path.read_text().splitlines(), key=lambda line: json.loads(line)["video_id"])
    path.write_text("".join(f"{row}\n" for row in rows))


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_named(release: Path, name: str) -> None:
    plant, part, seen_fast = FAULTS[name]
    plant(release)
    redescribe(release)
    found = lines(release)
    assert any(part in line for line in found), found
    assert all("\n" not in line and ", expected " in line for line in found)
    assert bool(lines(release, fast=True)) == seen_fast


@pytest.mark.parametrize("name", UNDESCRIBED)
def test_file_that_the_description_lists_is_compared_with_it(release: Path, name: str) -> None:
    plant, part = UNDESCRIBED[name]
    plant(release)
    assert any(part in line for line in lines(release))


def test_exchanged_payloads_of_one_size_are_named_with_their_owners(tmp_path: Path) -> None:
    release, stage = tmp_path / "release", tmp_path / "events"
    for name in ("a", "b"):
        write_event_file(stage / "train" / f"{name}.h5", 1)
        append(stage / "train" / f"{name}.h5", name)  # equal sizes, other bytes
    write_manifests(release, stage, {"a": "train", "b": "train"})
    for split in SPLITS:
        pack_split(release, stage, split, 2, PackOptions(workers=0))
    write_checksums(release)
    (a, x), (b, y) = contents(release / TAR)
    rewrite(release / TAR, [(a, y), (b, x)])
    assert lines(release, fast=True) == []
    found = lines(release)
    assert len(found) == 2 and ", the payload of b.h5, expected " in found[0] and ", the payload of a.h5, expected " in found[1]


def test_flipped_byte_is_found_without_xxhash(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    assert lines(release) == []
    flip(release / TAR, 5000)
    assert [line.partition(" ")[0] for line in lines(release)] == [f"{TAR}:"]


def test_one_fault_is_one_line(release: Path) -> None:
    (release / TAR).unlink()
    assert len(lines(release)) == 1
    shutil.copy(release / LAST, release / TAR)
    assert len(lines(release)) == 1


def sha256sum(release: Path, **env: str) -> subprocess.CompletedProcess[str]:
    line = ["sha256sum", "--strict", "-c", "metadata/shard_checksums.sha256"]
    return subprocess.run(line, cwd=release, env={**os.environ, **env}, capture_output=True, text=True, check=False)


def test_real_sha256sum_accepts_the_release_and_no_damaged_one(release: Path) -> None:
    done = sha256sum(release, LC_ALL="C")
    assert done.returncode == 0 and done.stdout.count(": OK\n") == 4 and not done.stderr
    flip(release / TAR, 5000)
    assert sha256sum(release).returncode == 1
    (release / TAR).unlink()
    assert sha256sum(release).returncode == 1


def test_checksum_lines_are_sorted_relative_and_end_in_lf(good: Path) -> None:
    text = checksums_of(good).read_bytes().decode()
    paths = [TAR, "data/train/train-000001.tar", LAST, OTHER]
    assert text == "".join(f"{hashlib.sha256((good / path).read_bytes()).hexdigest()}  {path}\n" for path in paths)
    assert checksum_lines([shard for split in reversed(SPLITS) for shard in read_shard_list(shards_of(good, split), split)[1]]) == text


def test_checksum_script_writes_the_same_file_and_names_a_missing_list(release: Path) -> None:
    expected = checksums_of(release).read_bytes()
    checksums_of(release).unlink()
    line = [sys.executable, str(ROOT / "scripts" / "checksum_events.py"), f"--release={release}"]
    subprocess.run(line, check=True, capture_output=True)
    assert checksums_of(release).read_bytes() == expected
    shards_of(release, "validation").unlink()
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    assert done.returncode == 2 and "[bad_release]" in done.stderr and done.stderr.count("\n") == 1


def test_gnu_tar_writes_the_same_bytes(release: Path, tmp_path: Path) -> None:
    if not shutil.which("tar"):
        pytest.skip("tar is not installed")
    tar = release / "data/train/train-000001.tar"  # no name beyond 100 characters: GNU tar gives the record of a long name another mode
    names = [name for name, _ in contents(tar)]
    for name, data in contents(tar):
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o644)
    line = ["tar", "--format=gnu", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-cf", "out.tar", *names]
    subprocess.run(line, cwd=tmp_path, check=True)
    assert (tmp_path / "out.tar").read_bytes() == (tar).read_bytes()


@pytest.mark.parametrize("split", ["train", "test"])
def test_manifest_with_an_unusable_row_is_refused(tmp_path: Path, split: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(
        json.dumps({"video_id": "a.b" if split == "train" else "a", "split": split, "bytes": 1, "file_xxh3": "0" * 32, "values_xxh3": "0" * 32}) + "\n"
    )
    with pytest.raises(DataError) as caught:
        read_videos(path)
    assert caught.value.code == "bad_release"


ALL_FILES = [
    "data/train/train-000000.tar",
    "data/validation/validation-000000.tar",
    *(f"manifests/{scale}.{suffix}" for scale in ("large", "medium", "small") for suffix in ("jsonl", "csv")),
    "scales/medium_ids.txt",
    "scales/small_ids.txt",
    "metadata/shards_train.json",
    CHECKSUMS,
    "metadata/quarantine.csv",
    "metadata/scales.json",
    "metadata/dataset_description.json",
]
NOT_ALL_FOUND = ("metadata/quarantine.csv", "metadata/scales.json")
"""Files of which some changes leave a release that still holds together."""


@pytest.fixture(scope="module")
def victim(good: Path, tmp_path_factory) -> Path:
    return Path(shutil.copytree(good, tmp_path_factory.mktemp("flips") / "r"))


@settings(max_examples=250)
@given(name=st.sampled_from(ALL_FILES), where=st.integers(0, 1 << 30), bit=st.integers(0, 7), described=st.booleans())
def test_any_flipped_bit_is_found_and_none_makes_the_verifier_stumble(victim: Path, name: str, where: int, bit: int, described: bool) -> None:
    path, description = victim / name, victim / "metadata" / "dataset_description.json"
    kept = {path: path.read_bytes(), description: description.read_bytes()}
    if not described:
        description.write_text("{}\n")
    data = bytearray(path.read_bytes())
    data[where % len(data)] ^= 1 << bit
    path.write_bytes(data)
    try:
        found = lines(victim)
    finally:
        for file, before in kept.items():
            file.write_bytes(before)
    assert all("\n" not in line for line in found)
    if described and name not in NOT_ALL_FOUND and name != "metadata/dataset_description.json":
        assert found, f"{name}: byte {where % len(data)}"
    elif name.endswith((".tar", ".sha256", ".txt")):
        assert found


@settings(max_examples=100)
@given(cut=st.integers(0, 1 << 30), fast=st.booleans())
def test_any_cut_of_a_tar_is_found(victim: Path, cut: int, fast: bool) -> None:
    path = victim / TAR
    before = path.read_bytes()
    os.truncate(path, cut % len(before))
    try:
        assert lines(victim, fast)
    finally:
        path.write_bytes(before)


@settings(max_examples=100)
@given(data=st.binary(max_size=3000), at=st.integers(0, 3000))
def test_no_bytes_make_the_tar_reader_stumble(victim: Path, tmp_path_factory, data: bytes, at: int) -> None:
    path = tmp_path_factory.getbasetemp() / "any.tar"
    whole = (victim / LAST).read_bytes()
    for junk in (data, whole[:at] + data + whole[at + len(data) :]):
        path.write_bytes(junk)
        for payload in (True, False):
            scan = scan_tar(path, payload)
            assert all("\n" not in str(problem) for problem in scan.problems)


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(0, 3000), max_size=4), name=st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=120))
def test_what_the_writer_writes_the_reader_accepts(tmp_path_factory, sizes: list[int], name: str) -> None:
    path = tmp_path_factory.getbasetemp() / "round.tar"
    written = write_tar(path, [Member(f"{index}{name}", bytes(size)) for index, size in enumerate(sizes)])
    scan = scan_tar(path, True)
    assert (scan.problems, scan.complete, scan.sha256) == ([], True, written.sha256)
    assert [(member.name, member.size_bytes) for member in scan.members] == [(f"{index}{name}", size) for index, size in enumerate(sizes)]
    with tarfile.open(path) as tar:
        assert [member.size for member in tar] == sizes


def test_command_line_names_each_fault_and_speaks_json(release: Path, capsys) -> None:
    assert main(["release", "verify", str(release)]) == 0
    assert capsys.readouterr().out == f"{release}: valid (every byte of the payload read)\n"
    flip(release / TAR, 5000)
    flip(release / LAST, 5000)
    assert main(["release", "verify", "--fast", str(release)]) == 0
    assert "payloads not read" in capsys.readouterr().out
    assert main(["release", "verify", str(release)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said] == [TAR, LAST]
    assert main(["release", "verify", "--json", str(release)]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["valid"] is False and [problem["where"] for problem in value["problems"]] == [f"{TAR}: 000012.h5", f"{LAST}: a-b.h5"]


def test_command_line_is_2_where_it_cannot_look(release: Path, capsys, monkeypatch) -> None:
    assert main(["release", "verify", str(release / "none")]) == 2
    assert main(["release", "verify", str(release / TAR)]) == 2

    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("eventvox.__main__.verify_release", refuse)
    assert main(["release", "verify", str(release)]) == 2
    assert capsys.readouterr().err.count("error: ") == 3


@pytest.mark.parametrize("text", ["{}", "null", "[]", '{"files":{},"counts":{"videos":3}}', '{"counts":{"videos":3}}', "\ufeff{}"])
def test_destroyed_description_is_named(release, text):
    description_of(release).write_text(text)
    assert any("dataset_description.json" in line for line in lines(release))


@pytest.mark.parametrize("name", ["manifests/huge.jsonl", "scales/large_ids.txt", "metadata/shards_test.json", "data/train/.plan.json.bak"])
def test_extra_file_is_named(release, name):
    (release / name).write_text("{}")
    assert any(name in line for line in lines(release))


def test_linked_folder_of_tars_is_named(release, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (release / "data" / "train" / "more").symlink_to(tmp_path / "elsewhere")
    assert any("data/train/more" in line for line in lines(release))


def test_one_video_in_both_splits_under_two_ids_is_named(tmp_path):
    release, stage = tmp_path / "events_release", tmp_path / "events"
    for split, video_id in (("train", "one"), ("train", "same"), ("validation", "again")):
        write_event_file(stage / split / f"{video_id}.h5", seed=1)
    write_manifests(release, stage, {"one": "train", "same": "train", "again": "validation"})
    for split in SPLITS:
        pack_split(release, stage, split, 2, PackOptions(workers=0))
    write_checksums(release)
    (line, *more) = lines(release)
    assert "one: in train, with the voxels of again in validation" in line and len(more) == 1
