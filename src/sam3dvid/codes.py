"""Reason codes: why an asset, a photo or a panorama is refused, and what to do about it."""

from __future__ import annotations

from shardwork.errors import DataError, Fault

CODES: dict[str, str] = {
    # assets
    "empty_mesh": "The asset's file holds no geometry at all, or is empty.",
    "points_only": "The asset holds points without triangles.",
    "lines_only": "The asset holds lines without triangles.",
    "flat_mesh": "The asset has no thickness along one axis: a plane has no canonical frame to speak of.",
    "zero_extent": "All vertices of the asset stand in one place, or its triangles have no area.",
    "not_finite": "A coordinate or colour of the asset is NaN or infinite.",
    "unreadable_mesh": "The asset's file is cut, damaged, or not of the format that its name says.",
    "format_unsupported": "No reader here knows the asset's format or an extension that it requires, such as meshopt compression.",
    "missing_part": "A file that the asset refers to (a buffer, a material library) is not there.",
    "missing_texture": "A texture that the asset refers to is not there.",
    "unreadable_texture": "A texture of the asset cannot be decoded.",
    "no_colour": "The asset has neither textures nor vertex colours nor coloured materials: it would be rendered grey.",
    "transparent_material": "A material of the asset is not opaque: its picture would have holes that its mask lacks.",
    "not_canonical": "A vertex lies outside the cube from -0.5 to 0.5, so the mesh was not normalised.",
    "too_many_triangles": "The asset has more triangles than the limit.",
    "time_limit": "Twice, the asset or the clip was not finished within the time that one item may take.",
    "blender_crashed": "Twice, Blender crashed on the asset or the clip.",
    "in_both_splits": "Assets of train and eval have the same mesh, to the byte.",
    "license_refused": "The asset's licence is not in the allow-list, or not known.",
    "score_too_low": "A filter score of the asset is below its limit, or is not there.",
    # backgrounds
    "unreadable_image": "The picture is cut, damaged, empty, or no picture.",
    "image_too_small": "The picture has fewer pixels than a frame needs.",
    "image_too_large": "The picture has more pixels than the limit, as a decompression bomb has.",
    "image_shape": "The picture has a shape that cannot cover the frames.",
    "image_unsupported": "The picture has a colour model that a background cannot have, such as transparency.",
    "not_equirectangular": "The panorama is not twice as wide as high, so it is no full sphere.",
    "too_dark": "The panorama is black over half of its sphere or more: there is nothing to set its exposure by.",
    "duplicate_image": "The same picture stands in the table under another id too, and could so reach both splits.",
    "pool_frozen": "A pool of other settings or other sources stands in the folder: frozen pools never change.",
    "bad_pool": "A pool's files are not what its index says.",
    # plans
    "bad_asset": "A finished asset's folder is not what voxelize_assets writes.",
    "too_few_assets": "The split has fewer finished assets than one clip may hold, and those of a clip are distinct.",
    "no_backgrounds": "The pool holds no picture for the split.",
    "plan_exhausted": "Every attempt to plan the clip was rejected; the row says how often for which reason.",
    "bad_plan": "A plan's file is not what plan_clips writes.",
    # renders
    "no_gpu": "A GPU is asked for, and there is none that Blender can use.",
    # clips
    "render_disagrees": "The rendered masks show less of an object than the format asks for, though the plan foresaw enough.",
    "invalid_clip": "A finished clip breaks the format of the dataset.",
    "bad_clip": "A clip's file is not of the kind, form or shape that the format has.",
    # exports
    "bad_export": "The index of an export is missing, was changed, or is of another kind.",
    "foreign_export": "A file that bears a name which an export, or `ship`, would write is there, and nothing says that it wrote it.",
    "other_split": "An export of the other split stands in the folder.",
    "low_psnr": "A frame's JPEG comes less near to its PNG than the format expects.",
    # downloads
    "download_failed": "A download failed again and again, or the server refused it.",
    "digest_mismatch": "A downloaded file has another size or digest than its source states.",
    "bad_answer": "A server's answer is not in the form that its interface states.",
    # settings
    "bad_asset_setting": "A setting of assets, backgrounds or clips is unknown or out of range.",
}
"""Code -> what it means, in one sentence."""

HINTS: dict[str, str] = {
    "empty_mesh": "take it out of the table",
    "points_only": "take it out of the table, or mesh the points first",
    "lines_only": "take it out of the table",
    "flat_mesh": "take it out of the table, or give it thickness",
    "zero_extent": "take it out of the table",
    "not_finite": "mend it in its source, or take it out of the table",
    "unreadable_mesh": "download it again, or take it out of the table",
    "format_unsupported": "convert it to GLB without that extension, or take it out of the table",
    "missing_part": "download the asset whole, make the table again, or take it out of the table",
    "missing_texture": "download the asset whole, make the table again, or take it out of the table",
    "unreadable_texture": "download it again, or take it out of the table",
    "no_colour": "give it a material, or set untextured to keep",
    "transparent_material": "take it out of the table, or set transparent to opaque",
    "not_canonical": "normalise it first: the longest side of its box is 1 and its middle the origin",
    "too_many_triangles": "simplify it, raise max_triangles, or take it out of the table",
    "time_limit": "an asset: simplify it, or take it out of the table; a clip: raise clip_seconds, or leave the gap",
    "blender_crashed": "give the job more memory and run with verify: full, which tries again; or take an asset out of the table, and leave the gap of a clip",
    "in_both_splits": "take one of them out of the table",
    "license_refused": "take it out of the table, or add its licence to licenses",
    "score_too_low": "take it out of the table, or lower the limit",
    "unreadable_image": "download it again, or take it out of the table",
    "image_too_small": "take it out of the table",
    "image_too_large": "scale it down, raise max_pixels, or take it out of the table",
    "image_shape": "take it out of the table",
    "image_unsupported": "convert it to an opaque RGB picture, or take it out of the table",
    "not_equirectangular": "take it out of the table",
    "too_dark": "take it out of the table, or give a tone-mapped JPEG of it",
    "duplicate_image": "take it out of the table",
    "pool_frozen": "name a new folder for the pool, or restore the settings that it was made with",
    "bad_pool": "restore its files from a copy, or make it again in a new folder",
    "bad_asset": "run the workflow with verify: full, which makes it again",
    "too_few_assets": "add assets of this split to the table; the report of the assets says which were refused",
    "no_backgrounds": "add pictures, or change eval_fraction and build the pool in a new folder",
    "plan_exhausted": "leave the gap, or raise max_attempts; where many clips end so, look for assets that are thin and backgrounds that are wide and low",
    "bad_plan": "run the workflow with verify: full, which makes it again",
    "no_gpu": "set device to auto or cpu, or look at the driver with nvidia-smi or rocm-smi",
    "render_disagrees": "leave the gap; where many clips end so, look for assets with parts thinner than a pixel, or raise the margin of the plans",
    "invalid_clip": "see python -m sam3dvid.validate; if the dataset's files were not touched, report it with the log",
    "bad_clip": "see what python -m sam3dvid.validate says of the dataset, then make the clip again",
    "bad_export": "export into the folder again: shards that are whole are kept",
    "foreign_export": "give another name, or move what is there away: nothing was changed",
    "other_split": "name another folder: one holds one split",
    "low_psnr": "see the clips named: renders that are not denoised and noisy photos do it; to export them all the same, set psnr to warn",
    "download_failed": "look at the network and the server, then run the same command: what is complete is kept",
    "digest_mismatch": "run the same command again; if it stays, the source was changed: report it there",
    "bad_answer": "look at the address in a browser; the server may be down or its interface changed",
    "bad_asset_setting": "see config/README.md for what is allowed",
}
"""Code -> what to do."""


class AssetRefused(DataError):
    """A verdict on one asset, photo or panorama; the hint comes from its code unless one is given."""

    def __init__(self, code: str, where: object, found: str, expected: str, hint: str = "") -> None:
        super().__init__(code, where, found, expected, hint or HINTS[code])


def stale(where: str, found: str, expected: str) -> Fault:
    """Return the fault of a file that is not what an earlier step wrote."""
    return Fault("fault_stale", where, found, expected, "it changed on the disk: run again, it is made anew; where it is not, with verify: full")
