"""Google Scanned Objects from a server that answers as Gazebo Fuel does, and sometimes does not."""

import hashlib
import importlib.util
import io
import json
import os
import shutil
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from sam3dvid.assets.licenses import spdx_of
from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.fuel import fetch_model, list_models, record_of
from shardwork import command
from tests.sam3dvid.servers import JSON, Answer, client, running

ROOT = Path(__file__).resolve().parents[2]
OBJ = b"mtllib model.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
METADATA = b'name: "x"\nauthors {\n  name: "Google"\n  email: "scanned-objects@google.com"\n}\nlegal {\n  license: "..."\n}\n'
FILES = {"meshes/model.obj": OBJ, "meshes/model.mtl": b"map_Kd texture.png\n", "materials/textures/texture.png": b"\x89PNG", "metadata.pbtxt": METADATA}
MODELS = "/1.0/GoogleResearch/models"


def zip_of(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return buffer.getvalue()


def entry(name, **more):
    # the fields that Fuel lists, as of 2026
    return {
        "name": name,
        "owner": "GoogleResearch",
        "description": name,
        "likes": 1,
        "downloads": 51,
        "filesize": 2102876,
        "license_id": 1,
        "license_name": "Creative Commons Attribution 4.0 International",
        "license_url": "http://creativecommons.org/licenses/by/4.0/",
        "version": 1,
        "private": False,
        "categories": ["Consumer Goods"],
        **more,
    }


def put_models(server, names, per_page=100, linked=True, **more):
    """Let the server list models, a page each `per_page`, and hold their zips."""
    pages = [names[begin : begin + per_page] for begin in range(0, len(names), per_page)]
    for number, page in enumerate(pages, 1):
        path = f"{MODELS}?page={number}&per_page=100"
        links = f'<{MODELS}?page={number + 1}&per_page=100>; rel="next"' if number < len(pages) else f'<{MODELS}?page=1&per_page=100>; rel="first"'
        headers = {"X-Total-Count": str(len(names)), **({"Link": links} if linked else {})}
        server.put(path, json.dumps([entry(name, **more) for name in page]).encode(), JSON)
        server.always[path] = Answer(headers=headers)
    for name in names:
        server.put(f"{MODELS}/{name}/1/{name}.zip", zip_of({**FILES, "meshes/model.obj": OBJ + name.encode()}))


@pytest.fixture
def server():
    with running() as one:
        yield one


@pytest.fixture
def fetch(server, tmp_path, monkeypatch):
    """Return a call of the script: (exit code, rows of failed.csv, records of fetched.jsonl, folder)."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("fetch_gso", ROOT / "scripts" / "fetch_gso.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fetch_gso", script)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "new_client", lambda: client(tries=3))
    out = tmp_path / "gso"

    def call(*flags):
        code = command.run(script.main, script.arguments, [f"--out={out}", f"--base-url={server.url}", *flags])
        failed = (out / "failed.csv").read_text().splitlines() if (out / "failed.csv").exists() else None
        records = [json.loads(line) for line in (out / "fetched.jsonl").read_text().splitlines()] if (out / "fetched.jsonl").exists() else None
        return code, failed, records, out

    return call


def refusal(call, *args):
    with pytest.raises(AssetRefused) as caught:
        call(*args)
    return caught.value


NAMES = [f"Mug_{number:03d}" for number in range(7)]


@pytest.mark.parametrize("linked", [True, False])
def test_all_pages_are_read_whether_they_are_linked_or_end_in_404(server, linked):
    put_models(server, NAMES, per_page=3, linked=linked)
    assert [model.name for model in list_models(client(), server.url)] == NAMES
    assert len(server.asked) == (3 if linked else 4)


def test_a_page_that_fails_once_is_asked_again(server):
    put_models(server, NAMES, per_page=3)
    server.answer(f"{MODELS}?page=2&per_page=100", Answer(502, body=b"bad gateway"))
    assert [model.name for model in list_models(client(), server.url)] == NAMES


def test_a_page_that_stays_away_ends_the_listing_with_its_address(server):
    put_models(server, NAMES, per_page=3)
    server.always[f"{MODELS}?page=2&per_page=100"] = Answer(500, body=b"")
    error = refusal(list_models, client(tries=2), server.url)
    assert error.code == "download_failed"
    assert "page=2" in error.where


def test_a_listing_shorter_than_its_total_is_refused(server):
    put_models(server, NAMES)
    server.always[f"{MODELS}?page=1&per_page=100"] = Answer(headers={"X-Total-Count": "8", "Link": '<x>; rel="first"'})
    assert refusal(list_models, client(), server.url).code == "bad_answer"


@pytest.mark.parametrize("name", ["../etc", "a/b", ".hidden", "", "a\\b", None])
def test_a_name_that_no_folder_can_have_is_refused(server, name):
    server.put(f"{MODELS}?page=1&per_page=100", json.dumps([entry(name)]).encode())
    assert refusal(list_models, client(), server.url).code == "bad_answer"


def test_a_listing_that_is_html_is_refused(server):
    server.put(f"{MODELS}?page=1&per_page=100", b"<html>login</html>")
    assert refusal(list_models, client(), server.url).code == "bad_answer"


def test_a_model_comes_with_its_files_licence_version_and_digest(server, tmp_path):
    put_models(server, ["Mug"])
    model = list_models(client(), server.url)[0]
    record = fetch_model(client(), model, tmp_path, server.url)
    assert record.file == "Mug/meshes/model.obj"
    assert record.sha256 == hashlib.sha256(OBJ + b"Mug").hexdigest()
    assert (record.source, record.source_name, record.license, record.author) == ("gso", "Mug", "CC-BY-4.0", "Google")
    assert record.source_url == f"{server.url}{MODELS}/Mug"
    assert (tmp_path / "Mug/materials/textures/texture.png").read_bytes() == b"\x89PNG"
    note = json.loads((tmp_path / "Mug/fuel.json").read_text())
    assert note["source"]["version"] == "1"
    assert note["files"]["meshes/model.obj"] == len(OBJ) + 3


def test_a_model_without_a_version_is_asked_for_by_its_tip(server, tmp_path):
    server.put(f"{MODELS}/Mug/tip/Mug.zip", zip_of(FILES))
    server.put(f"{MODELS}?page=1&per_page=100", json.dumps([entry("Mug", version=None)]).encode())
    model = list_models(client(), server.url)[0]
    assert fetch_model(client(), model, tmp_path, server.url).source_name == "Mug"


def test_a_name_with_odd_letters_is_written_as_an_address(server, tmp_path):
    written = "%C3%89tui%20%26%20Mug"
    server.put(f"{MODELS}/{written}/1/{written}.zip", zip_of(FILES))
    server.put(f"{MODELS}?page=1&per_page=100", json.dumps([entry("Étui & Mug")]).encode())
    fetch_model(client(), list_models(client(), server.url)[0], tmp_path, server.url)
    assert (tmp_path / "Étui & Mug/meshes/model.obj").exists()


def test_a_folder_around_everything_is_left_out(server, tmp_path):
    put_models(server, ["Mug"])
    server.put(f"{MODELS}/Mug/1/Mug.zip", zip_of({f"Mug/{name}": body for name, body in FILES.items()}))
    assert fetch_model(client(), list_models(client(), server.url)[0], tmp_path, server.url).file == "Mug/meshes/model.obj"


def link_zip():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, body in FILES.items():
            archive.writestr(name, body)
        link = zipfile.ZipInfo("meshes/passwd")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return buffer.getvalue()


def without(*names):
    return zip_of({name: body for name, body in FILES.items() if name not in names})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (zip_of({**FILES, "../../evil.txt": b"x"}), "bad_answer"),
        (zip_of({**FILES, "/etc/evil": b"x"}), "bad_answer"),
        (zip_of({**FILES, "..\\evil": b"x"}), "bad_answer"),
        (zip_of({**FILES, "meshes/MODEL.obj": b"x"}), "bad_answer"),
        (link_zip(), "bad_answer"),
        (without("meshes/model.obj"), "missing_part"),
        (without("materials/textures/texture.png"), "missing_texture"),
        (b"<html>not found</html>", "digest_mismatch"),
        (b"", "digest_mismatch"),
    ],
    ids=["dots", "absolute", "backslash", "twice", "link", "no mesh", "no texture", "html", "empty"],
)
def test_a_bad_zip_is_refused_and_leaves_nothing(server, tmp_path, body, code):
    put_models(server, ["Mug"])
    server.put(f"{MODELS}/Mug/1/Mug.zip", body)
    out = tmp_path / "gso"
    assert refusal(fetch_model, client(), list_models(client(), server.url)[0], out, server.url).code == code
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_flipped_byte_inside_a_zip_is_found_and_the_zip_fetched_again(server, tmp_path):
    put_models(server, ["Mug"])
    path = f"{MODELS}/Mug/1/Mug.zip"
    good = zip_of({**FILES, "meshes/big.bin": bytes(1000)})
    at = good.index(b"meshes/big.bin") + len(b"meshes/big.bin") + 1
    spoilt = good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]
    server.put(path, good)
    server.answer(path, Answer(body=spoilt))
    assert fetch_model(client(), list_models(client(), server.url)[0], tmp_path, server.url).source_name == "Mug"
    server.always[path] = Answer(body=spoilt)
    other = refusal(fetch_model, client(), list_models(client(), server.url)[0], tmp_path / "other", server.url)
    assert other.code == "digest_mismatch"


def test_a_model_whose_file_was_cut_is_not_whole(server, tmp_path):
    put_models(server, ["Mug"])
    fetch_model(client(), list_models(client(), server.url)[0], tmp_path, server.url)
    assert record_of(tmp_path / "Mug") is not None
    (tmp_path / "Mug/meshes/model.obj").write_bytes(OBJ[:10])
    assert record_of(tmp_path / "Mug") is None


def test_the_script_fetches_all_and_says_so(server, fetch):
    put_models(server, NAMES, per_page=3)
    code, failed, records, out = fetch()
    assert code == 0
    assert failed == ["name,url,code,found"]
    assert [record["file"] for record in records] == [f"{name}/meshes/model.obj" for name in NAMES]
    assert set(records[0]) == {"file", "sha256", "source", "source_name", "source_url", "license", "author"}
    for record in records:
        assert hashlib.sha256((out / record["file"]).read_bytes()).hexdigest() == record["sha256"]


def test_one_model_that_fails_is_a_row_and_exit_code_3(server, fetch):
    put_models(server, NAMES)
    del server.files[f"{MODELS}/Mug_003/1/Mug_003.zip"]
    code, failed, records, _ = fetch()
    assert code == 3
    assert failed[1:] == [f"Mug_003,{server.url}{MODELS}/Mug_003/1/Mug_003.zip,download_failed,status 404 Not Found"]
    assert len(records) == 6


def test_a_second_run_fetches_only_what_lacks(server, fetch):
    put_models(server, NAMES)
    body = server.files.pop(f"{MODELS}/Mug_003/1/Mug_003.zip")
    fetch()
    server.files[f"{MODELS}/Mug_003/1/Mug_003.zip"] = body
    server.asked.clear()
    code, failed, records, _ = fetch()
    assert (code, len(records), len(failed)) == (0, 7, 1)
    assert [path for path in server.paths() if path.endswith(".zip")] == [f"{MODELS}/Mug_003/1/Mug_003.zip"]


def test_a_listing_that_fails_keeps_the_records_of_what_is_there(server, fetch):
    put_models(server, NAMES)
    fetch()
    server.always[f"{MODELS}?page=1&per_page=100"] = Answer(500, body=b"")
    code, failed, records, _ = fetch()
    assert code == 3
    assert len(records) == 7
    assert "download_failed" in failed[1]


def test_named_models_come_and_an_unknown_name_is_a_row(server, fetch, tmp_path):
    put_models(server, NAMES)
    names = tmp_path / "names.txt"
    names.write_text("# mugs\nMug_005\n\nMug_001\nNo_such_mug\n")
    code, failed, records, _ = fetch(f"--names={names}")
    assert code == 3
    assert [record["source_name"] for record in records] == ["Mug_001", "Mug_005"]
    assert failed[1].startswith("No_such_mug,")


def test_a_limit_takes_the_first_by_name(server, fetch):
    put_models(server, NAMES)
    assert [record["source_name"] for record in fetch("--limit=2")[2]] == NAMES[:2]


def test_two_runs_give_the_same_bytes(server, fetch):
    put_models(server, NAMES)
    out = fetch("--workers=4")[3]
    first = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for name in NAMES:
        shutil.rmtree(out / name)
    fetch("--workers=1")
    assert {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()} == first


def test_a_folder_of_a_models_name_that_came_from_elsewhere_is_set_aside(server, fetch):
    put_models(server, ["Mug"])
    out = fetch()[3]
    (out / "Mug/fuel.json").unlink()
    (out / "Mug/mine.txt").write_text("work")
    code, _, records, _ = fetch()
    assert (code, len(records)) == (0, 1)
    assert (out / ".aside/Mug.1/mine.txt").read_text() == "work"
    assert not (out / "Mug/mine.txt").exists()


def test_a_names_file_that_is_not_there_is_bad_input(server, fetch, tmp_path):
    code, failed, _, _ = fetch(f"--names={tmp_path / 'none.txt'}")
    assert (code, failed) == (2, None)
    assert server.asked == []


@pytest.mark.parametrize(
    ("name", "url", "source", "spdx"),
    [
        ("Creative Commons Attribution 4.0 International", "http://creativecommons.org/licenses/by/4.0/", "", "CC-BY-4.0"),
        ("Creative Commons Attribution Non Commercial 4.0 International", "http://creativecommons.org/licenses/by-nc/4.0/", "", "CC-BY-NC-4.0"),
        ("Creative Commons - Attribution - Non-Commercial", "", "sketchfab", "CC-BY-NC-4.0"),
        ("Creative Commons - Attribution - Non-Commercial", "", "thingiverse", "Creative Commons - Attribution - Non-Commercial"),
        ("by-nc-nd", "", "sketchfab", "CC-BY-NC-ND-4.0"),
        ("", "https://creativecommons.org/publicdomain/zero/1.0/", "", "CC0-1.0"),
        ("MIT License", "", "github", "MIT"),
        ("My own terms", "", "", "My own terms"),
        ("", "", "", ""),
    ],
)
def test_a_licence_gets_its_spdx_id_only_where_that_is_certain(name, url, source, spdx):
    assert spdx_of(name, url, source) == spdx


def test_a_real_scan_comes_through_unchanged(server, tmp_path):
    root = os.environ.get("REELMILL_DATAPACK")
    if not root:
        pytest.skip("REELMILL_DATAPACK is not set: no real scans")
    name = "Threshold_Bead_Cereal_Bowl_White"
    scan = Path(root) / "objects/gso" / name
    files = {path.relative_to(scan).as_posix(): path.read_bytes() for path in sorted(scan.rglob("*")) if path.is_file()}
    put_models(server, [name])
    server.put(f"{MODELS}/{name}/1/{name}.zip", zip_of(files))
    record = fetch_model(client(), list_models(client(), server.url)[0], tmp_path, server.url)
    assert (record.author, record.license) == ("Google", "CC-BY-4.0")
    assert {path.relative_to(tmp_path / name).as_posix() for path in (tmp_path / name).rglob("*") if path.is_file()} == {*files, "fuel.json"}
    assert all((tmp_path / name / path).read_bytes() == body for path, body in files.items())
