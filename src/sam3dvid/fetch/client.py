"""HTTP as a polite guest: a name in every request, patience with a server in trouble, and no body that was not asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from sam3dvid.codes import AssetRefused
from shardwork.errors import DataError
from shardwork.jsonio import Json, loads

if TYPE_CHECKING:
    from sam3dvid.fetch.download import Fetched

T = TypeVar("T")

AGAIN = frozenset((429, 500, 502, 503, 504))
"""Answers that may be another one in a moment. Every other error is final."""
JSON_LIMIT_BYTES = 256 << 20
BLOCK_BYTES = 1 << 16


class Jitter(Protocol):
    """What draws the jitter: a NumPy Generator, from shardwork.streams."""

    def uniform(self, low: float, high: float) -> float:
        """Return a number from low up to high."""


class Trouble(Exception):
    """An attempt that failed and may be made again.   wait_seconds : how long the server asks to wait, None where it does not say."""

    def __init__(self, found: str, wait_seconds: float | None = None) -> None:
        super().__init__(found)
        self.found, self.wait_seconds = found, wait_seconds


class Stopped(Exception):
    """The program is ending: a download in another thread gives up, its part is kept."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server in trouble is waited for.

    tries : attempts at one request.   connect_seconds, read_seconds : how long one connection, one read may take.   first_wait_seconds :
    the wait after the first failure, doubled after each further one.   max_wait_seconds : the longest wait; a server that asks for more is given up.
    slow_bytes_per_second, slow_seconds : a body that stays below this rate for that long is a stalled one.
    """

    tries: int = 6
    connect_seconds: float = 15.0
    read_seconds: float = 60.0
    first_wait_seconds: float = 1.0
    max_wait_seconds: float = 120.0
    slow_bytes_per_second: float = 1024.0
    slow_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Page:
    """One JSON answer.

    value : JSON.   next_url : the address that its Link header names as next, "" where none.   linked : whether there is such a header at all.
    total : its X-Total-Count, or None.
    """

    value: Json
    next_url: str
    linked: bool
    total: int | None


class Client:
    """Requests to public servers, usable from several threads at once. Use it as a context manager.

    user_agent : names the software and its version; sent with every request.   jitter : spreads the waits of several clients.
    sleep, clock : stand-ins for tests; seconds.
    """

    def __init__(
        self,
        user_agent: str,
        jitter: Jitter,
        patience: Patience | None = None,
        sleep: Callable[[float], object] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.user_agent, self.jitter, self.patience = user_agent, jitter, patience or Patience()
        self._stop = threading.Event()
        self._sleep = self._stop.wait if sleep is None else sleep
        self._clock = clock
        self._local = threading.local()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every wait, and every download at its next block."""
        self._stop.set()

    def json(self, url: str) -> Json:
        """Return the value of a JSON answer. Raises AssetRefused: download_failed, or bad_answer for what is no JSON."""
        return self.page(url).value

    def page(self, url: str) -> Page:
        """Return a JSON answer with what its headers say of further ones. Raises AssetRefused (download_failed, bad_answer)."""

        def read() -> Page:
            with self.answer(url) as response:
                body = b"".join(self.blocks(response, JSON_LIMIT_BYTES))
                kind, found = response.headers.get("Content-Type", "no type"), response.links.get("next", {}).get("url", "")
                total = response.headers.get("X-Total-Count", "")
                linked = "Link" in response.headers
                at = response.url
            try:
                value = loads(body, url)
            except DataError as error:
                raise AssetRefused("bad_answer", url, f"{kind}, {len(body)} bytes that are no JSON: {body[:60]!r}", "JSON") from error
            return Page(value, urljoin(at, found) if found else "", linked, int(total) if total.isascii() and total.isdigit() else None)

        return self.patiently(url, read)

    def download(
        self, url: str, target: Path, size: int | None = None, md5: str | None = None, sha256: str | None = None, limit_bytes: int = 8 << 30
    ) -> Fetched:
        """Fetch a file to `target`, resuming what an earlier call left in `<target>.part`, and return what it is. See fetch.download."""
        from sam3dvid.fetch.download import Expected, download

        return download(self, url, target, Expected(size, md5, sha256, limit_bytes))

    @contextmanager
    def answer(self, url: str, headers: Mapping[str, str] | None = None, fine: tuple[int, ...] = (200,)) -> Iterator[requests.Response]:
        """Yield an open answer of one attempt, its body not yet read.

        fine : the status codes to yield.   Raises Trouble for what may be tried again, AssetRefused (download_failed) for what may not.
        """
        patience = self.patience
        sent = {"User-Agent": self.user_agent, "Accept-Encoding": "identity", **(headers or {})}
        try:
            response = self._session().get(url, headers=sent, stream=True, timeout=(patience.connect_seconds, patience.read_seconds))
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            raise Trouble(_short(error)) from error
        except requests.RequestException as error:
            raise AssetRefused("download_failed", url, _short(error), "an address that can be read over http or https") from error
        with response:
            refuse_downgrade([*(step.url for step in response.history), response.url])
            if response.status_code in AGAIN:
                raise Trouble(f"status {response.status_code}", _asked_wait(response))
            if response.status_code not in fine:
                raise AssetRefused("download_failed", url, f"status {response.status_code} {response.reason}".rstrip(), "status 200")
            yield response

    def blocks(self, response: requests.Response, limit_bytes: int) -> Iterator[bytes]:
        """Yield an answer's body block by block, as it comes in.

        Raises Trouble for a body that is cut, stalls or is slower than patience allows; AssetRefused (download_failed) for one longer than the limit.
        """
        guard = SpeedGuard(self.patience.slow_bytes_per_second, self.patience.slow_seconds, self._clock)
        total = 0
        try:
            while block := response.raw.read1(BLOCK_BYTES, decode_content=True):
                if self._stop.is_set():
                    raise Stopped
                total += len(block)
                if total > limit_bytes:
                    raise AssetRefused("download_failed", response.url, f"more than {limit_bytes} bytes", f"at most {limit_bytes}")
                guard.count(len(block))
                yield block
        except Slow as error:
            raise Trouble(str(error)) from error
        except urllib3.exceptions.HTTPError as error:
            raise Trouble(_short(error)) from error

    def patiently(self, url: str, attempt: Callable[[], T]) -> T:
        """Return what `attempt` does, made again with growing waits while it raises Trouble. Raises AssetRefused (download_failed) at the end."""
        patience = self.patience
        for made in range(1, patience.tries + 1):
            if self._stop.is_set():
                raise Stopped
            try:
                return attempt()
            except Trouble as trouble:
                if made == patience.tries:
                    self._give_up(url, f"{trouble.found}, {made} times", trouble)
                wait = trouble.wait_seconds
                if wait is None:
                    wait = min(patience.max_wait_seconds, patience.first_wait_seconds * 2.0 ** (made - 1)) * self.jitter.uniform(0.5, 1.0)
                if wait > patience.max_wait_seconds:
                    self._give_up(url, f"{trouble.found}, the server asks to wait {wait:.0f} seconds", trouble)
                self._sleep(wait)
        raise AssertionError("unreachable")

    def _give_up(self, url: str, found: str, cause: Exception) -> NoReturn:
        raise AssetRefused("download_failed", url, found, "an answer") from cause

    def _session(self) -> requests.Session:
        # one for each thread: a Session is not made for several
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
        session: requests.Session = self._local.session
        return session


def refuse_downgrade(urls: list[str]) -> None:
    """Raise AssetRefused (download_failed) where a chain of moved addresses leaves https for http: what it brings could be anyone's."""
    schemes = [urlsplit(url).scheme for url in urls]
    if "https" in schemes and "http" in schemes[schemes.index("https") :]:
        raise AssetRefused("download_failed", urls[0], f"moved to {urls[-1]}", "an address that stays with https")


def _asked_wait(response: requests.Response) -> float | None:
    """Return how many seconds Retry-After asks to wait, None where it does not say. A date counts from the server's own Date."""
    asked = response.headers.get("Retry-After", "")
    if asked.isascii() and asked.isdigit():
        return float(asked)
    try:
        until, now = parsedate_to_datetime(asked), parsedate_to_datetime(response.headers.get("Date", ""))
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):
        return None


def _short(error: Any) -> str:
    """Return an exception's text on one short line, without the addresses of objects in it."""
    if any(isinstance(argument, urllib3.exceptions.IncompleteRead) for argument in error.args):
        return "the body was cut short"
    reason = getattr(error.args[0], "reason", None) if error.args else None
    text = " ".join(str(reason or error).split())
    text = text.partition(" object at 0x")[0] if " object at 0x" in text and ": " not in text else text.rpartition(">: ")[2]
    return f"{type(error).__name__}: {text[:160]}"


class Slow(Exception):
    """A body stays below the least rate."""


class SpeedGuard:
    """Counts bytes and raises Slow after each stretch of time in which too few came.

    bytes_per_second : the least rate.   seconds : how long a stretch is.   clock : returns seconds, for tests.
    """

    def __init__(self, bytes_per_second: float, seconds: float, clock: Callable[[], float] | None = None) -> None:
        self._rate, self._seconds, self._clock = bytes_per_second, seconds, clock or time.monotonic
        self._since, self._bytes = self._clock(), 0

    def count(self, size: int) -> None:
        """Note `size` further bytes. Raises Slow."""
        self._bytes += size
        gone = self._clock() - self._since
        if gone < self._seconds:
            return
        if self._bytes < self._rate * gone:
            raise Slow(f"{self._bytes} bytes in {gone:.0f} seconds")
        self._since, self._bytes = self._since + gone, 0
