"""A server on this machine that misbehaves as told: what a download meets in the world, without the world."""

import hashlib
import json
import threading
import time
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from sam3dvid.fetch.client import Client, Patience
from shardwork.streams import stream

JSON = "application/json"


@dataclass(frozen=True)
class Answer:
    """One way to answer. Without a body, what the path holds is served.

    cut_at : bytes of the body that are sent before the connection ends.   trickle : (bytes, seconds): the rest comes in such bits.
    hang : the connection stays open and silent once cut_at bytes are sent, until the server ends.   ranges : whether Range is obeyed.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut_at: int | None = None
    hang: bool = False
    ranges: bool = True
    length: bool = True


class Server:
    """What a server holds, what it was asked, and how it will answer next."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, str]] = {}
        self.answers: dict[str, deque[Answer]] = defaultdict(deque)
        self.always: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.at_once = self.most_at_once = 0
        self.pause_seconds = 0.0
        self.url = ""

    def put(self, path: str, body: bytes, kind: str = "application/octet-stream") -> str:
        """Hold a file and return its address."""
        self.files[path] = (body, kind)
        return self.url + path

    def answer(self, path: str, *answers: Answer) -> None:
        """Answer the next requests for a path so, one after the other."""
        self.answers[path].extend(answers)

    def paths(self) -> list[str]:
        """Return the paths that were asked for, in order."""
        return [path for path, _ in self.asked]


def tag_of(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            with server.lock:
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                if server.pause_seconds:
                    time.sleep(server.pause_seconds)
                self.respond()
            finally:
                with server.lock:
                    server.at_once -= 1

        def respond(self) -> None:
            path = self.path
            with server.lock:
                server.asked.append((path, dict(self.headers)))
                queue = server.answers[path]
                answer = queue.popleft() if queue else server.always.get(path, Answer())
            held = server.files.get(path) or server.files.get(urlsplit(path).path)
            if answer.body is None and held is None and answer.status == 200:
                answer = Answer(404, body=b"no such file")
            body, kind = (answer.body, "text/html") if answer.body is not None else held or (b"", "text/plain")
            status, headers = answer.status, {"Content-Type": kind}
            if status == 200:
                headers["ETag"] = tag_of(body)
                body, status, headers = self.ranged(answer, body, headers)
            headers |= answer.headers
            self.send_response(status)
            if answer.length:
                headers.setdefault("Content-Length", str(len(body)))
            else:
                headers["Connection"] = "close"
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body if answer.cut_at is None else body[: answer.cut_at])
            self.wfile.flush()
            if answer.hang:
                server.ended.wait(30)
            if answer.cut_at is not None or answer.hang or not answer.length:
                self.close_connection = True

        def ranged(self, answer: Answer, body: bytes, headers: dict[str, str]) -> tuple[bytes, int, dict[str, str]]:
            asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
            if not asked or not answer.ranges or (condition and condition != tag_of(body)):
                return body, 200, headers
            begin = int(asked.removeprefix("bytes=").partition("-")[0])
            if begin >= len(body):
                return b"", 416, headers | {"Content-Range": f"bytes */{len(body)}"}
            return body[begin:], 206, headers | {"Content-Range": f"bytes {begin}-{len(body) - 1}/{len(body)}"}

    return Handler


class Quiet(ThreadingHTTPServer):
    """Says nothing of a client that hangs up: that is what the tests are about."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextmanager
def running():
    """Yield a server that runs in threads of this process."""
    server = Server()
    http = Quiet(("127.0.0.1", 0), _handler(server))
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        http.shutdown()
        http.server_close()
        thread.join()


class Haven:
    """A server that answers as api.polyhaven.com and dl.polyhaven.org do."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.listed: dict[str, dict] = {}

    def entry(self, path: str, body: bytes) -> dict:
        url = self.server.put(path, body)
        return {"size": len(body), "md5": hashlib.md5(body).hexdigest(), "url": url}

    def add(self, slug: str, body: bytes | None = None, tonemapped: bool = True, sizes: tuple[str, ...] = ("1k", "2k", "4k", "8k", "16k")) -> dict:
        """List a panorama; return its files."""
        body = body or slug.encode() * 100
        hdri = {
            size: {kind: self.entry(f"/file/HDRIs/{kind}/{size}/{slug}_{size}.{kind}", f"{size}{kind}{slug}".encode()) for kind in ("hdr", "exr")}
            for size in sizes
        }
        files = {"hdri": hdri, "backplates": {}, "colorchart": {}}
        if tonemapped:
            files["tonemapped"] = self.entry(f"/file/HDRIs/extra/Tonemapped%20JPG/{slug}.jpg", body)
        self.listed[slug] = {"name": slug.title(), "type": 0, "authors": {"Greg Zaal": "All"}, "date_published": 1500000000, "max_resolution": [16384, 8192]}
        self.server.put("/assets?type=hdris", json.dumps(self.listed).encode(), JSON)
        self.put_files(slug, files)
        return files

    def put_files(self, slug: str, files: dict) -> None:
        self.server.put(f"/files/{slug}", json.dumps(files).encode(), JSON)


class Sleeps(list):
    """Stands in for sleep: notes the seconds and returns at once."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(sleeps: Sleeps | None = None, clock=None, **patience) -> Client:
    """Return a client that never waits before it tries again."""
    patience = {"connect_seconds": 10.0, "read_seconds": 10.0, **patience}
    return Client("reelmill-test/1", stream(0, "backoff"), Patience(**patience), sleep=sleeps if sleeps is not None else Sleeps(), clock=clock)
