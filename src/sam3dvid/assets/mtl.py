"""MTL material libraries: which maps and how much opacity each material states, and the plain form that Blender is given."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from sam3dvid.assets.parts import MAPS, find_texture, without_options
from sam3dvid.assets.textures import Parts, Textures
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings

SEEN_MAPS = frozenset(("map_kd", "map_ks", "map_ns", "map_ke", "map_bump", "bump", "norm", "map_refl", "refl", "map_pr", "map_pm", "map_ps"))
"""Maps that Blender's importer reads, but for map_d; others change no picture."""
OPACITY = frozenset(("d", "tr", "map_d", "map_tr"))
PLAIN_ILLUM = frozenset(("0", "1", "2"))
"""Illumination models that say nothing of mirrors or glass. Others are left out: Blender makes metal or glass of an opaque material that has one."""


@dataclass(slots=True)
class Material:
    """One material.   lines : its lines but for opacity and maps that nothing shows.   maps : (key, options, name as written, its library's folder)."""

    name: str
    lines: list[str] = field(default_factory=list)
    maps: list[tuple[str, str, str, Path]] = field(default_factory=list)
    dissolve: float | None = None
    transparency: float | None = None
    opacity_map: bool = False

    def is_opaque(self) -> bool:
        """Return whether nothing shows through it. d counts before Tr, which some exporters write the other way round."""
        opacity = self.dissolve if self.dissolve is not None else 1.0 - (self.transparency or 0.0)
        return opacity >= 1.0 and not self.opacity_map


def read_materials(libraries: list[Path]) -> dict[str, Material]:
    """Return the materials of MTL files by name; a later definition adds to an earlier one, as Blender reads it. Raises ValueError for no number."""
    found: dict[str, Material] = {}
    current: Material | None = None
    for library in libraries:
        text = library.read_bytes().replace(b"\\\r\n", b" ").replace(b"\\\n", b" ").decode("utf-8", "surrogateescape")
        for line in re.split(r"[\r\n]+", text):
            words = line.split(None, 1)
            if not words or words[0].startswith("#"):
                continue
            key, rest = words[0].lower(), words[1].strip() if len(words) > 1 else ""
            if key == "newmtl":
                current = found.setdefault(rest, Material(rest))
            elif current is not None:
                _add(current, key, rest, library.parent)
    return found


def _add(material: Material, key: str, rest: str, folder: Path) -> None:
    if key in ("d", "tr"):
        value = float(rest.split()[-1] if rest else rest)  # after -halo
        if key == "d":
            material.dissolve = value
        else:
            material.transparency = value
    elif key in OPACITY:
        material.opacity_map = True
    elif key in SEEN_MAPS:
        name = without_options(rest)
        if name:
            material.maps.append((key, rest[: rest.rindex(name)].rstrip('" '), name, folder))
    elif not (MAPS.fullmatch(key) or key == "tf" or (key == "illum" and rest.partition("#")[0].strip() not in PLAIN_ILLUM)):
        # Tf is the colour of the light that passes through, where any does: Blender takes it for how much passes
        material.lines.append(f"{key.capitalize() if len(key) == 2 else key} {rest.partition('#')[0]}")


def write_plain_materials(used: list[Material], parts: Parts, textures: Textures, settings: NormalizeSettings, target: Path) -> set[str]:
    """Write the materials that are used to one MTL file whose maps lie beside it; return what is to be noted.

    Raises AssetRefused: transparent_material, missing_texture, missing_part, unreadable_texture.
    """
    notes, links, lines = set(), dict[Path, str](), list[str]()
    for material in used:
        if not material.is_opaque():
            if settings.transparent == "refuse":
                found = f"material {material.name!r} has an opacity below 1 or an opacity map"
                raise AssetRefused("transparent_material", parts.main.name, found, "opaque materials")
            notes.add("forced_opaque")
        lines += [f"newmtl {material.name}", *material.lines]
        for key, options, name, folder in material.maps:
            path = parts.require(find_texture(name, folder), name, "missing_texture")
            textures.check(path.read_bytes(), name)
            if path not in links:
                links[path] = f"map{len(links)}/{path.name}"
                (target.parent / links[path]).parent.mkdir()
                (target.parent / links[path]).symlink_to(path.absolute())
            lines.append(" ".join(word for word in (_spelled(key), options, links[path]) if word))
    target.write_bytes("\n".join([*lines, ""]).encode("utf-8", "surrogateescape"))
    return notes


def _spelled(key: str) -> str:
    """Return a key as Blender knows it."""
    names = {"bump": "map_Bump", "map_bump": "map_Bump", "norm": "norm", "refl": "refl", "map_refl": "map_refl"}
    return names.get(key) or "map_" + key[4:].capitalize()
