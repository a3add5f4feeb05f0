"""Materials of an imported asset: what is missing or unreadable, what shows through, and whether there is any colour."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import bpy
import numpy as np
from PIL import Image

from sam3dvid.assets.textures import Parts, Textures
from sam3dvid.blender.collect import COLOUR, UV, Piece
from sam3dvid.blender.session import silence
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings

FILLED_IN = (0.5, 1.0)
"""A grey from the first to the second is what programs fill in where nobody chose a colour (glTF 1, Blender 0.8, OBJ exporters 0.64, 3ds Max 0.588)."""
SAME = 0.004
"""Channels closer than this are one grey: less than a step of 8 bits."""

COPIED = ("PNG", "JPEG", "WEBP")
"""Formats, as Blender names them, whose bytes the exporter copies."""
ALIKE = 0.1
"""Two decoders of one picture differ by less than this of white everywhere."""


def used_materials(pieces: Sequence[Piece]) -> list[bpy.types.Material]:
    """Return the materials that some triangle has, each once, in the order of the pieces."""
    found: dict[str, bpy.types.Material] = {}
    for piece in pieces:
        for slot in sorted(set(piece.slots.tolist())):
            if (material := piece.materials[slot]) is not None:
                found.setdefault(material.name, material)
    return list(found.values())


def check_images(materials: Sequence[bpy.types.Material], parts: Parts, textures: Textures) -> None:
    """Check that every picture of the materials is one that was decoded whole, or decode it, and that Blender has its pixels.

    Blender knows fewer formats than the decoder does, such as no GIF, and exports what it does not know as no picture at all.
    Raises AssetRefused: missing_texture, missing_part, unreadable_texture.
    """
    for material in materials:
        for image in images_of(material):
            if image.packed_file is not None:
                data = bytes(image.packed_file.data)
                textures.check(data, image.name)
                _check_pixels(image, data, image.name, parts)
                continue
            name = image.filepath_raw.replace("\\", "/").rpartition("/")[2] or image.name
            path = Path(bpy.path.abspath(image.filepath_raw)) if image.filepath_raw else None
            if path is not None and path.is_symlink():
                path = path.resolve()  # a link of ours to one of the parts
            data = parts.require(path, name, "missing_texture").read_bytes()
            if hashlib.sha256(data).hexdigest() not in textures.digests:
                textures.check(data, name)
            _check_pixels(image, data, name, parts)


def _check_pixels(image: bpy.types.Image, data: bytes, name: str, parts: Parts) -> None:
    """Let Blender load an image. Raises AssetRefused (unreadable_texture) if it has no pixels then, or others than the decoder.

    data : the encoded picture.   Only what the exporter writes anew is compared: it copies the bytes of the formats in COPIED.
    """
    with silence():
        loaded = min(image.size) > 0 and image.has_data  # to ask for the size loads it
        same = loaded and (image.file_format in COPIED or image.is_float or _shows_the_same(image, data))
    if not same:
        raise AssetRefused(
            "unreadable_texture", parts.main.name, f"{name} is of a kind that Blender does not read", "one that it reads, such as PNG, JPEG or WebP"
        )


def _shows_the_same(image: bpy.types.Image, data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data)) as picture:
            expected = np.asarray(picture.convert("RGB"))[::-1]  # Blender's first row is the lowest
    if tuple(image.size) != (expected.shape[1], expected.shape[0]):
        return False
    found = np.empty(image.size[0] * image.size[1] * image.channels, np.float32)
    image.pixels.foreach_get(found)
    shown = found.reshape(*expected.shape[:2], -1)[..., :3]
    return bool(np.abs(shown - expected * np.float32(1 / 255)).max() < ALIKE)


def images_of(material: bpy.types.Material) -> Iterator[bpy.types.Image]:
    """Yield the images of a material's nodes. Raises AssetRefused (missing_texture) for an image node without one that something is linked to."""
    for node in _nodes(material):
        if node.type == "TEX_IMAGE" and any(output.is_linked for output in node.outputs):
            if node.image is None:
                raise AssetRefused("missing_texture", material.name, "an image node without an image", "a picture for every texture")
            yield node.image


def _nodes(material: bpy.types.Material) -> list[bpy.types.Node]:
    return list(material.node_tree.nodes) if material.use_nodes and material.node_tree else []


def _surface(material: bpy.types.Material) -> bpy.types.Node | None:
    return next((node for node in _nodes(material) if node.type == "BSDF_PRINCIPLED"), None)


def settle_opacity(materials: Sequence[bpy.types.Material], settings: NormalizeSettings, where: str) -> set[str]:
    """Refuse what is not opaque, or make it so; return what is to be noted. Raises AssetRefused (transparent_material)."""
    notes = set()
    for material in materials:
        surface = _surface(material)
        sockets = [surface.inputs[name] for name in ("Alpha", "Transmission Weight")] if surface else []
        through = [socket for socket, solid in zip(sockets, (1.0, 0.0), strict=False) if socket.is_linked or abs(socket.default_value - solid) > SAME]
        through_nodes = [node for node in _nodes(material) if node.type == "BSDF_TRANSPARENT" and node.outputs[0].is_linked and not _unlit(material)]
        if not through and not through_nodes:
            continue
        if settings.transparent == "refuse":
            raise AssetRefused("transparent_material", where, f"material {material.name!r} lets something through", "opaque materials")
        for socket, solid in zip(sockets, (1.0, 0.0), strict=False):
            for link in list(socket.links):
                material.node_tree.links.remove(link)
            socket.default_value = solid
        notes.add("forced_opaque")
    return notes


def _unlit(material: bpy.types.Material) -> bool:
    return any(node.type == "LIGHT_PATH" for node in _nodes(material))  # how the glTF importer writes unlit materials


def settle_colour(pieces: Sequence[Piece], settings: NormalizeSettings, where: str) -> set[str]:
    """Let vertex colours show where a piece has no other colour, and return what is to be noted.

    Raises AssetRefused: no_colour if no piece has any and the settings refuse that; not_finite.
    """
    notes: set[str] = set()
    coloured, plain = 0, 0
    shown: dict[str | None, bpy.types.Material] = {}
    for piece in pieces:
        for slot in sorted(set(piece.slots.tolist())):
            material = piece.materials[slot]
            by_vertex = piece.colours is not None and (material is None or _shows_vertex_colours(material))
            if material is not None and ((piece.uvs and _shows_picture(material)) or _own_colour(material)):
                coloured += 1
            elif piece.colours is not None:
                name = material.name if material else None
                if not (material and _shows_vertex_colours(material)):
                    shown[name] = shown.get(name) or _show_vertex_colours(material)
                    piece.materials = [shown[name] if index == slot else each for index, each in enumerate(piece.materials)]
                by_vertex = True
                coloured += 1
            else:
                plain += 1
            if by_vertex:
                notes.add("vertex_colours")
    if not coloured and settings.untextured == "refuse":
        raise AssetRefused("no_colour", where, "neither textures nor vertex colours nor a material with a colour of its own", "some colour")
    if plain:
        notes.add("uncoloured_parts" if coloured else "uncoloured")
    return notes


def _shows_picture(material: bpy.types.Material) -> bool:
    """Return whether a picture decides the colour that a material shows or emits: one of normals, gloss or occlusion alone leaves it grey."""
    surface = _surface(material)
    names = ("Base Color", "Emission Color")
    shown = [surface.inputs[name] for name in names] if surface else [socket for node in _nodes(material) for socket in node.inputs if node.type == "EMISSION"]
    return any(_reaches_picture(socket) for socket in shown)


def pictures_of(materials: Sequence[bpy.types.Material]) -> set[tuple[str, str]]:
    """Return what a glTF file of these materials must hold: (name of the material, baseColorTexture or emissiveTexture), of those that show a picture."""
    found = set()
    for material in materials:
        surface = _surface(material)
        if surface is None and _shows_picture(material):
            found.add((material.name, "baseColorTexture"))
        elif surface is not None:
            if _reaches_picture(surface.inputs["Base Color"]):
                found.add((material.name, "baseColorTexture"))
            if _reaches_picture(surface.inputs["Emission Color"]) and surface.inputs["Emission Strength"].default_value > 0:
                found.add((material.name, "emissiveTexture"))
    return found


def _reaches_picture(socket: bpy.types.NodeSocket) -> bool:
    todo = [socket]
    seen: set[str] = set()
    while todo:
        for link in todo.pop().links:
            if link.from_node.type == "TEX_IMAGE":
                return True
            if link.from_node.name not in seen:
                seen.add(link.from_node.name)
                todo.extend(link.from_node.inputs)
    return False


def _shows_vertex_colours(material: bpy.types.Material) -> bool:
    return any(node.type in ("VERTEX_COLOR", "ATTRIBUTE") and any(output.is_linked for output in node.outputs) for node in _nodes(material))


def _own_colour(material: bpy.types.Material) -> bool:
    """Return whether a material has a base or emitted colour that no program fills in."""
    surface = _surface(material)
    if surface is None:
        colours = [node.inputs["Color"] for node in _nodes(material) if "Color" in node.inputs and node.type in ("EMISSION", "BSDF_DIFFUSE", "BACKGROUND")]
        return any(_is_chosen(socket.default_value) for socket in colours if not socket.is_linked)
    base, emission = surface.inputs["Base Color"], surface.inputs["Emission Color"]
    glows = surface.inputs["Emission Strength"].default_value > 0 and max(emission.default_value[:3]) > SAME
    return (not base.is_linked and _is_chosen(base.default_value)) or (glows and not emission.is_linked and _is_chosen(emission.default_value))


def _is_chosen(colour: Sequence[float]) -> bool:
    low, high = min(colour[:3]), max(colour[:3])
    return high - low > SAME or not FILLED_IN[0] <= srgb(low) <= FILLED_IN[1] + SAME


def srgb(value: float) -> float:
    """Return the sRGB form of a linear value from 0 to 1. Source: IEC 61966-2-1."""
    return 12.92 * value if value <= 0.0031308 else 1.055 * float(value) ** (1 / 2.4) - 0.055


def _show_vertex_colours(material: bpy.types.Material | None) -> bpy.types.Material:
    """Return a copy of a material, or a new one, whose base colour is the vertices'."""
    result = material.copy() if material is not None and _surface(material) else bpy.data.materials.new("vertex_colours")
    result.use_nodes = True
    nodes, links = result.node_tree.nodes, result.node_tree.links
    surface = _surface(result) or nodes.new("ShaderNodeBsdfPrincipled")
    if material is None:
        surface.inputs["Roughness"].default_value = 1.0
    attribute = nodes.new("ShaderNodeVertexColor")
    attribute.layer_name = COLOUR
    links.new(attribute.outputs["Color"], surface.inputs["Base Color"])
    return result


def name_layers(materials: Sequence[bpy.types.Material], meshes: Sequence[bpy.types.Mesh]) -> None:
    """Let materials find their layers under the names that the joined mesh gives them."""
    shown = {layer.name for mesh in meshes for layer in mesh.uv_layers if layer.active_render}
    for material in materials:
        for node in _nodes(material):
            if node.type == "UVMAP" and (node.uv_map in shown or not node.uv_map):
                node.uv_map = UV
            elif node.type == "VERTEX_COLOR":
                node.layer_name = COLOUR
            elif node.type == "ATTRIBUTE" and any(node.attribute_name == layer.name for mesh in meshes for layer in mesh.color_attributes):
                node.attribute_name = COLOUR
