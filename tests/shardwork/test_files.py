"""Atomic files, JSON, tables and tar: what stands under a final name is whole, and reads back as what was written."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from shardwork.digests import both_digests, sha256_file, xxh3_file
from shardwork.errors import DataError, Fault
from shardwork.files import atomic_folder, atomic_path, check_apart, check_writable, publish, temp_owner, temp_path
from shardwork.jsonio import dumps, loads, read_jsonl, write_json, write_jsonl
from shardwork.tables import read_table, rows_digest, write_table
from shardwork.tarball import Member, Written, header, write_tar


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    final = tmp_path / "a.h5"
    final.write_text("old")
    with pytest.raises(ValueError, match="mid-way"), atomic_path(final) as temp:
        temp.write_text("half")
        raise ValueError("mid-way")
    assert final.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.parametrize("kind", ["itself", "a link", "a hard link", "the other way into its folder"])
def test_a_file_that_is_read_is_never_one_to_write(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "folder" / "source"
    source.parent.mkdir()
    source.write_text("x")
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    (tmp_path / "way").symlink_to(source.parent)
    out = {"itself": source, "a link": tmp_path / "link", "a hard link": tmp_path / "hard"}.get(kind, tmp_path / "way" / "source")
    with pytest.raises(DataError, match=r"the same file as .*source.*\[bad_argument\]"):
        check_apart(out, [tmp_path / "none", source])


def test_files_of_equal_contents_are_two(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("x")
    check_apart(tmp_path / "a", [tmp_path / "b", tmp_path / "none"])
    check_apart(tmp_path / "none", [tmp_path / "none"])


def test_failed_check_publishes_nothing(tmp_path: Path) -> None:
    def refuse(temp: Path) -> None:
        raise DataError("x", temp, "a", "b", "c")

    with pytest.raises(DataError), atomic_path(tmp_path / "a", refuse) as temp:
        temp.write_text("wrong")
    assert os.listdir(tmp_path) == []


def test_rename_that_lies_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    final, temp = tmp_path / "a", tmp_path / "t"
    final.write_text("another process's file")
    temp.write_text("new")
    monkeypatch.setattr(os, "replace", lambda source, target: None)
    with pytest.raises(Fault) as caught:
        publish(temp, final)
    assert caught.value.code == "not_published"


def test_folder_is_replaced_whole(tmp_path: Path) -> None:
    final = tmp_path / "clip"
    for text in ("first", "second"):
        with atomic_folder(final) as temp:
            (temp / text).write_text(text)
    assert os.listdir(tmp_path) == ["clip"]
    assert os.listdir(final) == ["second"]


def test_temporary_name_tells_its_owner_and_never_ends_like_it() -> None:
    name = temp_path(Path("x/v_-a.b.h5")).name
    assert temp_owner(name) == "v_-a.b.h5"
    assert not name.endswith(".h5") and name.startswith(".")
    assert temp_owner("v_a.h5") is None and temp_owner(".bashrc.tmp") is None


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    check_writable(tmp_path / "not" / "yet")
    assert os.listdir(tmp_path) == []
    with pytest.raises(DataError) as caught:
        check_writable(Path("/proc/reelmill/results"))
    assert caught.value.code == "unwritable" and "/proc" in caught.value.found


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object(), {1, 2}])
def test_json_refuses_what_strict_readers_refuse(bad: object) -> None:
    with pytest.raises(DataError) as caught:
        dumps({"a": bad})
    assert caught.value.code == "bad_json"


def test_json_is_sorted_plain_and_one_line() -> None:
    import numpy as np

    value = {"b": np.float32(0.5), "a": np.int64(3), "c": np.bool_(True), "p": Path("x/y"), "l": np.arange(2), "u": "a\u2028b\n"}
    assert dumps(value) == '{"a":3,"b":0.5,"c":true,"l":[0,1],"p":"x/y","u":"a\\u2028b\\n"}'


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"a":NaN}', "[Infinity]", "[1e999]", '{"a":1', "", "[" * 100_000])
def test_reading_json_refuses_traps(text: str) -> None:
    with pytest.raises(DataError) as caught:
        loads(text, "here.json")
    assert caught.value.where == "here.json"


def test_jsonl_splits_at_line_feeds_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes('{"a":"x\u2028y\x85z"}\n\n{"a":"2"}\n'.encode())
    assert read_jsonl(path) == [{"a": "x\u2028y\x85z"}, {"a": "2"}]
    write_jsonl(path, read_jsonl(path))
    assert path.read_bytes() == b'{"a":"x\\u2028y\\u0085z"}\n{"a":"2"}\n'
    write_json(path, {"b": 1, "a": [1]})
    assert path.read_bytes().endswith(b"}\n") and json.loads(path.read_bytes()) == {"a": [1], "b": 1}


HARD_IDS = [
    "00000000",
    "000012",
    "1e5",
    "NA",
    "null",
    "None",
    "True",
    "12345678901234567890",
    "-Zr7PHNAjJI",
    "v_--edUL8zmA",
    " lead",
    'q"uote',
    "com,ma",
    "new\nline",
]


def test_table_keeps_every_id_as_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_table(path, ("id", "label"), [{"id": key, "label": "NA"} for key in HARD_IDS])
    assert [row["id"] for row in read_table(path, "id", ("label",))] == HARD_IDS
    assert {row["label"] for row in read_table(path, "id")} == {"NA"}


def test_table_of_a_spreadsheet_with_mark_and_crlf_reads(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfid,n\r\na,1\r\n\r\nb,2\r\n")
    assert read_table(path, "id", ("n",)) == [{"id": "a", "n": "1"}, {"id": "b", "n": "2"}]


@pytest.mark.parametrize(
    ("data", "code", "part"),
    [
        (b"id,n\na,1\nb,2\na,3\n", "duplicate_id", "t.csv:4"),
        (b"id,n\na\n", "bad_table", "t.csv:2"),
        (b"name,n\na,1\n", "bad_table", "column 'id'"),
        (b"id,n,n\na,1,2\n", "bad_table", "stands twice"),
        (b'id,n\n"a,1\n', "bad_table", "CSV"),
        (b"id,n\n\xff,1\n", "bad_table", "UTF-8"),
        (b"", "bad_table", "column 'id'"),
    ],
)
def test_bad_table_is_named_with_its_line(tmp_path: Path, data: bytes, code: str, part: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        read_table(path, "id", ("n",))
    assert caught.value.code == code and part in str(caught.value)


def test_missing_table_and_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(DataError) as caught:
            read_table(path, "id")
        assert caught.value.code == "bad_table" and caught.value.where == str(path)


def test_rows_digest_ignores_order_and_other_columns() -> None:
    a, b = {"id": "a", "n": "1", "x": "?"}, {"id": "b", "n": "2", "x": "!"}
    assert rows_digest([a, b], ("id", "n")) == rows_digest([{**b, "x": ""}, a], ("id", "n"))
    assert rows_digest([a, b], ("id", "n")) != rows_digest([a, {**b, "n": "3"}], ("id", "n"))
    assert rows_digest([{"id": "a", "n": "b"}], ("id", "n")) != rows_digest([{"id": "b", "n": "a"}], ("id", "n"))


def test_tar_has_fixed_fields_whatever_the_files_say(tmp_path: Path) -> None:
    digests = []
    for mode, mtime in ((0o600, 1), (0o777, 10**9)):
        file = tmp_path / "file"
        file.write_bytes(b"payload" * 100)
        file.chmod(mode)
        os.utime(file, (mtime, mtime))
        write_tar(tmp_path / "t.tar", [Member("a/é.h5", file), Member("b" * 150, file)])
        digests.append((tmp_path / "t.tar").read_bytes())
    assert digests[0] == digests[1]
    with tarfile.open(fileobj=io.BytesIO(digests[0])) as tar:
        found = [(m.name, m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in tar.getmembers()]
    assert found == [("a/é.h5", 0, 0, 0, "", "", 0o644), ("b" * 150, 0, 0, 0, "", "", 0o644)]


@pytest.mark.parametrize("value", ["\r", "\n", "\r\n", 'a"b', "a,b", "", " a ", "\u2028", "x" * 200_000])
def test_any_text_survives_a_table(tmp_path: Path, value: str) -> None:
    write_table(tmp_path / "t.csv", ("id", "label"), [{"id": "a", "label": value}, {"id": "b", "label": ""}])
    assert read_table(tmp_path / "t.csv", "id") == [{"id": "a", "label": value}, {"id": "b", "label": ""}]
    assert b"\r\n" not in (tmp_path / "t.csv").read_bytes() or "\r\n" in value


def test_both_digests_are_those_of_one_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    assert both_digests(tmp_path / "f") == (xxh3_file(tmp_path / "f"), hashlib.sha256(b"x" * 3_000_000).hexdigest())


def test_tar_member_beyond_8_gib_has_its_size_in_the_header() -> None:
    info = tarfile.TarInfo.frombuf(header("big.h5", 9 << 30), "utf-8", "strict")
    assert (info.name, info.size) == ("big.h5", 9 << 30)


PACK_ONE = """
import resource, sys
from pathlib import Path
from shardwork.tarball import Member, Written, header, write_tar
write_tar(Path(sys.argv[2]), [Member("a.h5", Path(sys.argv[1]))])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_packing_takes_no_more_memory_for_a_large_file(tmp_path: Path) -> None:
    peaks = []
    for mib in (1, 128):
        with open(tmp_path / "a.h5", "wb") as file:
            file.truncate(mib << 20)
        line = [sys.executable, "-c", PACK_ONE, str(tmp_path / "a.h5"), str(tmp_path / "a.tar")]
        done = subprocess.run(line, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")})
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 16 << 10, f"{peaks} KiB"


@pytest.mark.parametrize(
    ("member", "part"),
    [
        (Member("a", Path("none.h5")), "No such file"),
        (Member("a", Path("a.h5"), size_bytes=4), "3 bytes, expected 4"),
        (Member("a", Path("a.h5"), size_bytes=3, xxh3="0" * 32), "xxh3 06b05ab6733a618578af5f94892f3950"),
        (Member("a", Path()), "Is a directory"),
    ],
)
def test_file_that_is_not_what_its_member_says_is_named_and_no_tar_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, member: Member, part: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.h5").write_bytes(b"abc")
    with pytest.raises(DataError) as caught:
        write_tar(Path("t.tar"), [Member("first", b"1"), member])
    assert caught.value.code == "member_changed" and part in str(caught.value)
    assert os.listdir() == ["a.h5"]


def test_written_tar_is_described_by_the_digest_of_its_bytes(tmp_path: Path) -> None:
    written = write_tar(tmp_path / "t.tar", [Member("a", b"x" * 1000), Member("b", b"")])
    assert written == Written(10240, sha256_file(tmp_path / "t.tar"), 2)
