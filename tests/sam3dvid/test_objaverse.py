"""Objaverse-XL through a stand-in for its package: same call interface, same habits, failures as told."""

import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import pickle
import sys
import types
from pathlib import Path

import pytest

from sam3dvid.fetch import agent
from sam3dvid.fetch.objaverse import Job, batches
from sam3dvid.fetch.objects import Wanted, source_of
from shardwork import command
from shardwork.errors import DataError

pandas = pytest.importorskip("pandas")
ROOT = Path(__file__).resolve().parents[2]
REAL = os.environ.get("REELMILL_OBJAVERSE", "")
UIDS = [f"{number:032x}" for number in range(6)]
COMMIT = "a" * 40


def sketchfab(uid):
    return f"https://sketchfab.com/3d-models/{uid}"


def github(path, repository="org/repo", commit=COMMIT):
    return f"https://github.com/{repository}/blob/{commit}/{path}"


def sha(body):
    return hashlib.sha256(body).hexdigest()


class StandIn:
    """objaverse.xl 0.1.7 as this project calls it: what it holds, what it is told to do wrong, what it was asked."""

    def __init__(self, tmp_path):
        self.rows, self.bodies, self.calls = [], {}, []
        self.raises, self.poison, self.temp = [], set(), tmp_path / "clones"
        self.annotation_raises = []
        self.downloaders = {name: types.SimpleNamespace(get_annotations=self._annotations_of(name)) for name in ("sketchfab", "github", "thingiverse")}

    def add(self, identifier, body, license="Creative Commons - Attribution", served=None, **more):
        source = source_of(identifier)
        self.rows.append({"fileIdentifier": identifier, "source": source, "license": license, "fileType": "glb", "sha256": sha(body), "metadata": "{}", **more})
        self.bodies[identifier] = body if served is None else served
        return sha(body)

    def _annotations_of(self, name):
        def get_annotations(download_dir="~/.objaverse", refresh=False):
            if self.annotation_raises:
                raise self.annotation_raises.pop(0)
            return pandas.DataFrame([row for row in self.rows if row["source"] == name], columns=list(self.rows[0]))

        return get_annotations

    def download_objects(
        self,
        objects,
        download_dir="~/.objaverse",
        processes=None,
        handle_found_object=None,
        handle_modified_object=None,
        handle_missing_object=None,
        **kwargs,
    ):
        self.calls.append(sorted(objects["fileIdentifier"]))
        repositories = {tuple(one.split("/")[3:5]): one.split("/")[6] for one in objects["fileIdentifier"] if "github" in one}
        assert len({(*one.split("/")[3:5], one.split("/")[6]) for one in objects["fileIdentifier"] if "github" in one}) == len(repositories)
        # handlers travel to other processes in the package
        found, modified = (pickle.loads(pickle.dumps(one)) for one in (handle_found_object, handle_modified_object))
        error = self.raises.pop(0) if self.raises else None
        for number, row in enumerate(objects.to_dict("records")):
            identifier, body = row["fileIdentifier"], self.bodies[row["fileIdentifier"]]
            if identifier in self.poison:
                raise OSError("HTTP Error 500: Internal Server Error")
            if error is not None and number == 1:
                raise error
            if body is None:
                continue  # gone: the package logs it and goes on
            self.temp.mkdir(exist_ok=True)
            local = self.temp / "object"
            local.write_bytes(body)
            if sha(body) == row["sha256"]:
                found(local_path=str(local), file_identifier=identifier, sha256=sha(body), metadata={})
            else:
                modified(local_path=str(local), file_identifier=identifier, new_sha256=sha(body), old_sha256=row["sha256"], metadata={})
            local.unlink()
        return {}


@pytest.fixture
def xl(tmp_path):
    return StandIn(tmp_path)


@pytest.fixture
def fetch(xl, tmp_path, monkeypatch):
    """Return a call of the script: (exit code, rows of failed.csv, records, folder)."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("fetch_objaverse", ROOT / "scripts" / "fetch_objaverse.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setitem(sys.modules, "objaverse", types.ModuleType("objaverse"))
    monkeypatch.setitem(sys.modules, "objaverse.xl", xl)
    xl.waits = []
    monkeypatch.setattr(script, "growing_waits", lambda: xl.waits.append)
    out = tmp_path / "objaverse"

    def call(*flags):
        code = command.run(script.main, script.arguments, [f"--out={out}", *flags])
        failed = (out / "failed.csv").read_text().splitlines()[1:] if (out / "failed.csv").exists() else None
        records = [json.loads(line) for line in (out / "fetched.jsonl").read_text().splitlines()] if (out / "fetched.jsonl").exists() else None
        return code, failed, records, out

    return call


@pytest.fixture
def table(xl, tmp_path):
    """Return a metadata table in TRELLIS-500K's form of what the stand-in holds, or of the rows given."""

    def write(scores=()):
        path = tmp_path / "metadata.csv"
        lines = ["sha256,file_identifier,aesthetic_score,captions"]
        for number, row in enumerate(xl.rows):
            score = scores[number] if number < len(scores) else "6.1"
            lines.append(f'{row["sha256"]},{row["fileIdentifier"]},{score},"[""a mug, white""]"')
        path.write_text("\n".join(lines) + "\n")
        return f"--metadata={path}"

    return write


def bodies(xl, count=6):
    return [xl.add(sketchfab(uid), b"glTF" + uid.encode()) for uid in UIDS[:count]]


def test_objects_come_under_their_sha256_with_licence_and_source(xl, fetch, table):
    digests = bodies(xl)
    code, failed, records, out = fetch(table())
    assert (code, failed) == (0, [])
    assert [record["file"] for record in records] == [f"{digest}.glb" for digest in sorted(digests)]
    for record in records:
        assert sha((out / record["file"]).read_bytes()) == record["sha256"]
        assert (record["source"], record["license"]) == ("objaverse", "CC-BY-4.0")
        assert record["source_url"] == sketchfab(record["source_name"])


@pytest.mark.parametrize(("score", "kept"), [("5.5", 1), ("5.4999", 0), ("", 0), ("nan", 0), ("6", 1)])
def test_the_score_filter_keeps_5_5_and_above(xl, fetch, table, score, kept):
    bodies(xl, 2)
    assert len(fetch(table(["9", score]))[2]) == 1 + kept


def test_a_filter_of_0_takes_objects_without_a_score(xl, fetch, table):
    bodies(xl, 2)
    assert len(fetch(table(["", ""]), "--min-aesthetic=0")[2]) == 2


def test_another_file_than_stated_is_removed_and_named(xl, fetch, table):
    bodies(xl, 3)
    wrong = xl.add(sketchfab(UIDS[5]), b"right", served=b"wrong")
    code, failed, records, out = fetch(table())
    assert (code, len(records)) == (3, 3)
    assert failed == [f"{wrong},{sketchfab(UIDS[5])},digest_mismatch,sha256 {sha(b'wrong')}"]
    assert not (out / f"{wrong}.glb").exists()
    assert [path for path in out.rglob("*") if path.is_file() and path.read_bytes() == b"wrong"] == []


def test_a_table_and_annotations_that_disagree_are_a_mismatch_without_a_download(xl, fetch, table):
    bodies(xl, 1)
    flag = table()
    xl.rows[0]["sha256"] = "0" * 64
    code, failed, _, _ = fetch(flag)
    assert (code, xl.calls) == (3, [])
    assert "digest_mismatch" in failed[0]


def test_an_object_that_is_gone_is_a_row_and_the_others_come(xl, fetch, table):
    bodies(xl, 3)
    xl.bodies[sketchfab(UIDS[1])] = None
    code, failed, records, _ = fetch(table())
    assert (code, len(records)) == (3, 2)
    assert "download_failed,the package did not find it" in failed[0]


def test_an_object_that_the_annotations_lack_is_a_row(xl, fetch, table):
    bodies(xl, 2)
    flag = table()
    del xl.rows[1]
    code, failed, records, _ = fetch(flag)
    assert (code, len(records)) == (3, 1)
    assert "not among the annotations" in failed[0]


def test_a_call_that_fails_once_is_made_again_for_what_lacks(xl, fetch, table):
    bodies(xl)
    xl.raises = [OSError("HTTP Error 503: Service Unavailable")]
    assert fetch(table())[0] == 0
    assert [len(call) for call in xl.calls] == [6, 5]
    assert xl.waits == [1]


def test_one_object_that_always_fails_costs_only_itself(xl, fetch, table):
    bodies(xl)
    xl.poison = {sketchfab(UIDS[2])}
    code, failed, records, _ = fetch(table())
    assert (code, len(records)) == (3, 5)
    assert UIDS[2] in failed[0]
    assert "HTTP Error 500" in failed[0]


def test_a_full_disk_ends_the_run_as_a_fault(xl, fetch, table):
    bodies(xl)
    xl.raises = [OSError(28, "No space left on device")]
    assert fetch(table())[0] == 1
    assert len(xl.calls) == 1


def test_a_second_run_fetches_only_what_lacks(xl, fetch, table):
    bodies(xl, 4)
    xl.bodies[sketchfab(UIDS[1])] = None
    fetch(table())
    xl.bodies[sketchfab(UIDS[1])] = b"glTF" + UIDS[1].encode()
    xl.calls.clear()
    code, failed, records, _ = fetch(table())
    assert (code, failed, len(records)) == (0, [], 4)
    assert xl.calls == [[sketchfab(UIDS[1])]]


def test_files_whose_books_were_lost_are_checked_and_not_fetched_again(xl, fetch, table):
    digests = bodies(xl, 3)
    out = fetch(table())[3]
    before = (out / "fetched.jsonl").read_bytes()
    (out / "fetched.jsonl").unlink()
    (out / f"{digests[0]}.glb").write_bytes(b"cut")
    xl.calls.clear()
    assert fetch(table())[0] == 0
    assert xl.calls == [[sketchfab(UIDS[0])]]
    assert (out / "fetched.jsonl").read_bytes() == before


def test_what_an_earlier_kill_left_in_the_packages_folder_is_not_trusted(xl, fetch, table, tmp_path):
    bodies(xl, 1)
    half = tmp_path / "objaverse/.objaverse/hf-objaverse-v1/glbs/000-000" / f"{UIDS[0]}.glb"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    assert fetch(table())[0] == 0
    assert not half.exists()


def test_annotations_that_fail_once_are_asked_for_again(xl, fetch, table):
    bodies(xl, 1)
    xl.annotation_raises = [OSError("timed out")]
    assert fetch(table())[0] == 0
    assert xl.waits == [1]


def test_annotations_that_stay_away_are_a_row_for_each_object(xl, fetch, table):
    bodies(xl, 3)
    xl.annotation_raises = [OSError("timed out")] * 3
    code, failed, records, _ = fetch(table())
    assert (code, len(failed), records) == (3, 3, [])


def test_objects_by_address_or_uid_need_no_table(xl, fetch, tmp_path):
    digests = bodies(xl, 3)
    names = tmp_path / "ids.txt"
    names.write_text(f"{UIDS[2]}\n{sketchfab(UIDS[0])}\n")
    code, _, records, _ = fetch(f"--ids={names}")
    assert code == 0
    assert {record["sha256"] for record in records} == {digests[0], digests[2]}


def test_a_limit_takes_the_first_by_sha256(xl, fetch, table):
    digests = bodies(xl)
    assert [record["sha256"] for record in fetch(table(), "--limit=2")[2]] == sorted(digests)[:2]


def test_a_repository_at_two_commits_is_fetched_in_two_calls(xl, fetch, table):
    xl.add(github("a.glb"), b"a", license="MIT License")
    xl.add(github("b.glb", commit="b" * 40), b"b", license=None)
    xl.add(github("c.stl", repository="other/repo"), b"c", license="My own terms")
    code, failed, records, _ = fetch(table())
    assert (code, failed) == (0, [])
    assert len(xl.calls) == 2
    assert {record["source_name"].rpartition("/")[2]: record["license"] for record in records} == {"a.glb": "MIT", "b.glb": "", "c.stl": "My own terms"}
    assert {record["author"] for record in records} == {"org", "other"}


def test_a_format_that_no_reader_here_knows_is_not_fetched(xl, fetch, table):
    xl.add(github("scene.blend"), b"BLENDER")
    code, failed, _, _ = fetch(table())
    assert (code, xl.calls) == (3, [])
    assert "format_unsupported,.blend" in failed[0]


def test_batches_hold_every_object_once_and_no_more_than_their_size():
    wanted = [Wanted(f"{number:064x}", github(f"{number}.glb", f"o/r{number % 3}", f"{number % 2}" * 40), "github") for number in range(20)]
    found = list(batches(wanted, 4))
    assert sorted(one.sha256 for batch in found for one in batch) == [one.sha256 for one in wanted]
    assert all(len(batch) <= 4 for batch in found)
    for batch in found:
        assert len({one.repository for one in batch}) == len({one.repository[0] for one in batch})


@pytest.mark.parametrize("row", ["xyz,https://sketchfab.com/3d-models/a,6", f"{'0' * 64},https://example.org/a.glb,6", f"{'0' * 64},https://github.com/o/r,6"])
def test_a_row_that_names_no_object_is_bad_input(fetch, tmp_path, row):
    path = tmp_path / "metadata.csv"
    path.write_text(f"sha256,file_identifier,aesthetic_score\n{row}\n")
    assert fetch(f"--metadata={path}")[0] == 2


def test_without_the_package_the_error_says_what_to_install(xl, fetch, table, monkeypatch, capsys):
    bodies(xl, 1)
    monkeypatch.setitem(sys.modules, "objaverse.xl", None)
    assert fetch(table())[0] == 2
    assert "pip install 'reelmill[objaverse]'" in capsys.readouterr().err


def test_waits_grow_and_end_at_the_longest(monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    wait = agent.growing_waits(5.0, 30.0)
    for number in (1, 2, 3, 4, 9):
        wait(number)
    for seconds, most in zip(slept, [5, 10, 20, 30, 30], strict=True):
        assert most / 2 <= seconds <= most


def test_a_job_keeps_the_packages_folder_inside_its_own(tmp_path, xl):
    job = Job(xl, tmp_path, 1, 1, print, print)
    assert job.work.is_relative_to(tmp_path)


@pytest.mark.skipif(not REAL, reason="REELMILL_OBJAVERSE names no folder that holds objaverse 0.1.7 and what it imports")
def test_the_stand_in_has_the_signatures_of_the_real_package(xl, monkeypatch):
    monkeypatch.syspath_prepend(REAL)
    real = importlib.import_module("objaverse.xl")
    ours = inspect.signature(xl.download_objects).parameters
    assert list(ours) == list(inspect.signature(real.download_objects).parameters)
    for name in ("sketchfab", "github", "thingiverse"):
        theirs = inspect.signature(real.downloaders[name].get_annotations).parameters
        assert list(inspect.signature(xl.downloaders[name].get_annotations).parameters) == list(theirs)


def test_an_address_of_no_known_source_is_refused():
    with pytest.raises(DataError, match="sketchfab, github"):
        source_of("https://example.org/mug.glb")
    assert source_of("https://3d-api.si.edu/content/document/3d_package:x/resources/a.glb") == "smithsonian"
