"""scripts/prepare_polyhaven.py from the first request to the call that cuts views: exit codes, what is frozen when, what is fetched again."""

import importlib.util
import io
import json
import sys
import types
from pathlib import Path

import pytest
from PIL import Image

from sam3dvid.backgrounds.pool import verify_pool
from shardwork import command
from tests.sam3dvid.servers import Answer, Haven, client, running

ROOT = Path(__file__).resolve().parents[2]
SLUGS = ("abandoned_bakery", "brown_photostudio_02", "kloppenheim_06", "rural_asphalt_road", "the_sky_is_on_fire", "venice_sunset")


@pytest.fixture
def server():
    with running() as one:
        yield one


@pytest.fixture
def haven(server):
    one = Haven(server)
    for slug in SLUGS:
        one.add(slug)
    return one


@pytest.fixture
def built(monkeypatch):
    """Stand in for the pool's builder: note its arguments, refuse what `built.refused` names."""
    calls: list = []
    module = types.ModuleType("sam3dvid.backgrounds.polyhaven_pool")

    def build_polyhaven_pool(panoramas, pool, stage, settings, options):
        calls.append((panoramas, pool, stage, settings, options))
        bad = {"status": "quarantined", "code": "not_equirectangular", "found": "100 x 100"}
        return [{"id": one.slug, **(bad if one.slug in refused else {"status": "ok", "code": "ok"})} for one in panoramas]

    refused: set = set()
    module.build_polyhaven_pool = build_polyhaven_pool  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return types.SimpleNamespace(calls=calls, refused=refused)


@pytest.fixture
def prepare(server, tmp_path, monkeypatch):
    """Return a call of the script; it returns the exit code."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("prepare_polyhaven", ROOT / "scripts" / "prepare_polyhaven.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "new_client", lambda: client(tries=2))

    def call(*flags):
        return command.run(script.main, script.arguments, [f"--out={tmp_path / 'pool'}", f"--api-url={server.url}", *flags])

    return call


def failures(tmp_path):
    return (tmp_path / "pool.books/failed.csv").read_text().splitlines()[1:]


def pictures_asked(server):
    return [path for path in server.paths() if path.startswith("/file/")]


def test_a_whole_run_hands_every_panorama_to_the_pool(haven, server, prepare, built, tmp_path, capsys):
    assert prepare("--limit=4") == 0
    assert "Powered by Poly Haven (https://polyhaven.com)" in capsys.readouterr().out
    [(panoramas, pool, stage, settings, _)] = built.calls
    assert len(panoramas) == 4
    one = panoramas[0]
    assert one.path == tmp_path / "pool_downloads" / f"{one.slug}.jpg"
    assert (one.bytes, one.mtime_ns) == (one.path.stat().st_size, one.path.stat().st_mtime_ns)
    assert (one.source_url, one.license, one.authors) == (f"https://polyhaven.com/a/{one.slug}", "CC0-1.0", ("Greg Zaal",))
    assert one.md5 == json.loads((pool / "sources.json").read_text())["sources"][0]["md5"]
    assert stage == tmp_path / "pool.books"
    assert (settings.views, settings.limit) == (4, 4)
    assert failures(tmp_path) == []


def test_the_documented_command_takes_200_and_four_views(haven, server, prepare, built):
    assert prepare() == 0
    settings = built.calls[0][3]
    assert (settings.limit, settings.views, settings.hfov_deg, settings.width, settings.height) == (200, 4, 130.0, 2048, 1024)


def test_the_selection_is_frozen_before_the_first_download(haven, server, prepare, built, tmp_path):
    for slug in SLUGS:
        server.always[f"/file/HDRIs/extra/Tonemapped%20JPG/{slug}.jpg"] = Answer(500, body=b"")
    assert prepare("--limit=3") == 3
    assert len(json.loads((tmp_path / "pool/sources.json").read_text())["sources"]) == 3
    assert [path.name for path in (tmp_path / "pool").iterdir()] == ["sources.json"]
    assert built.calls == []


def test_one_failed_download_is_a_row_and_no_pool_is_built(haven, server, prepare, built, tmp_path):
    server.always["/file/HDRIs/extra/Tonemapped%20JPG/venice_sunset.jpg"] = Answer(404, body=b"")
    assert prepare() == 3
    [row] = failures(tmp_path)
    assert row.startswith("venice_sunset,http")
    assert "download_failed,status 404" in row
    assert built.calls == []


def test_the_next_run_downloads_only_what_lacks_and_builds(haven, server, prepare, built, tmp_path):
    path = "/file/HDRIs/extra/Tonemapped%20JPG/venice_sunset.jpg"
    server.always[path] = Answer(cut_at=100)
    assert prepare() == 3
    server.always.clear()
    server.asked.clear()
    assert prepare() == 0
    assert pictures_asked(server) == [path]
    assert [headers.get("Range") for asked, headers in server.asked if asked == path] == ["bytes=200-"]  # two tries of 100 bytes each
    assert failures(tmp_path) == []
    assert len(built.calls[0][0]) == 6


def test_a_third_run_downloads_nothing(haven, server, prepare, built):
    prepare()
    server.asked.clear()
    assert prepare() == 0
    assert pictures_asked(server) == []


def test_a_run_without_the_network_goes_on_from_complete_downloads(haven, server, prepare, built):
    prepare()
    server.always["/assets?type=hdris"] = Answer(503, body=b"")
    assert prepare() == 0
    assert len(built.calls) == 2


def test_a_panorama_that_appears_later_does_not_change_a_frozen_choice(haven, server, prepare, built):
    prepare("--limit=4")
    for number in range(20):
        haven.add(f"new_{number}")
    assert prepare("--limit=4") == 0
    assert [one.slug for one in built.calls[0][0]] == [one.slug for one in built.calls[1][0]]


@pytest.mark.parametrize("flag", ["--limit=3", "--views=2", "--salt=other", "--eval-fraction=0.5", "--resolution=4k"])
def test_another_setting_is_refused_and_changes_nothing(haven, server, prepare, built, tmp_path, capsys, flag):
    prepare("--limit=4")
    before = (tmp_path / "pool/sources.json").read_bytes()
    server.asked.clear()
    assert prepare("--limit=4", flag) == 2
    assert "[pool_frozen]" in capsys.readouterr().err
    assert (tmp_path / "pool/sources.json").read_bytes() == before
    assert server.asked == []
    assert len(built.calls) == 1


def test_a_changed_digest_at_the_source_is_refused(haven, server, prepare, built, capsys):
    prepare()
    haven.add("venice_sunset", b"retouched")
    assert prepare() == 2
    err = capsys.readouterr().err
    assert "venice_sunset" in err
    assert "[pool_frozen]" in err


def test_a_list_that_cannot_be_read_is_exit_3_and_freezes_nothing(server, prepare, built, tmp_path):
    server.put("/assets?type=hdris", b"<html>maintenance</html>")
    assert prepare() == 3
    assert "bad_answer" in failures(tmp_path)[0]
    assert not (tmp_path / "pool").exists()


def test_a_refused_panorama_is_exit_3_and_named(haven, server, prepare, built, tmp_path):
    built.refused.add("venice_sunset")
    assert prepare() == 3
    assert failures(tmp_path) == ["venice_sunset,https://polyhaven.com/a/venice_sunset,not_equirectangular,100 x 100"]


@pytest.mark.parametrize("flag", ["--views=0", "--limit=-1", "--resolution=large", "--workers=9", "--source=/no/such/folder", "--hfov-deg=90"])
def test_bad_input_is_exit_2_before_any_request(server, prepare, built, tmp_path, flag):
    try:
        code = prepare(flag)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert server.asked == []
    assert not (tmp_path / "pool").exists()


@pytest.fixture
def folder(tmp_path):
    one = tmp_path / "panoramas"
    one.mkdir()
    for name in ("city.exr", "venice_sunset_4k.hdr", "My Room.jpg", "notes.txt"):
        (one / name).write_bytes(name.encode())
    return one


def test_a_folder_of_panoramas_needs_no_network(server, prepare, built, folder):
    assert prepare(f"--source={folder}") == 0
    slugs = sorted(one.slug for one in built.calls[0][0])
    assert slugs[1:] == ["city", "venice_sunset"]
    assert slugs[0].startswith("My_Room_")
    assert server.asked == []


def test_a_folder_whose_file_changed_is_refused(server, prepare, built, folder, capsys):
    prepare(f"--source={folder}")
    (folder / "city.exr").write_bytes(b"repainted")
    assert prepare(f"--source={folder}") == 2
    assert "[pool_frozen]" in capsys.readouterr().err


def test_a_folder_with_a_further_panorama_is_refused(server, prepare, built, folder, capsys):
    prepare(f"--source={folder}")
    (folder / "town.exr").write_bytes(b"town")
    assert prepare(f"--source={folder}") == 2
    assert "town" in capsys.readouterr().err


def test_a_pool_from_the_network_is_not_gone_on_with_from_a_folder(haven, server, prepare, built, folder):
    prepare()
    assert prepare(f"--source={folder}") == 2


def test_two_files_of_one_panorama_are_bad_input(server, prepare, built, folder, tmp_path):
    (folder / "city_2k.hdr").write_bytes(b"x")
    assert prepare(f"--source={folder}") == 2
    assert not (tmp_path / "pool").exists()


def picture(width, number):
    """Return a JPEG 512 pixels high that no other number gives."""
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((width, 512)).point(lambda value: (value + 20 * number) % 256).convert("RGB").save(buffer, "JPEG")
    return buffer.getvalue()


def test_from_the_first_request_to_a_pool_that_verifies(haven, server, prepare, tmp_path):
    for number, slug in enumerate(SLUGS):
        haven.add(slug, picture(1024, number))
    flags = ("--views=2", "--width=512", "--height=256", "--processes=0", "--eval-fraction=0.5")
    assert prepare(*flags) == 0
    pool = verify_pool(tmp_path / "pool")
    assert sorted(row["image_id"] for row in (*pool.eval, *pool.train)) == sorted(f"ph_{slug}_v{k}" for slug in SLUGS for k in range(2))
    row = (*pool.eval, *pool.train)[0]
    assert row["source_url"] == f"https://polyhaven.com/a/{row['split_key']}"
    assert (row["license"], row["authors"]) == ("CC0-1.0", ["Greg Zaal"])
    before = {path: path.read_bytes() for path in sorted((tmp_path / "pool").rglob("*")) if path.is_file()}
    assert prepare(*flags) == 0
    assert {path: path.read_bytes() for path in sorted((tmp_path / "pool").rglob("*")) if path.is_file()} == before


def test_a_panorama_that_is_no_sphere_is_named_with_its_page(haven, server, prepare, tmp_path):
    for number, slug in enumerate(SLUGS):
        haven.add(slug, picture(600 if slug == "venice_sunset" else 1024, number))
    assert prepare("--views=1", "--width=512", "--height=256", "--processes=0") == 3
    [row] = failures(tmp_path)
    assert row.startswith("venice_sunset,https://polyhaven.com/a/venice_sunset,not_equirectangular,")
