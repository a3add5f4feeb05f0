"""Buckets: how many frames of which size a sample has, what of them a layout encodes, and what the public producer's rules make of a video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vidlatents.codes import SampleRefused

WINDOW_FRAMES = 33
"""Frames of a section: (9 - 1) * 4 + 1, which give 9 latent frames. Source: latents spec, "Latents"."""
LAYOUTS = ("sections", "whole")
FRAME_BUCKETS = (21, 41, 61, 81, 101, 121, 141, 161, 181, 193, 221, 241, 261, 281, 301, 321, 341, 361, 381, 401, 421, 441, 461, 481, 501)
"""Frame counts of the public producer."""
TRAINER_FRAMES = 121
"""The public trainer skips a file whose name states fewer frames, without a word."""
LARGEST = 1 << 20
"""No frame count, height or width of a bucket is above it; the name of a file stays below 255 bytes."""

Size = tuple[int, int]
"""(height, width) in pixels."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a layout makes of T frames. sections : windows encoded (1 for `whole`).   used, dropped : frames, together T.   latent_frames : of one section."""

    sections: int
    used: int
    dropped: int
    latent_frames: int


def check_frames(num_frame: int, layout: str, temporal: int, where: object, uttid: str = "") -> None:
    """Raise SampleRefused unless a layout can encode so many frames: E_FRAMES_4N1 (`whole`), E_WINDOW (`sections`).

    temporal : frames of one latent frame after the first, 4.
    """
    if layout == "whole" and (num_frame - 1) % temporal:
        nearest = (num_frame - 1) // temporal * temporal + 1
        raise SampleRefused("E_FRAMES_4N1", where, f"{num_frame} frames", f"{temporal}n+1 of them, such as {nearest}", uttid=uttid)
    if layout == "sections" and num_frame < WINDOW_FRAMES:
        raise SampleRefused("E_WINDOW", where, f"{num_frame} frames", f"at least {WINDOW_FRAMES}", uttid=uttid)


def check_multiple(height: int, width: int, spatial: int, where: object, uttid: str = "") -> None:
    """Raise SampleRefused (E_MULTIPLE) unless height and width are multiples of the model's spatial factor: the model would crop, or fail obscurely."""
    if height % spatial or width % spatial:
        raise SampleRefused("E_MULTIPLE", where, f"{height}x{width} (height x width)", f"multiples of {spatial}", uttid=uttid)


def used_frames(num_frame: int, layout: str, temporal: int) -> Used:
    """Return what a layout encodes of so many frames. Raises SampleRefused as `check_frames` does."""
    check_frames(num_frame, layout, temporal, f"{num_frame} frames")
    if layout == "whole":
        return Used(1, num_frame, 0, (num_frame - 1) // temporal + 1)
    sections = num_frame // WINDOW_FRAMES
    used = sections * WINDOW_FRAMES
    return Used(sections, used, num_frame - used, (WINDOW_FRAMES - 1) // temporal + 1)


def frame_bucket(frames: int, buckets: Sequence[int] = FRAME_BUCKETS) -> int | None:
    """Return the largest frame bucket that so many frames fill, or None for fewer than the smallest has."""
    return max((bucket for bucket in buckets if bucket <= frames), default=None)


def own_frames(frames: int, layout: str, temporal: int, buckets: Sequence[int] = FRAME_BUCKETS) -> int | None:
    """Return how many frames a sample of this pipeline's own videos takes; None where the layout can encode nothing.

    `sections`: the largest frame bucket of at least one window, or one window where none fits.   `whole`: the largest 4k+1.   Source: defaults, "Latents".
    """
    if layout == "whole":
        return (frames - 1) // temporal * temporal + 1 if frames > 0 else None
    if frames < WINDOW_FRAMES:
        return None
    return frame_bucket(frames, [bucket for bucket in buckets if bucket >= WINDOW_FRAMES]) or WINDOW_FRAMES


def own_layout(frames: int) -> str:
    """Return the layout that a video of this pipeline's own belongs to: `sections` from one window on, else `whole`. Source: defaults, "Latents"."""
    return "sections" if frames >= WINDOW_FRAMES else "whole"


def nearest_size(height: int, width: int, sizes: Sequence[Size]) -> Size:
    """Return the allowed size whose shape is nearest: the least |h W - w H|, the last of equal ones as the public producer takes it."""
    return min(reversed(sizes), key=lambda size: abs(height * size[1] - width * size[0]))


def covered_part(height: int, width: int, size: Size) -> tuple[int, int, int, int]:
    """Return the centred part of a frame that has the shape of `size`: (top, bottom, left, right), ends exclusive, at least one pixel each way.

    Exact whole numbers. The public producer takes the same part through a float quotient, and so loses one row in 4 % of the cases where nothing is to be cut.
    """
    high, wide = size
    if height * wide >= high * width:
        kept = max(1, width * high // wide)
        top = (height - kept) // 2
        return top, top + kept, 0, width
    kept = max(1, height * wide // high)
    left = (width - kept) // 2
    return 0, height, left, left + kept


def native_part(height: int, width: int, spatial: int) -> tuple[int, int, int, int] | None:
    """Return the largest centred part of a frame that the model takes as it is: (x0, x1, y0, y1), ends exclusive. None for a frame that is too small."""
    high, wide = height // spatial * spatial, width // spatial * spatial
    if not (high and wide):
        return None
    left, top = (width - wide) // 2, (height - high) // 2
    return left, left + wide, top, top + high


def latent_shape(used: Used, layout: str, z: int, spatial: int, size: Size) -> tuple[int, ...]:
    """Return the shape of a latent: (S, z, 9, H/s, W/s) for `sections`, (z, 1+(T-1)/4, H/s, W/s) for `whole`."""
    one = (z, used.latent_frames, size[0] // spatial, size[1] // spatial)
    return (used.sections, *one) if layout == "sections" else one
