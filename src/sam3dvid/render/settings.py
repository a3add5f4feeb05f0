"""The settings of render_clips: what decides a clip's pixels, and what only says how a machine makes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sam3dvid.codes import AssetRefused
from sam3dvid.settings import check_kinds, meta

DEVICES = ("cpu", "gpu", "auto")


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """What decides a clip's pixels. Raises AssetRefused (bad_asset_setting).

    The defaults are a release's: about 45 dB over the foreground against 1,024 samples. Tests take 4 samples.
    """

    samples: int = field(default=64, metadata=meta("most samples of a pixel"))
    adaptive_threshold: float = field(default=0.02, metadata=meta("noise at which a pixel gets no further samples; 0 gives every pixel all of them"))
    adaptive_min_samples: int = field(default=4, metadata=meta("samples that every pixel gets"))
    bounces: int = field(default=4, metadata=meta("how often light is followed from surface to surface"))
    denoise: bool = field(default=True, metadata=meta("denoise the colours; masks and depth have no noise"))
    png_level: int = field(default=4, metadata=meta("how hard PNG and depth files are compressed, 0 to 9"))

    def __post_init__(self) -> None:
        check_kinds(self)
        for name, low, high in (
            ("samples", 1, 65_536),
            ("adaptive_threshold", 0.0, 1.0),
            ("adaptive_min_samples", 1, 4096),
            ("bounces", 0, 64),
            ("png_level", 0, 9),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise AssetRefused("bad_asset_setting", name, repr(value), f"a number from {low} to {high}")


@dataclass(frozen=True, slots=True)
class RenderHost:
    """How a machine renders. It is no part of a clip's fingerprint. Raises AssetRefused (bad_asset_setting).

    Threads change no pixel. A GPU gives colours that differ by the renderer's noise, which the format allows, so a dataset may be made on both, and a run
    that moves to another machine makes nothing again. Masks and depth must be the same everywhere: they are rendered on the CPU whatever the device.
    """

    device: str = field(default="cpu", metadata=meta("what renders colours: cpu, gpu (an error where there is none) or auto (a GPU if there is one)", DEVICES))
    threads: int = field(default=2, metadata=meta("threads of one Blender"))
    clip_seconds: float = field(default=1800.0, metadata=meta("a clip that takes longer is ended and tried once more; the second time it is refused"))
    clips_per_blender: int = field(default=50, metadata=meta("after so many clips a Blender is replaced, as a guard against what it leaves in memory"))

    def __post_init__(self) -> None:
        check_kinds(self)
        for name, low, high in (("threads", 1, 1024), ("clip_seconds", 1.0, 1e6), ("clips_per_blender", 1, 1_000_000)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise AssetRefused("bad_asset_setting", name, repr(value), f"a number from {low} to {high}")
