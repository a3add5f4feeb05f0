"""Downloads against a server that misbehaves: what is kept, what is tried again, what is refused."""

import email.utils
import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.agent import each, new_client, user_agent
from sam3dvid.fetch.client import Slow, SpeedGuard, refuse_downgrade
from shardwork.errors import DataError
from tests.sam3dvid.servers import Answer, Sleeps, client, running, tag_of

ROOT = Path(__file__).resolve().parents[2]
BODY = bytes(range(256)) * 2000
MD5, SHA256 = hashlib.md5(BODY).hexdigest(), hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def server():
    with running() as one:
        yield one


@pytest.fixture
def target(tmp_path):
    return tmp_path / "folder" / "file.bin"


def left_over(target):
    return sorted(path.name for path in target.parent.iterdir() if path != target)


def ranges_asked(server):
    return [headers.get("Range") for _, headers in server.asked]


def refusal(call, *args, **kwargs):
    with pytest.raises(AssetRefused) as caught:
        call(*args, **kwargs)
    return caught.value


def test_a_file_comes_whole_with_its_digests_and_nothing_beside_it(server, target):
    found = client().download(server.put("/a", BODY), target)
    assert (found.bytes, found.md5, found.sha256) == (512000, MD5, SHA256)
    assert target.read_bytes() == BODY
    assert left_over(target) == []


def test_every_request_names_the_software(server, target):
    client().download(server.put("/a", BODY), target)
    client().json(server.put("/b", b"{}"))
    assert [headers["User-Agent"] for _, headers in server.asked] == ["reelmill-test/1"] * 2


def test_the_name_of_this_software_holds_its_version():
    name, _, version = user_agent().partition("/")
    assert name == "reelmill"
    assert version[0].isdigit()
    assert new_client().user_agent == user_agent()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_refusal_is_not_asked_again(server, target, status):
    server.answer("/a", Answer(status, body=b"no"))
    error = refusal(client().download, server.put("/a", BODY), target)
    assert error.code == "download_failed"
    assert str(status) in error.found
    assert server.paths() == ["/a"]
    assert not target.exists()


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_in_trouble_is_asked_again(server, target, status):
    server.answer("/a", Answer(status, body=b"busy"), Answer(status, body=b"busy"))
    client().download(server.put("/a", BODY), target)
    assert target.read_bytes() == BODY
    assert len(server.asked) == 3


def test_waits_double_and_stay_under_the_longest(server, target):
    sleeps = Sleeps()
    server.always["/a"] = Answer(500, body=b"")
    error = refusal(client(sleeps, tries=6, first_wait_seconds=1.0, max_wait_seconds=6.0).download, server.put("/a", BODY), target)
    assert "6 times" in error.found
    assert len(sleeps) == 5
    for wait, most in zip(sleeps, [1, 2, 4, 6, 6], strict=True):
        assert most / 2 <= wait <= most


def test_waits_differ_from_one_to_the_next(server, target):
    sleeps = Sleeps()
    server.always["/a"] = Answer(500, body=b"")
    refusal(client(sleeps, tries=6, first_wait_seconds=8.0, max_wait_seconds=8.0).download, server.put("/a", BODY), target)
    assert len(set(sleeps)) == 5


def test_retry_after_in_seconds_is_waited_for(server, target):
    sleeps = Sleeps()
    server.answer("/a", Answer(429, {"Retry-After": "17"}, b""))
    client(sleeps).download(server.put("/a", BODY), target)
    assert sleeps == [17.0]


def test_retry_after_as_a_date_counts_from_the_servers_own_date(server, target):
    sleeps = Sleeps()
    now = datetime(1999, 12, 31, 23, 59, 30, tzinfo=UTC)
    dates = [email.utils.format_datetime(moment, usegmt=True) for moment in (now, now + timedelta(seconds=42))]
    answer = Answer(503, {"Retry-After": dates[1], "X-Kind": "date"}, b"")
    server.answer("/a", answer)
    url = server.put("/a", BODY)
    one = client(sleeps)
    # http.server writes a Date of its own first; ours is the one that counts, so it is put in after the answer came
    session = one._session()
    session.hooks["response"].append(lambda response, **_: response.headers.__setitem__("Date", dates[0]) if "X-Kind" in response.headers else None)
    one.download(url, target)
    assert sleeps == [42.0]


def test_a_server_that_asks_to_wait_too_long_is_given_up_at_once(server, target):
    sleeps = Sleeps()
    server.answer("/a", Answer(429, {"Retry-After": "3600"}, b""))
    error = refusal(client(sleeps).download, server.put("/a", BODY), target)
    assert "3600 seconds" in error.found
    assert sleeps == []


def test_a_retry_after_that_says_nothing_is_passed_over(server, target):
    sleeps = Sleeps()
    server.answer("/a", Answer(429, {"Retry-After": "soon"}, b""))
    client(sleeps).download(server.put("/a", BODY), target)
    assert len(sleeps) == 1
    assert 0.5 <= sleeps[0] <= 1.0


def test_a_cut_body_is_gone_on_with_where_it_stopped(server, target):
    server.answer("/a", Answer(cut_at=200000))
    client().download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY
    assert ranges_asked(server) == [None, "bytes=200000-"]
    assert server.asked[1][1]["If-Range"] == tag_of(BODY)


def test_a_cut_body_without_a_length_is_noticed_by_the_stated_size(server, target):
    server.answer("/a", Answer(cut_at=1000, length=False))
    client().download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY


def test_a_silent_server_is_left_and_the_rest_asked_for(server, target):
    server.answer("/a", Answer(cut_at=1000, hang=True))
    client(read_seconds=0.5).download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY
    assert ranges_asked(server) == [None, "bytes=1000-"]


def test_a_server_that_refuses_the_connection_is_tried_and_named(target):
    with running() as server:
        url = server.url + "/a"
    sleeps = Sleeps()
    error = refusal(client(sleeps, tries=3).download, url, target)
    assert error.code == "download_failed"
    assert error.where == url
    assert len(sleeps) == 2


def test_a_killed_download_is_gone_on_with_by_the_next_call(server, target):
    server.always["/a"] = Answer(cut_at=4096)
    url = server.put("/a", BODY)
    refusal(client(tries=1).download, url, target, len(BODY), MD5)
    assert not target.exists()
    assert left_over(target) == ["file.bin.part", "file.bin.part.json"]
    server.always.clear()
    client().download(url, target, len(BODY), MD5)
    assert target.read_bytes() == BODY
    assert ranges_asked(server)[-1] == "bytes=4096-"
    assert left_over(target) == []


def test_a_server_without_ranges_sends_all_and_the_file_is_right(server, target):
    server.answer("/a", Answer(cut_at=4096), Answer(ranges=False))
    client().download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY


def test_a_file_that_changed_between_two_attempts_is_not_mixed(server, target):
    server.answer("/a", Answer(cut_at=4096))
    server.put("/a", BODY)
    refusal(client(tries=1).download, server.url + "/a", target)
    other = BODY[::-1]
    found = client().download(server.put("/a", other), target)
    assert target.read_bytes() == other
    assert found.sha256 == hashlib.sha256(other).hexdigest()


def test_a_part_of_unknown_origin_is_dropped_where_no_digest_can_judge_it(server, target):
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(b"x" * 100)
    client().download(server.put("/a", BODY), target)
    assert target.read_bytes() == BODY
    assert ranges_asked(server) == [None]


def test_a_part_longer_than_the_file_is_dropped(server, target):
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(BODY + b"more")
    client().download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY
    assert ranges_asked(server) == [None]


def test_a_part_that_the_server_knows_to_be_too_long_is_dropped(server, target):
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(BODY + b"more")
    client().download(server.put("/a", BODY), target, md5=MD5)
    assert target.read_bytes() == BODY
    assert ranges_asked(server) == ["bytes=512004-", None]


def test_a_part_that_is_whole_is_published_without_a_request(server, target):
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(BODY)
    client().download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY
    assert server.asked == []


def test_a_spoilt_part_is_found_by_its_digest_and_fetched_from_zero(server, target):
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(b"x" * 5000)
    client().download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY
    assert ranges_asked(server) == ["bytes=5000-", None]


@pytest.mark.parametrize("digest", [{"md5": "0" * 32}, {"sha256": "0" * 64}])
def test_a_wrong_digest_is_fetched_once_more_and_then_refused(server, target, digest):
    error = refusal(client().download, server.put("/a", BODY), target, len(BODY), **digest)
    assert error.code == "digest_mismatch"
    assert MD5 in error.found or SHA256 in error.found
    assert ranges_asked(server) == [None, None]
    assert left_over(target) == []
    assert not target.exists()


def test_a_wrong_digest_once_is_mended_by_the_second_download(server, target):
    server.answer("/a", Answer(body=BODY[::-1]))
    client().download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("stated", [len(BODY) - 1, len(BODY) + 1])
def test_another_size_than_stated_is_refused(server, target, stated, length):
    server.always["/a"] = Answer(length=length)
    error = refusal(client(tries=2).download, server.put("/a", BODY), target, stated)
    # a body without a length that is too short looks cut, so it is asked for again
    assert error.code == ("download_failed" if not length and stated > len(BODY) else "digest_mismatch")
    assert not target.exists()


def test_a_page_of_text_in_place_of_the_file_is_asked_for_once_more(server, target):
    server.answer("/a", Answer(body=b"<html>please log in</html>"))
    client().download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY
    assert len(server.asked) == 2


def test_a_moved_file_that_is_cut_is_gone_on_with(server, target):
    server.put("/new", BODY)
    server.always["/old"] = Answer(301, {"Location": "/new"}, b"")
    server.answer("/new", Answer(cut_at=1000))
    client().download(server.url + "/old", target, len(BODY), MD5)
    assert target.read_bytes() == BODY
    assert ranges_asked(server)[-1] == "bytes=1000-"


def test_an_upper_case_digest_is_the_same_digest(server, target):
    client().download(server.put("/a", BODY), target, md5=MD5.upper())
    assert target.exists()


def test_a_body_beyond_the_limit_is_refused(server, target):
    error = refusal(client().download, server.put("/a", BODY), target, limit_bytes=1000)
    assert error.code == "download_failed"
    assert "1000" in error.found


def test_a_file_that_is_there_with_its_digest_is_not_fetched_again(server, target):
    url = server.put("/a", BODY)
    client().download(url, target, len(BODY), MD5)
    found = client().download(url, target, len(BODY), MD5)
    assert found.sha256 == SHA256
    assert server.paths() == ["/a"]


def test_a_file_that_is_there_with_another_digest_is_replaced(server, target):
    target.parent.mkdir()
    target.write_bytes(b"old")
    client().download(server.put("/a", BODY), target, len(BODY), MD5)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_moved_file_is_followed(server, target, status):
    server.put("/new", BODY)
    server.always["/old"] = Answer(status, {"Location": "/new"}, b"")
    client().download(server.url + "/old", target, len(BODY), MD5)
    assert target.read_bytes() == BODY


def test_a_file_that_moves_in_a_circle_is_refused(server, target):
    server.always["/a"] = Answer(301, {"Location": "/a"}, b"")
    error = refusal(client().download, server.url + "/a", target)
    assert error.code == "download_failed"


@pytest.mark.parametrize("place", ["file:///etc/hostname", "ftp://127.0.0.1/a"])
def test_an_address_that_is_no_http_is_not_followed(server, target, place):
    server.always["/a"] = Answer(301, {"Location": place}, b"")
    error = refusal(client().download, server.url + "/a", target)
    assert error.code == "download_failed"
    assert not target.exists()


def test_a_move_from_https_to_http_is_refused():
    assert refusal(refuse_downgrade, ["https://a.org/x", "http://a.org/x"]).code == "download_failed"
    refuse_downgrade(["http://a.org/x", "https://a.org/x"])


def test_json_comes_as_its_value(server):
    assert client().json(server.put("/j", b'{"a": [1, 2]}')) == {"a": [1, 2]}


@pytest.mark.parametrize("body", [b"<!DOCTYPE html><html>down for maintenance</html>", b"", b'{"a": ', b'{"a": NaN}'])
def test_an_answer_that_is_no_json_is_refused_by_its_address(server, body):
    error = refusal(client().json, server.put("/j", body))
    assert error.code == "bad_answer"
    assert error.where == server.url + "/j"


def test_json_that_is_cut_is_asked_again(server):
    server.answer("/j", Answer(cut_at=5))
    assert client().json(server.put("/j", b'{"a": [1, 2]}')) == {"a": [1, 2]}


def test_a_full_disk_is_a_fault_and_not_tried_again(server, target, monkeypatch):
    class Full:
        def __init__(self, *args, **kwargs):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sam3dvid.fetch.download.write_json", Full)
    with pytest.raises(OSError, match="No space left"):
        client().download(server.put("/a", BODY), target)
    assert len(server.asked) == 1


def test_a_trickling_body_is_a_stalled_one():
    seconds = iter([0.0, 10.0, 20.0, 30.0])
    guard = SpeedGuard(bytes_per_second=100.0, seconds=30.0, clock=lambda: next(seconds))
    guard.count(900)
    guard.count(900)
    with pytest.raises(Slow, match="2700 bytes in 30 seconds"):
        guard.count(900)


def test_a_body_at_the_least_rate_goes_on_and_is_counted_anew():
    seconds = iter([0.0, 30.0, 60.0])
    guard = SpeedGuard(bytes_per_second=100.0, seconds=30.0, clock=lambda: next(seconds))
    guard.count(3000)
    with pytest.raises(Slow, match="2999 bytes"):
        guard.count(2999)


def test_a_trickling_download_is_tried_again(server, target):
    ticks = iter(range(0, 10**9, 1000))
    error = refusal(client(clock=lambda: next(ticks), tries=2, slow_bytes_per_second=1e9).download, server.put("/a", BODY), target)
    assert "seconds, 2 times" in error.found


def test_at_most_as_many_requests_run_at_once_as_there_are_workers(server, tmp_path):
    server.pause_seconds = 0.05
    urls = [server.put(f"/{number}", BODY) for number in range(12)]
    one = client()
    results = list(each(one, lambda url: one.download(url, tmp_path / url.rpartition("/")[2]), urls, 4))
    assert len(results) == 12
    assert server.most_at_once <= 4


def test_more_than_four_workers_are_refused():
    with pytest.raises(DataError, match="workers"):
        list(each(client(), len, ["a"], 5))


def test_one_refusal_leaves_the_others_alone(server, tmp_path):
    urls = [server.put("/1", BODY), server.url + "/gone", server.put("/2", BODY)]
    one = client()
    results = dict(each(one, lambda url: one.download(url, tmp_path / url.rpartition("/")[2]).bytes, urls, 2))
    assert isinstance(results[urls[1]], AssetRefused)
    assert [results[urls[0]], results[urls[2]]] == [len(BODY)] * 2


def test_a_fault_in_one_ends_all_and_leaves_no_thread(server, tmp_path):
    one, before = client(), threading.active_count()

    def work(url):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        list(each(one, work, ["a", "b", "c"], 2))
    assert threading.active_count() == before


PROGRAM = """
import sys
from pathlib import Path
from sam3dvid.fetch.agent import new_client
new_client().download(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
"""


def test_a_process_killed_half_way_leaves_a_part_that_the_next_one_finishes(server, target):
    server.answer("/a", Answer(cut_at=200000, hang=True))
    call = [sys.executable, "-c", PROGRAM, server.put("/a", BODY), str(target), str(len(BODY)), MD5]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    part = target.with_name("file.bin.part")
    with subprocess.Popen(call, env=environment) as process:
        while not (part.exists() and part.stat().st_size > 100000):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert not target.exists()
    subprocess.run(call, env=environment, check=True)
    assert target.read_bytes() == BODY
    assert int(ranges_asked(server)[-1].removeprefix("bytes=").removesuffix("-")) > 100000
    assert left_over(target) == []
