"""What is wrong with a glTF file that Blender would not say, and the plain form of it that Blender is given."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.assets.found import Found, count_distinct
from sam3dvid.assets.gltf import DRACO, MALFORMED, POINTS, TRIANGLES, Document, Gltf, decode_data_uri, read_gltf
from sam3dvid.assets.parts import local_file
from sam3dvid.assets.textures import Parts, Textures
from sam3dvid.settings import NormalizeSettings

READABLE = {
    DRACO,
    "EXT_mesh_gpu_instancing",
    "EXT_texture_webp",
    "KHR_lights_punctual",
    "KHR_mesh_quantization",
    "KHR_texture_transform",
    *(
        f"KHR_materials_{name}"
        for name in ("anisotropy clearcoat emissive_strength ior pbrSpecularGlossiness sheen specular transmission unlit variants volume".split())
    ),
}
"""Extensions that a file may require: Blender 4.5 reads them, or what it leaves out changes neither shape nor colour much."""
SEE_THROUGH = {
    "KHR_materials_transmission": "transmissionFactor",
    "KHR_materials_volume": "thicknessFactor",
    "KHR_materials_diffuse_transmission": "diffuseTransmissionFactor",
}
"""Extensions that can let light through, and the factor of each that decides whether it does."""

SHEAR = 1e-4
"""Columns of a node's matrix whose cosine is more than this are not orthogonal."""


def check_gltf(sources: Parts, settings: NormalizeSettings, scratch: Path) -> Found:
    """Return what a glTF file holds, with a plain copy of it in `scratch` for Blender. Raises AssetRefused for what is not usable.

    The copy has no animations, cameras, lights or other scenes, so that every node stands as the file's nodes state it.
    """
    gltf = read_gltf(sources.main, sources)
    try:
        return _check(gltf, sources, settings, scratch)
    except MALFORMED as error:
        raise gltf.refuse(f"a structure that cannot be read ({error!r})") from error


def _check(gltf: Gltf, sources: Parts, settings: NormalizeSettings, scratch: Path) -> Found:
    unknown = sorted(set(gltf.document.get("extensionsRequired", [])) - READABLE)
    if unknown:
        raise gltf.refuse(f"it requires {', '.join(unknown)}", "format_unsupported", "extensions that Blender reads")
    for index in gltf.shown_nodes():
        _check_matrix(gltf, index)
    low, high = _check_shapes(gltf, settings)
    used = {primitive["material"] for _, primitive in gltf.primitives() if "material" in primitive}
    textures, notes = Textures(gltf.where), set()
    for index in sorted(used):
        material = gltf.pick("materials", index)
        if not_opaque(material):
            if settings.transparent == "refuse":
                how = material.get("alphaMode", "transmission")
                raise gltf.refuse(f"material {material.get('name', index)!r} is {how}", "transparent_material", "opaque materials")
            notes.add("forced_opaque")
        if hides_texture(material):
            if settings.untextured == "refuse":
                found = f"material {material.get('name', index)!r} multiplies its only picture by an emissive factor of 0"
                raise gltf.refuse(found, "no_colour", "a picture that shows")
            notes.add("hidden_texture")
        for texture in texture_indices(material):
            _check_image(gltf, texture, sources, textures)
    if gltf.all("animations"):
        notes.add("animated")
    return Found("gltf", write_plain(gltf, sources, scratch), notes, textures.digests, (low, high))


def _check_matrix(gltf: Gltf, index: int) -> None:
    """Raise AssetRefused (unreadable_mesh, not_finite) for a node's matrix that no translation, rotation and scale make, which glTF forbids.

    Blender takes it apart into those three and would show another shape, of a matrix with one zero column too.
    """
    if "matrix" not in (node := gltf.all("nodes")[index]):
        return
    matrix = np.array(node["matrix"], np.float64).reshape(4, 4).T
    if not np.isfinite(matrix).all():
        raise gltf.refuse(f"nodes[{index}] has a matrix that is not finite", "not_finite", "finite numbers")
    lengths = np.linalg.norm(matrix[:3, :3], axis=0)
    products = np.abs(matrix[:3, :3].T @ matrix[:3, :3])[np.triu_indices(3, 1)]
    limits = SHEAR * np.outer(lengths, lengths)[np.triu_indices(3, 1)]
    if (products > limits).any() or np.count_nonzero(lengths) == 2 or not np.allclose(matrix[3], [0, 0, 0, 1], rtol=0, atol=1e-6):
        raise gltf.refuse(f"nodes[{index}] has a matrix with shear, projection or a zero column", expected="a translation, a rotation and a scale")


def _check_shapes(gltf: Gltf, settings: NormalizeSettings) -> tuple[int, int]:
    """Return between how many triangles Blender must find: without those that are no triangles or stand twice, and with them."""
    sums: dict[int, tuple[int, int]] = {}
    counts: dict[int, int] = {}
    modes = set()
    for mesh, _ in gltf.primitives():
        if mesh not in sums:
            shapes = gltf.pick("meshes", mesh)["primitives"]
            modes |= {shape.get("mode", TRIANGLES) for shape in shapes}
            sums[mesh] = tuple(map(sum, zip(*(_check_primitive(gltf, shape) for shape in shapes), strict=True)))  # type: ignore[assignment]
            counts[mesh] = 0
    for node in gltf.shown_nodes():
        if (mesh := gltf.all("nodes")[node].get("mesh")) in counts:
            counts[mesh] += _copies(gltf, gltf.all("nodes")[node])
    low, high = (sum(sums[mesh][side] * counts[mesh] for mesh in sums) for side in (0, 1))
    if not high:
        kind = "empty_mesh" if not modes or max(modes) >= TRIANGLES else "points_only" if modes == {POINTS} else "lines_only"
        raise gltf.refuse("no triangles", kind, "triangles")
    if high > settings.max_triangles:
        raise gltf.refuse(f"{high} triangles", "too_many_triangles", f"at most {settings.max_triangles}")
    return low, high


def _copies(gltf: Gltf, node: Document) -> int:
    """Return how often a node shows its mesh."""
    instancing = node.get("extensions", {}).get("EXT_mesh_gpu_instancing")
    return gltf.pick("accessors", next(iter(instancing["attributes"].values())))["count"] if instancing else 1


def _check_primitive(gltf: Gltf, shape: Document) -> tuple[int, int]:
    """Check one primitive's numbers; return its least and its stated number of triangles."""
    names = shape["attributes"]
    if "POSITION" not in names:
        return 0, 0
    total = gltf.pick("accessors", names["POSITION"])["count"]
    for name, index in sorted(names.items()):
        values = gltf.accessor(index)
        if gltf.pick("accessors", index)["count"] != total:
            raise gltf.refuse(f"{name} has another count than POSITION")
        if values is not None and name.startswith(("POSITION", "TEXCOORD", "COLOR")) and not np.isfinite(values).all():
            raise gltf.refuse(f"{int((~np.isfinite(values)).any(axis=1).sum())} of {total} values of {name} are not finite", "not_finite", "finite numbers")
    for target in shape.get("targets", []):
        values = gltf.accessor(target["POSITION"]) if "POSITION" in target else None
        if values is not None and not np.isfinite(values).all():
            raise gltf.refuse("a morph target is not finite", "not_finite", "finite numbers")
    mode = shape.get("mode", TRIANGLES)
    compressed = DRACO in shape.get("extensions", {})
    if compressed:
        gltf.view(shape["extensions"][DRACO]["bufferView"])
    elif gltf.accessor(names["POSITION"]) is None and total:
        raise gltf.refuse("POSITION has no data")
    count = gltf.pick("accessors", shape["indices"])["count"] if "indices" in shape else total
    if mode < TRIANGLES:
        return 0, 0
    if mode == TRIANGLES and count % 3:
        raise gltf.refuse(f"{count} indices of a list of triangles", expected="three for each")
    stated = count // 3 if mode == TRIANGLES else max(0, count - 2)
    corners = _corners(gltf, shape, total)
    if corners is None or mode != TRIANGLES:
        return 0, stated
    return count_distinct(corners.reshape(-1, 3), total), stated


def _corners(gltf: Gltf, shape: Document, total: int) -> NDArray[Any] | None:
    if "indices" not in shape:
        return np.arange(total)
    corners = gltf.accessor(shape["indices"])
    if corners is not None and len(corners) and int(corners.max()) >= total:
        raise gltf.refuse(f"vertex index {int(corners.max())} of {total} vertices")
    return corners


def not_opaque(material: Document) -> bool:
    """Return whether a glTF material lets something behind it through; an extension whose factor is 0, the default of all three, does not."""
    extensions = material.get("extensions", {})
    return material.get("alphaMode", "OPAQUE") != "OPAQUE" or any(extensions.get(name, {}).get(key, 0) > 0 for name, key in SEE_THROUGH.items())


def hides_texture(material: Document) -> bool:
    """Return whether a glTF material's picture is emitted at a strength of 0, the default: the standard lets nothing of it show."""
    base, extensions = material.get("pbrMetallicRoughness", {}), material.get("extensions", {})
    shown = "baseColorTexture" in base or "diffuseTexture" in extensions.get("KHR_materials_pbrSpecularGlossiness", {})
    return "emissiveTexture" in material and not any(material.get("emissiveFactor", ())) and not shown


def texture_indices(material: Any) -> Iterator[int]:
    """Yield the textures that a glTF material uses, those of its extensions included."""
    for key, value in sorted(material.items()):
        if isinstance(value, dict):
            if key.endswith("Texture") and "index" in value:
                yield value["index"]
            elif key != "extras":
                yield from texture_indices(value)


def _check_image(gltf: Gltf, index: int, sources: Parts, textures: Textures) -> None:
    texture = gltf.pick("textures", index)
    source = texture.get("source", texture.get("extensions", {}).get("EXT_texture_webp", {}).get("source"))
    if source is None:
        if texture.get("extensions"):
            raise gltf.refuse(f"textures[{index}] needs {', '.join(sorted(texture['extensions']))}", "format_unsupported", "PNG, JPEG or WebP textures")
        raise gltf.refuse(f"textures[{index}] has no picture", "missing_texture", "a picture for every texture")
    image = gltf.pick("images", source)
    name = str(image.get("name") or image.get("uri", "")[:60] or f"images[{source}]")
    if "bufferView" in image:
        data = bytes(gltf.view(image["bufferView"])[0])
    elif image["uri"].startswith("data:"):
        data = decode_data_uri(gltf, image["uri"])
    else:
        data = sources.require(local_file(gltf.folder, image["uri"]), image["uri"], "missing_texture").read_bytes()
    textures.check(data, name)


def write_plain(gltf: Gltf, sources: Parts, scratch: Path) -> Path:
    """Write the document with its buffers and linked pictures to `scratch` and return its path. Opaque materials are what is left of others."""
    document = copy.deepcopy(gltf.document)
    for key in ("animations", "cameras"):
        document.pop(key, None)
    shown = set(gltf.shown_nodes())
    for index, node in enumerate(document.get("nodes", [])):
        node.pop("camera", None)
        node.get("extensions", {}).pop("KHR_lights_punctual", None)
        if index not in shown:
            node.pop("mesh", None)
    document.get("extensions", {}).pop("KHR_lights_punctual", None)
    if document.get("scenes"):
        document["scenes"], document["scene"] = [document["scenes"][document.get("scene", 0)]], 0
    for material in document.get("materials", []):
        _make_opaque(material)
    for index, (buffer, data) in enumerate(zip(document.get("buffers", []), gltf.buffers, strict=True)):
        buffer["uri"] = f"buffer{index}.bin"
        (scratch / buffer["uri"]).write_bytes(data)
    for index, image in enumerate(document.get("images", [])):
        uri = image.get("uri", "data:")
        if not uri.startswith("data:"):
            path = local_file(gltf.folder, uri)
            image.setdefault("name", Path(uri).stem)
            image["uri"] = f"image{index}{Path(uri).suffix}"
            if path is not None:  # one that no shown material uses may be missing
                (scratch / image["uri"]).symlink_to(path.absolute())
    path = scratch / "asset.gltf"
    path.write_text(json.dumps(document))
    return path


def _make_opaque(material: Document) -> None:
    for key in ("alphaMode", "alphaCutoff"):
        material.pop(key, None)
    for name in SEE_THROUGH:
        material.get("extensions", {}).pop(name, None)
    factor = material.get("pbrMetallicRoughness", {}).get("baseColorFactor")
    if factor:
        factor[3:] = [1.0]
