"""Poly Haven's API: which panoramas are chosen, which file of each, and what freezes the choice."""

import hashlib

import pytest

from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.frozen import freeze, frozen
from sam3dvid.fetch.polyhaven import NoPanorama, check_upstream, fetch_panoramas, file_of, in_order, list_hdris, missing, select
from tests.sam3dvid.servers import Answer, Haven, client, running

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


def refusal(call, *args):
    with pytest.raises(AssetRefused) as caught:
        call(*args)
    return caught.value


def test_the_list_gives_slugs_with_their_authors(haven, server):
    assert list_hdris(client(), server.url) == dict.fromkeys(SLUGS, ("Greg Zaal",))


def test_a_slug_that_the_api_itself_forbids_is_left_out(haven, server):
    haven.add("../../etc")
    assert sorted(list_hdris(client(), server.url)) == sorted(SLUGS)


@pytest.mark.parametrize("body", [b"<html>502</html>", b"[]", b"{}", b'{"a": 1}'])
def test_a_list_of_another_form_is_refused(server, body):
    server.put("/assets?type=hdris", body)
    assert refusal(list_hdris, client(), server.url).code == "bad_answer"


def test_the_order_is_by_the_sha256_of_salt_and_slug():
    expected = [slug for _, slug in sorted((hashlib.sha256(b"pepper" + slug.encode()).digest(), slug) for slug in SLUGS)]
    assert in_order(SLUGS, "pepper") == expected
    assert in_order(reversed(SLUGS), "pepper") == expected
    assert in_order(SLUGS, "salt") != expected


def test_the_tone_mapped_picture_is_taken_first(haven, server):
    found = file_of(client(), "venice_sunset", ("A",), 8, server.url)
    assert (found.kind, found.suffix, found.bytes) == ("tonemapped", ".jpg", 1300)
    assert found.page == "https://polyhaven.com/a/venice_sunset"


@pytest.mark.parametrize(("most", "resolution"), [(8, "8k"), (6, "4k"), (20, "16k")])
def test_without_one_the_largest_hdr_within_the_resolution_is_taken(haven, server, most, resolution):
    haven.add("bare", tonemapped=False)
    found = file_of(client(), "bare", (), most, server.url)
    assert (found.kind, found.resolution, found.suffix) == ("hdr", resolution, ".hdr")


def test_without_an_hdr_of_that_size_its_exr_is_taken(haven, server):
    files = haven.add("bare", tonemapped=False)
    del files["hdri"]["8k"]["hdr"]
    haven.put_files("bare", files)
    assert file_of(client(), "bare", (), 8, server.url).kind == "exr"


@pytest.mark.parametrize(
    "change",
    [{"url": "file:///etc/passwd"}, {"url": "https://x.org/a.exe"}, {"size": 0}, {"size": "12"}, {"md5": "xyz"}, {"md5": None}],
    ids=["file", "exe", "empty", "text", "no md5", "null"],
)
def test_an_entry_that_cannot_be_verified_is_refused(haven, server, change):
    files = haven.add("odd")
    haven.put_files("odd", {**files, "tonemapped": {**files["tonemapped"], **change}})
    assert refusal(file_of, client(), "odd", (), 8, server.url).code == "bad_answer"


def test_a_selection_is_the_first_of_the_order(haven, server):
    selection = select(client(), "salt", 4, 8, 4, server.url)
    assert [one.slug for one in selection.chosen] == in_order(SLUGS, "salt")[:4]
    assert selection.passed_over == {}


@pytest.mark.parametrize("limit", [0, 100])
def test_a_selection_of_all_holds_all(haven, server, limit):
    assert len(select(client(), "salt", limit, 8, 4, server.url).chosen) == 6


def test_a_panorama_without_files_is_passed_over_and_the_next_takes_its_place(haven, server):
    order = in_order(SLUGS, "salt")
    haven.put_files(order[0], {"colorchart": {}})
    del server.files[f"/files/{order[2]}"]
    selection = select(client(), "salt", 3, 8, 4, server.url)
    assert [one.slug for one in selection.chosen] == [order[1], order[3], order[4]]
    assert sorted(selection.passed_over) == sorted([order[0], order[2]])


def test_a_server_in_trouble_never_changes_a_selection(haven, server):
    server.always[f"/files/{in_order(SLUGS, 'salt')[0]}"] = Answer(500, body=b"")
    assert refusal(select, client(tries=2), "salt", 3, 8, 4, server.url).code == "download_failed"


def test_a_frozen_selection_reads_back_as_it_was(haven, server, tmp_path):
    selection = select(client(), "salt", 3, 8, 4, server.url)
    assert frozen(tmp_path / "pool", {"limit": 3}) is None
    freeze(tmp_path / "pool", {"limit": 3}, selection)
    assert frozen(tmp_path / "pool", {"limit": 3}) == selection.chosen


@pytest.mark.parametrize("settings", [{"limit": 4}, {}, {"limit": 3, "views": 4}])
def test_other_settings_than_the_frozen_ones_are_refused(haven, server, tmp_path, settings):
    freeze(tmp_path, {"limit": 3}, select(client(), "salt", 3, 8, 4, server.url))
    assert refusal(frozen, tmp_path, settings).code == "pool_frozen"


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": 1, "settings": {}, "sources": [{"slug": "../x"}]}'])
def test_a_freeze_file_of_another_form_is_refused(tmp_path, text):
    (tmp_path / "sources.json").write_text(text)
    assert refusal(frozen, tmp_path, {}).code == "bad_pool"


def check(server, tmp_path, sources, lacking, told=None, **patience):
    check_upstream(client(tries=2, **patience), tmp_path, sources, lacking, 4, server.url, (told if told is not None else []).append)


def test_a_changed_digest_at_the_source_is_refused_with_the_slug(haven, server, tmp_path):
    sources = select(client(), "salt", 3, 8, 4, server.url).chosen
    check(server, tmp_path, sources, sources)
    haven.add(sources[1].slug, b"another picture")
    for lacking in (sources, ()):
        error = refusal(check, server, tmp_path, sources, lacking)
        assert error.code == "pool_frozen"
        assert sources[1].slug in error.found


def test_a_tone_mapped_picture_that_is_new_does_not_change_a_frozen_hdr(haven, server, tmp_path):
    haven.add("bare", tonemapped=False)
    sources = (file_of(client(), "bare", (), 8, server.url),)
    haven.add("bare", tonemapped=True)
    check(server, tmp_path, sources, sources)


def test_a_source_that_does_not_answer_is_no_trouble_once_all_is_here(haven, server, tmp_path):
    sources = select(client(), "salt", 3, 8, 4, server.url).chosen
    server.always["/assets?type=hdris"] = Answer(503, body=b"")
    told: list[str] = []
    check(server, tmp_path, sources, (), told)
    assert len(told) == 1
    assert refusal(check, server, tmp_path, sources, sources).code == "download_failed"


def test_a_file_list_that_does_not_answer_is_no_trouble_once_all_is_here(haven, server, tmp_path):
    sources = select(client(), "salt", 3, 8, 4, server.url).chosen
    server.always[f"/files/{sources[1].slug}"] = Answer(503, body=b"")
    told: list[str] = []
    check(server, tmp_path, sources, (), told)
    assert [line.split()[0] for line in told] == [sources[1].slug]
    assert refusal(check, server, tmp_path, sources, sources).code == "download_failed"


def test_panoramas_come_verified_and_only_those_that_lack(haven, server, tmp_path):
    sources = select(client(), "salt", 4, 8, 4, server.url).chosen
    (tmp_path / f"{sources[0].slug}.jpg").write_bytes(sources[0].slug.encode() * 100)
    (tmp_path / f"{sources[1].slug}.jpg").write_bytes(sources[1].slug.encode() * 99 + b"x" * len(sources[1].slug))
    wanted = missing(sources, tmp_path)
    assert [one.slug for one in wanted] == [one.slug for one in sources[1:]]
    assert fetch_panoramas(client(), wanted, tmp_path, 4, lambda _: None) == []
    assert missing(sources, tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == {f"{one.slug}.jpg" for one in sources}


def test_a_panorama_with_a_wrong_md5_is_a_row_and_the_others_come(haven, server, tmp_path):
    sources = select(client(), "salt", 4, 8, 4, server.url).chosen
    server.put(sources[2].url.removeprefix(server.url), b"x" * sources[2].bytes)
    failures = fetch_panoramas(client(), sources, tmp_path, 4, lambda _: None)
    assert [(one.name, one.code) for one in failures] == [(sources[2].slug, "digest_mismatch")]
    assert missing(sources, tmp_path) == [sources[2]]


def test_no_panorama_is_a_verdict_of_its_own(haven, server):
    haven.put_files("venice_sunset", {"hdri": {"16k": {"hdr": {}}}})
    with pytest.raises(NoPanorama):
        file_of(client(), "venice_sunset", (), 8, server.url)
