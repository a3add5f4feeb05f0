"""A clip as a film: rgb beside everything that is known of it beside depth."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sam3dvid.preview.clip import Clip, Frame, Rgb
from sam3dvid.preview.panels import paint_all, paint_depth
from sam3dvid.preview.survey import Survey
from sam3dvid.preview.window import fit
from shardwork.errors import Fault

STRIP_PX = 24
"""Height of the line of text above the pictures."""
STRIP, BRIGHT, RED = (24, 24, 24), (235, 235, 235), (255, 90, 90)
ENCODERS = {"libx264": {"crf": "16", "preset": "veryfast"}, "mpeg4": {"q:v": "3", "qscale": "3"}}
"""Encoder -> its options, the first that is there is taken."""
BT709 = 1
"""The number of BT.709 in the tables of primaries, curves and matrices."""


def draw_frame(clip: Clip, t: int, frame: Frame, survey: Survey) -> Rgb:
    """Return a frame of the film: a line of text; below it rgb, masks with voxels and axes, depth.

    Returns (H' + 24, 3 W', 3) uint8, H' and W' as `fit` shows a panel, one more row or column where that is odd.
    """
    views = np.concatenate([fit(frame.rgb), paint_all(clip, t, frame, survey), fit(paint_depth(frame, survey))], axis=1)
    height, width = views.shape[:2]
    canvas = Image.new("RGB", (width + width % 2, STRIP_PX + height + height % 2), STRIP)
    off = int(survey.strays[t].sum()) + int(survey.bare[t].sum())
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(15)
    text = f"{clip.split} {clip.clip_id}  frame {t} of {clip.size.frames}"
    draw.text((6, 3), text, BRIGHT, font)
    if off:
        draw.text((6 + font.getlength(text + "  "), 3), f"{off:,} off", RED, font)
    canvas.paste(Image.fromarray(views), (0, STRIP_PX))
    return np.asarray(canvas)


def write_film(path: Path, frames: Iterable[Rgb], fps: int) -> int:
    """Write an MP4 (H.264 if there is an encoder, else MPEG-4 part 2) and return how many frames it has.

    frames : (H, W, 3) uint8 each, even sizes.   One thread, so that the bytes do not depend on the machine's processors.
    Raises Fault (fault_library) where PyAV has neither encoder.
    """
    av, count, stream = _import_av(), 0, None
    encoder = next((name for name in ENCODERS if name in av.codecs_available), None)
    if encoder is None:
        raise Fault("fault_library", "PyAV", f"no encoder {' or '.join(ENCODERS)}", "one of them", "install the wheel of PyAV that the project pins")
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        for picture in frames:
            if stream is None:
                stream = _stream(container, encoder, picture, fps)
            frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG")
            frame.pts, frame.time_base = count, Fraction(1, fps)
            container.mux(stream.encode(frame))
            count += 1
        if stream is not None:
            container.mux(stream.encode(None))
    return count


def _stream(container: Any, encoder: str, picture: Rgb, fps: int) -> Any:
    stream = container.add_stream(encoder, rate=fps, options=ENCODERS[encoder])
    stream.height, stream.width, stream.pix_fmt = picture.shape[0], picture.shape[1], "yuv420p"
    context = stream.codec_context
    context.thread_count = 1
    context.color_primaries = context.color_trc = context.colorspace = context.color_range = BT709
    return stream


def _import_av() -> Any:
    try:
        import av
    except ImportError as error:
        raise Fault("fault_library", "PyAV", str(error), "PyAV, which writes the film", "pip install av, in the version that the project pins") from error
    av.logging.set_level(None)
    return av
