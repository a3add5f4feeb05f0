"""The further files that an asset refers to: materials, textures, buffers. Standard library alone."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

GLB_MAGIC, GLB_HEADER_BYTES, JSON_CHUNK = b"glTF", 20, b"JSON"
LIBRARY_LINE = re.compile(rb"^[ \t]*mtllib[ \t]+([^\r\n]*)", re.MULTILINE)
FBX_NAME = b"RelativeFilename"
MAPS = re.compile(r"map_\w+|bump|disp|decal|norm|refl", re.IGNORECASE)
OPTIONS = {"-o": 3, "-s": 3, "-t": 3, "-mm": 2, "-bm": 1, "-boost": 1, "-texres": 1}
"""Options of a map that take numbers, and how many at most. Any other takes one word."""
TEXTURES = Path("materials", "textures")
"""Where Google Scanned Objects keep what their meshes/model.mtl calls texture.png."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file that an asset refers to.   name : as it is referred to.   path : where it is, or None.   kind : material, texture or buffer."""

    name: str
    path: Path | None
    kind: str


def parts_of(path: Path) -> list[Part]:
    """Return the files that an asset's file refers to, each once, in the order in which they are named; none for a file that cannot be understood.

    path : .obj, .gltf, .glb or .fbx; other formats refer to none. What is embedded is no part. Of an FBX only textures that are there are listed:
    what is not may be embedded.   Raises OSError.
    Source: Wavefront's MTL form; glTF 2.0, 3.6.1.1 and 4 (chunks); an OBJ's own name with .mtl counts too, as Blender reads it unasked.
    """
    readers = {".obj": _obj_parts, ".gltf": _gltf_parts, ".glb": _gltf_parts, ".fbx": _fbx_parts}
    reader = readers.get(path.suffix.lower())
    return list(dict.fromkeys(reader(path))) if reader else []


def _obj_parts(path: Path) -> Iterator[Part]:
    libraries: list[Path] = []
    data = path.read_bytes()
    if b"\\\n" in data or b"\\\r\n" in data:
        data = data.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")
    for match in LIBRARY_LINE.finditer(data):
        for name, library in _libraries(os.fsdecode(match[1]).strip(), path.parent):
            yield Part(name, library, "material")
            libraries += [library] if library else []
    own = path.with_suffix(".mtl")
    if own.is_file() and own not in libraries:
        yield Part(own.name, own, "material")
        libraries.append(own)
    for library in dict.fromkeys(libraries):
        for name in map_names(library):
            yield Part(name, find_texture(name, library.parent), "texture")


def _libraries(text: str, folder: Path) -> Iterator[tuple[str, Path | None]]:
    """Yield the libraries of a line. The standard parts names by blanks, yet exporters write names that hold some: the whole line comes first."""
    if whole := _existing(text, folder):
        yield text, whole
    else:
        yield from ((name, _existing(name, folder)) for name in (text.split() if ".mtl " in text.lower() else [text]))


def map_names(library: Path) -> Iterator[str]:
    """Yield the texture names in an MTL file as they are written, without options and quotes.   Raises OSError."""
    text = os.fsdecode(library.read_bytes().replace(b"\\\r\n", b" ").replace(b"\\\n", b" "))
    for line in re.split(r"[\r\n]+", text):
        key, _, rest = line.strip().partition(" ") if "\t" not in line else line.strip().replace("\t", " ").partition(" ")
        if MAPS.fullmatch(key) and (name := without_options(rest)):
            yield name


def without_options(text: str) -> str:
    """Return the name in the value of a map, which options such as `-o 1 1 1` or `-blendu on` may stand before; it may hold blanks."""
    rest = text.strip()
    while rest.startswith("-"):
        option, _, after = rest.partition(" ")
        after = after.strip()
        if option.lower() in OPTIONS:
            for _ in range(OPTIONS[option.lower()]):
                word, _, further = after.partition(" ")
                if not _is_number(word):
                    break
                after = further.strip()
        elif option[1:2].isalpha() and "." not in option:
            after = after.partition(" ")[2].strip()
        else:
            break  # a name that begins with a dash
        rest = after
    return rest.strip('"')


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def find_texture(name: str, folder: Path) -> Path | None:
    """Return the file that a map means, or None.

    name : as the MTL writes it.   folder : the MTL's. Looked for as written, then by its last part beside the MTL (exporters write paths of their
    own machine), then in the folder where Google Scanned Objects keep textures, which neither trimesh nor Blender knows.
    """
    last = re.split(r"[/\\]", name)[-1]
    return _existing(name, folder) or _existing(last, folder) or _existing(last, folder.parent / TEXTURES)


def _existing(name: str, folder: Path) -> Path | None:
    """Return the file of this relative name below or beside a folder, or None; absolute names belong to another machine."""
    for text in dict.fromkeys((name.strip('"'), name.strip('"').replace("\\", "/"))):
        path = folder / text
        if text and not Path(text).is_absolute() and _is_file(path):
            return path
    return None


def _is_file(path: Path) -> bool:
    """Return whether a file is there; none has a name that is too long or holds a NUL. Raises OSError where the machine is at fault."""
    try:
        return path.is_file()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False


def local_file(folder: Path, uri: str) -> Path | None:
    """Return the file that a glTF's URI names below or beside its folder, or None. What should be escaped and is not is common: as written comes second."""
    return None if "://" in uri else _existing(unquote(uri), folder) or _existing(uri, folder)


def _gltf_parts(path: Path) -> Iterator[Part]:
    document = _gltf_json(path)
    for key, kind in (("buffers", "buffer"), ("images", "texture")):
        entries = document.get(key)
        for entry in entries if isinstance(entries, list) else []:
            uri = entry.get("uri") if isinstance(entry, dict) else None
            if isinstance(uri, str) and not uri.startswith("data:"):
                yield Part(uri, local_file(path.parent, uri), kind)


def _gltf_json(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        head = file.read(GLB_HEADER_BYTES)
        if head[:4] == GLB_MAGIC:
            data = file.read(int.from_bytes(head[12:16], "little")) if head[16:20] == JSON_CHUNK else b""
        else:
            data = head + file.read() if path.suffix.lower() == ".gltf" else b""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _fbx_parts(path: Path) -> Iterator[Part]:
    data, start = path.read_bytes(), 0
    while (start := data.find(FBX_NAME, start)) >= 0:
        start += len(FBX_NAME)
        if data[start : start + 1] == b"S":
            size = int.from_bytes(data[start + 1 : start + 5], "little")
            name = os.fsdecode(data[start + 5 : start + 5 + size]) if size < 4096 else ""
            if name and (found := find_texture(name, path.parent)):
                yield Part(name, found, "texture")
