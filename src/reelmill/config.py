"""The typed configuration: every key, its default and its meaning. config/README.md and the JSON Schema are made from it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from reelmill.codes import E_CONFIG_VALUE
from reelmill.problems import config_error, retype_command_line
from reelmill.yamlread import merge, read_config_file
from shardwork.errors import DataError
from shardwork.ids import ID_PATTERN

Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f{}]+$", json_schema_extra={"patternErrorMessage": "text on one line without braces"})]
"""Text on one line, not empty, without braces: what can stand in a path, a command line or a Snakemake pattern."""

MOST_CLIPS = 1_000_000
"""Clips that a split may have: their numbers are below this."""
CODECS = "auto, rle, isal:0 to isal:3, zlib-ng:1 to zlib-ng:9, libdeflate:1 to libdeflate:12, zlib:0 to zlib:9"
CODEC_PATTERN = r"^(auto|rle|isal:[0-3]|zlib-ng:[1-9]|libdeflate:([1-9]|1[0-2])|zlib:[0-9])$"

LICENSES_PATTERN = r"^([A-Za-z0-9.+-]+( [A-Za-z0-9.+-]+)*)?$"
LICENSES_TEXT = "SPDX ids such as CC-BY-4.0 with single blanks between"

SIZES_PATTERN = r"^([1-9][0-9]{0,5}x[1-9][0-9]{0,5}( [1-9][0-9]{0,5}x[1-9][0-9]{0,5})*)?$"
SIZES_TEXT = "heights and widths such as 480x1920 with single blanks between"

MODEL_PATTERN = r"^(wan21|wan22-5b|wan-z[1-9][0-9]{0,3}-s[1-9][0-9]{0,2}-t[124]-p[1-9][0-9]?)$"
MODEL_TEXT = "wan21, wan22-5b, or figures such as wan-z12-s8-t4-p1"

WORKFLOW_KEYS = ("table", "work_shards", "workers", "controls", "release")
"""Keys of a section that say how a stage runs or what is told of its files; all others enter the fingerprint of the files."""


class _Section(BaseModel):
    """One level of keys: strict types, no other keys, no NaN, and no change after reading."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class RedoConfig(_Section):
    """Stages to compute again."""

    events: int = Field(0, ge=0)
    """Raise this number to compute all event files again."""
    assets: int = Field(0, ge=0)
    """Raise this number to normalise and voxelise all assets again."""
    clips: int = Field(0, ge=0)
    """Raise this number to plan, render and composite all clips again."""
    latents: int = Field(0, ge=0)
    """Raise this number to plan and encode all latents again."""


class ScalesConfig(_Section):
    """Subsets of a release, drawn by a hash of the id: a video's place in them never depends on other videos."""

    medium: float = Field(0.3, ge=0, le=1)
    """Share of the eligible videos that is drawn for Medium."""
    small: float = Field(0.1, ge=0, le=1)
    """Share of the eligible videos that is drawn for Small; at most that of Medium, of which Small is a part."""
    require: str = Field(
        "event_friendly not_dark_first_frame",
        pattern=r"^([a-z_]+( [a-z_]+)*)?$",
        json_schema_extra={"patternErrorMessage": "words of a-z and _ with single blanks between"},
    )
    """What makes a video eligible: event_friendly, dark_first_frame or flags of the manifests, with not_ before what must not hold; empty
    takes every video."""


class ReleaseConfig(_Section):
    """What a release says of its videos, and how it is packed. Nothing here changes an event file."""

    title: Line = "Event voxels"
    """What the dataset is called."""
    version: Line = "1.0"
    """Version of the dataset, in quotes."""
    rights: Line = "Not stated by whoever made this dataset: ask them before you pass it on."
    """Who holds which rights in videos, annotations and dataset, for metadata/LICENSE_NOTES.md."""
    short_below_seconds: float = Field(60.0, ge=0)
    """Videos shorter than this are in the duration bucket short."""
    long_from_seconds: float = Field(150.0, ge=0)
    """Videos of at least this length are in the bucket long, those between in medium."""
    keywords: str = Field(
        "run jump throw catch kick hit swing spin flip dance skate ski surf swim dive row ride climb box wrestle fence lift bounce serve shoot",
        pattern="^[a-z]+( [a-z]+)*$",
        json_schema_extra={"patternErrorMessage": "words of the letters a to z with single blanks between"},
    )
    """Words, in their base form, of which one must stand in a caption, inflected or not, to make a video event_friendly."""
    dark_below: float = Field(0.4, ge=0, le=1)
    """A first frame whose mean gray, 0 to 1, is below this is dark."""
    scales: ScalesConfig = ScalesConfig()
    """Subsets that are drawn from the release."""
    members_per_shard: int = Field(15, ge=1, le=100000)
    """Videos in each tar of the release."""

    def settings(self) -> dict[str, Any]:
        """Return the keys as write_event_manifest takes them, by name."""
        return {
            **self.model_dump(exclude={"members_per_shard", "scales"}),
            "medium_share": self.scales.medium,
            "small_share": self.scales.small,
            "require": self.scales.require,
        }


class EventsConfig(_Section):
    """Raw videos to event voxels."""

    table: Line
    """The table of videos (CSV), made once by scripts/make_video_table.py; relative to the folder that Snakemake runs in."""
    work_shards: int = Field(20, ge=1, le=9999)
    """Jobs that the videos are dealt out to by their ids: a fixed number, never computed from the table's length, so that an added video reruns
    one job; choose it so that a job lasts 10 to 60 minutes."""
    workers: int = Field(1, ge=1)
    """Processes that each job starts; the bytes do not depend on it."""
    num_bins: Literal[5] = 5
    """Bins of a voxel; the format fixes it to 5."""
    frames_per_bin: int = Field(1, ge=1, le=1000)
    """Frame steps that are summed in one bin."""
    interpolate_bins: bool = False
    """Share each frame step between its two nearest bins instead of counting it in one; without effect when frames_per_bin is 1."""
    intensity: Literal["power", "linlog", "linear"] = "power"
    """Brightness that events are made from: ln(eps + gray^gamma), v2e's linear-then-logarithmic curve, or plain gray."""
    gamma: float = Field(2.2, ge=0.01, le=100)
    """Exponent that undoes the video's gamma before the logarithm, used by intensity power."""
    eps: float = Field(0.001, ge=1e-9, le=1)
    """Added before the logarithm so that black is finite, used by intensity power."""
    threshold_pos: float = Field(0.2, ge=0.001, le=10)
    """Rise in brightness that makes one positive event."""
    threshold_neg: float = Field(0.2, ge=0.001, le=10)
    """Fall in brightness that makes one negative event."""
    reference: Literal["carried", "adjacent"] = "carried"
    """Carry what is left below the threshold through the whole video, or compare neighbouring frames only."""
    gap_policy: Literal["strict", "prefix", "skip"] = "strict"
    """A video that does not decode in full: set it aside, keep the frames before the gap, or bridge the gap; never without a record."""
    rotation: Literal["display", "stored"] = "display"
    """Frames the way a player shows them, or as they are stored."""
    allow_empty: bool = False
    """Write a file without voxels for a video of one frame instead of setting it aside."""
    codec: str = Field("auto", pattern=CODEC_PATTERN, json_schema_extra={"patternErrorMessage": f"text, {CODECS}"})
    """Compression of the event files, gzip to any reader: rle is made for events, auto is it or zlib-ng:4, the rest are libraries and levels."""
    max_file_gib: float = Field(0.0, ge=0)
    """Set aside a video whose event file would be larger than this many GiB; 0 sets no limit."""
    controls: bool = False
    """Also render each video's events as a lossless control video, one picture for every frame, in `<results>/<run>/controls/events/`; needs
    frames_per_bin 1 and interpolate_bins false."""
    release: ReleaseConfig = ReleaseConfig()
    """What is released of the event files, and how it is described; left out, these defaults hold."""

    def settings(self) -> dict[str, Any]:
        """Return the keys that decide a file's bytes, by name: what the fingerprint holds and the step takes."""
        return self.model_dump(exclude=set(WORKFLOW_KEYS))


class FilterConfig(_Section):
    """Which assets of the table are used at all; the others are left out before anything starts; the log of write_asset_audit counts them."""

    licenses: str = Field("", pattern=LICENSES_PATTERN, json_schema_extra={"patternErrorMessage": LICENSES_TEXT})
    """Use only assets under these licences; empty takes every one."""
    min_aesthetic: float = Field(0.0, ge=0, le=10)
    """Use only assets whose score `aesthetic` is at least this, such as 5.5 for Objaverse-XL; 0 takes every one, also those without a score."""

    def settings(self) -> dict[str, Any]:
        """Return the keys as the steps take them, by name."""
        return self.model_dump()


class AssetsConfig(_Section):
    """3D assets, normalised as TRELLIS does it and voxelised."""

    table: Line
    """The table of assets (CSV), made once by scripts/make_asset_table.py; relative to the folder that Snakemake runs in."""
    work_shards: int = Field(20, ge=1, le=9999)
    """Jobs that the assets are dealt out to by their ids: a fixed number; choose it so that a job lasts 10 to 60 minutes."""
    workers: int = Field(1, ge=1)
    """Processes that each job starts; the bytes do not depend on it."""
    max_quarantined: int | None = Field(None, ge=0)
    """Assets that may be set aside before the run fails; left out, the run's own `max_quarantined` holds."""
    max_triangles: int = Field(2_000_000, ge=1, le=100_000_000)
    """Set aside an asset with more triangles than this."""
    transparent: Literal["refuse", "opaque"] = "refuse"
    """Materials that are not opaque: set the asset aside, or make them opaque."""
    untextured: Literal["refuse", "keep"] = "refuse"
    """Assets without any colour of their own: set them aside, or keep them grey."""
    filter: FilterConfig = FilterConfig()
    """Which assets of the table are used at all."""
    release_licenses: str = Field(
        "CC0-1.0 CC-BY-4.0 CC-BY-3.0 Apache-2.0 MIT BSD-3-Clause", pattern=LICENSES_PATTERN, json_schema_extra={"patternErrorMessage": LICENSES_TEXT}
    )
    """Licences under which an asset, and what is rendered of it, may be released; any other is marked in the table of licences and refused by a release."""

    def settings(self) -> dict[str, Any]:
        """Return the keys that decide a normalised mesh's bytes or its verdict, by name."""
        return self.model_dump(include={"max_triangles", "transparent", "untextured"})


class PolyhavenConfig(_Section):
    """Backgrounds from panoramas of Poly Haven (CC0), or any others that are twice as wide as high."""

    pool: Line = "data/bg_pools_polyhaven"
    """Folder of the pool. It is frozen when it is complete: with other settings or panoramas it refuses, and a new folder must be named."""
    table: Line | None = None
    """The table of panoramas on disk, made by scripts/make_panorama_table.py; left out, the pool must be there (scripts/prepare_polyhaven.py makes it)."""
    workers: int = Field(1, ge=1)
    """Processes that make views; the bytes do not depend on it."""
    limit: int = Field(0, ge=0)
    """Take this many panoramas, in the order of a hash; 0 takes all."""
    views: int = Field(4, ge=1, le=36)
    """Views of each panorama, evenly spaced around it."""
    width: int = Field(2048, ge=512, le=16384)
    """Width of a view in pixels."""
    height: int = Field(1024, ge=256, le=16384)
    """Height of a view in pixels."""
    quality: int = Field(95, ge=1, le=100)
    """JPEG quality of a view."""
    eval_fraction: float = Field(0.1, ge=0, le=1)
    """Share of the panoramas that goes to eval, by a hash of their names; the others go to train."""
    salt: Line = "reelmill-bg-v1"
    """Enters the hashes that order the panoramas and split them."""

    def settings(self) -> dict[str, Any]:
        """Return the keys that decide a pool, by name."""
        return self.model_dump(exclude={"pool", "table", "workers"})


class Sa1bConfig(_Section):
    """Backgrounds from photos on disk: SA-1B (for research only), or your own."""

    pool: Line = "data/bg_pools_sa1b"
    """Folder of the pool, frozen when it is complete; the photos stay where they are."""
    table: Line
    """The table of photos, made by scripts/make_photo_table.py."""
    workers: int = Field(1, ge=1)
    """Processes that look at the photos."""
    eval_fraction: float = Field(0.1, ge=0, le=1)
    """Share of the photos that goes to eval, by a hash of their ids; the others go to train."""
    salt: Line = "reelmill-bg-v1"
    """Enters the hash that splits the photos."""
    max_pixels: int = Field(100_000_000, ge=1, le=1_000_000_000)
    """Set aside a photo with more pixels than this."""
    min_width: int = Field(512, ge=1, le=32766)
    """Set aside a narrower photo: a frame sees about a fifth of its width."""
    min_height: int = Field(256, ge=1, le=32766)
    """Set aside a lower photo."""
    max_aspect: float = Field(2.5, ge=1, le=4)
    """Set aside a photo wider than this many times its height: it seldom covers all frames."""
    min_aspect: float = Field(0.333, ge=0.01, le=1)
    """Set aside a photo narrower than this many times its height."""

    def settings(self) -> dict[str, Any]:
        """Return the keys that decide a pool, by name."""
        return self.model_dump(exclude={"pool", "table", "workers"})


class BackgroundsConfig(_Section):
    """Pools of backgrounds for rendered clips."""

    polyhaven: PolyhavenConfig | None = None
    """Panoramas; leave the section out if there are none."""
    sa1b: Sa1bConfig | None = None
    """Photos; leave the section out if there are none."""


class RenderConfig(_Section):
    """How clips are rendered. What a machine renders with changes no other key: device, threads and limits make no clip again."""

    samples: int = Field(64, ge=1, le=65_536)
    """Most samples of a pixel's colours; masks and depth need none."""
    adaptive_threshold: float = Field(0.02, ge=0, le=1)
    """Noise at which a pixel gets no further samples; 0 gives every pixel all of them."""
    bounces: int = Field(4, ge=0, le=64)
    """How often light is followed from surface to surface."""
    denoise: bool = True
    """Denoise the colours."""
    device: Literal["cpu", "gpu", "auto"] = "cpu"
    """What renders colours: cpu, gpu (asked of the cluster; an error where there is none) or auto (a GPU if there is one)."""
    threads: int = Field(2, ge=1, le=1024)
    """Threads of a job, which runs one Blender; the bytes do not depend on it."""
    clip_seconds: float = Field(1800.0, ge=1, le=1_000_000)
    """A clip that takes longer is ended and tried once more; the second time it is set aside."""
    clips_per_blender: int = Field(50, ge=1, le=1_000_000)
    """After so many clips a Blender is replaced, as a guard against what it leaves in memory."""

    def settings(self) -> dict[str, Any]:
        """Return the keys that decide a clip's pixels, by name."""
        return self.model_dump(include={"samples", "adaptive_threshold", "bounces", "denoise"})

    def host(self) -> dict[str, Any]:
        """Return the keys that only say how a machine renders, by name; the threads are the job's."""
        return self.model_dump(include={"device", "clip_seconds", "clips_per_blender"})


class ExportConfig(_Section):
    """The training export of the finished clips, in `<results>/<run>/export/<split>/`. Nothing here changes a clip."""

    clips_per_shard: int = Field(100, ge=1, le=100_000)
    """Clips in each tar but the last."""
    releasable_only: bool = False
    """Leave out clips that may not be released: backgrounds for research only, assets or backgrounds under a licence that is not in assets.release_licenses."""
    psnr: Literal["warn", "fail"] = "warn"
    """A frame whose JPEG is below 40 dB against its PNG: say so, or fail the run."""

    def settings(self) -> dict[str, Any]:
        """Return the keys as export_clips takes them, by name."""
        return self.model_dump()


class ClipsConfig(_Section):
    """Clips of one split: planned from the run's finished assets and one pool of backgrounds, rendered, composited and validated."""

    split: Literal["train", "eval"]
    """Which assets and backgrounds are taken; objects and backgrounds never cross splits."""
    count: int = Field(ge=1, le=MOST_CLIPS)
    """How many clips; each has the seed of its own number, so that more clips change none of those before. Seeds of eval are below 1,000,000."""
    first: int = Field(0, ge=0, lt=MOST_CLIPS)
    """Number of the first clip; their ids are that number in 8 digits and on."""
    clips_per_shard: int = Field(25, ge=1, le=1000)
    """Clips in a row that one job works on; choose it so that a job that renders lasts 10 to 60 minutes."""
    workers: int = Field(1, ge=1)
    """Processes that each job starts; the bytes do not depend on it."""
    pool: Literal["polyhaven", "sa1b"] = "polyhaven"
    """Which pool of section backgrounds the clips stand before."""
    max_quarantined: int | None = Field(None, ge=0)
    """Clips that may be given up before the run fails; left out, the run's own `max_quarantined` holds."""
    frames: int = Field(32, ge=2, le=1000)
    """Frames of a clip; the format knows only 32, others are for tests."""
    size: int = Field(512, ge=16, le=4096)
    """Width and height of a frame in pixels; the format knows only 512, others are for tests."""
    max_attempts: int = Field(50, ge=1, le=10_000)
    """A clip is given up after so many attempts that fail the checks of visibility and cover."""
    planned_visible_px: int = Field(528, ge=524, le=512 * 512)
    """Pixels of 512x512 that a plan shows of every object in every frame: the format guarantees 524 of the render, the rest is a margin."""
    planned_visible_frac: float = Field(0.102, ge=0.1, le=1)
    """Part of its own silhouette that a plan shows of every object in every frame: the format guarantees 0.1 of the render."""
    sun_strength_min: float = Field(2.0, ge=0, le=1000)
    """Least strength of the sun that a clip draws."""
    sun_strength_max: float = Field(4.0, ge=0, le=1000)
    """Greatest strength of the sun that a clip draws."""
    ambient_strength_min: float = Field(0.2, ge=0, le=1000)
    """Least strength of the even light from all sides that a clip draws."""
    ambient_strength_max: float = Field(0.5, ge=0, le=1000)
    """Greatest strength of the even light that a clip draws."""
    sun_angle_deg: float = Field(2.0, ge=0, le=180)
    """How wide the sun is, in degrees: the softness of shadows."""
    render: RenderConfig = RenderConfig()
    """How clips are rendered; left out, these defaults hold."""
    controls: bool = False
    """Also render each clip's depth and masks as lossless control videos, in `<results>/<run>/controls/clips/`."""
    fps: int = Field(16, ge=1, le=1000)
    """Frames a second that control videos state: a clip has no rate of its own."""
    export: ExportConfig = ExportConfig()
    """How finished clips are exported for training; left out, these defaults hold."""

    @property
    def any_size(self) -> bool:
        """Return whether clips have another size than the format knows, as tests have."""
        return (self.frames, self.size) != (32, 512)

    def settings(self) -> dict[str, Any]:
        """Return the keys that decide a plan, by name."""
        others = {"split", "count", "first", "clips_per_shard", "workers", "pool", "max_quarantined", "size", "render", "controls", "fps", "export"}
        return {"width": self.size, "height": self.size, **self.model_dump(exclude=others)}


class LatentsConfig(_Section):
    """Latents and text embeddings of RGB and control videos: of this run's own events and clips, and of a user's records.

    One folder for each layout, `<results>/<run>/latents/<model>-<layout>/`.
    """

    model: str = Field("wan21", pattern=MODEL_PATTERN, json_schema_extra={"patternErrorMessage": MODEL_TEXT})
    """Kind of the autoencoder: wan21, wan22-5b, or any other AutoencoderKLWan by the figures of its config.json, `wan-z12-s8-t4-p1` (z_dim,
    scale_factor_spatial, scale_factor_temporal, patch_size or 1); such a one needs `weights`."""
    weights: Line | None = None
    """The autoencoder: a local folder that save_pretrained wrote, a hub id, or `tiny` for random weights made on the spot, good for tests only; left out,
    the released ones of its kind on the hub. A hub id may name its commit behind an @; without one the run keeps the commit that it first finds."""
    text_encoder: Line | None = None
    """The text encoder and its tokenizer, named likewise; left out, those of `weights`."""
    events: bool = False
    """Encode the run's own videos with their event controls: in windows from 33 frames on, else whole; needs events.controls."""
    clips: bool = False
    """Encode the run's own clips with their controls, whole, the first 29 frames; needs clips.controls."""
    records: Line | None = None
    """A user's own pairs: a JSONL file with one record a line; relative to the folder that Snakemake runs in."""
    videos: Line | None = None
    """Folder that the paths of the records' videos count from; left out, `videos` beside the records."""
    control_videos: Line | None = None
    """Folder that the paths of their control videos count from; left out, `control_videos` beside the records."""
    layout: Literal["sections", "whole"] = "sections"
    """How the records are encoded: windows of 33 frames, or the whole of 4n+1."""
    missing_prompt: Literal["error", "empty"] = "error"
    """A sample without a prompt: set it aside, or encode the empty prompt."""
    start: Literal["first", "drawn"] = "first"
    """Where a record has more frames than its bucket: take the first, or draw by seed and uttid where to begin."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Of what is drawn: the noise of `how: sample`, and starts."""
    how: Literal["sample", "mode"] = "sample"
    """A value drawn from the autoencoder's distribution, seeded for each sample, or its mode."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the autoencoder's weights; the others are known to hurt."""
    text_dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Of the text encoder's weights."""
    sizes: str = Field("480x1920", pattern=SIZES_PATTERN, min_length=1, json_schema_extra={"patternErrorMessage": SIZES_TEXT})
    """Heights and widths that a record of the full form may get: the one of the nearest shape is taken."""
    own_sizes: str = Field("", pattern=SIZES_PATTERN, json_schema_extra={"patternErrorMessage": SIZES_TEXT})
    """The same for the run's own videos and clips; empty takes each in its own size, cut to multiples of the model's factor."""
    frame_buckets: str = Field(
        "21 41 61 81 101 121 141 161 181 193 221 241 261 281 301 321 341 361 381 401 421 441 461 481 501",
        pattern="^[1-9][0-9]{0,5}( [1-9][0-9]{0,5})*$",
        json_schema_extra={"patternErrorMessage": "whole numbers with single blanks between"},
    )
    """Numbers of frames that a record of the full form, or a video of the run's own, may get: the largest that it fills."""
    trainer_frames: int = Field(121, ge=0)
    """Samples of fewer frames are reported as those that the public trainer skips."""
    trainer_sizes: str = Field("", pattern=SIZES_PATTERN, json_schema_extra={"patternErrorMessage": SIZES_TEXT})
    """Heights and widths that the trainer reads, for that report; empty stands for any."""
    memory_gib: float = Field(0.0, ge=0)
    """Cut pictures into tiles that encode within this memory, which changes values near their edges; 0 encodes whole pictures."""
    fallback_gib: float = Field(0.0, ge=0)
    """Where memory does not suffice for a sample, try it once more with tiles for this; 0 sets it aside."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """What models run on: cpu, gpu (asked of the cluster; an error where there is none) or auto (a GPU if there is one, none asked of a cluster). On this
    machine one job at a time has the GPU."""
    threads: int = Field(1, ge=1, le=1024)
    """Threads of a process on the processor; jobs run side by side as far as cores and memory reach."""
    work_shards: int = Field(20, ge=1, le=9999)
    """Work shards that the samples of a folder are dealt out to by their uttids, each a job of three steps: a fixed number; choose it so that a job that
    encodes lasts 10 to 60 minutes. `events` deals each video out in both folders, since its frames are not known yet: 1,000 are then up to 6,000 jobs."""
    workers: int = Field(1, ge=1)
    """Processes that plan and verify in a job; the one that encodes loads the autoencoder once."""
    level: Literal["size", "zip", "manifest", "crc", "full", "sha256"] = "sha256"
    """How far finished files are verified; each level includes the ones before it."""
    max_quarantined: int | None = Field(None, ge=0)
    """Samples that may be set aside in each folder before the run fails; left out, the run's own `max_quarantined` holds."""

    def for_set(self) -> dict[str, Any]:
        """Return the keys that decide what is planned, by name."""
        names = {"model", "start", "missing_prompt", "sizes", "own_sizes", "frame_buckets"}
        return {**self.model_dump(include=names), "seed": self.seed if self.start == "drawn" else 0}

    def for_report(self) -> dict[str, Any]:
        """Return the keys that decide what is reported alone, by name."""
        return self.model_dump(include={"trainer_frames", "trainer_sizes"})

    def for_encoding(self) -> dict[str, Any]:
        """Return the keys that decide a file's bytes, by name."""
        names = {"model", "how", "dtype", "text_dtype", "memory_gib", "fallback_gib"}
        return {**self.model_dump(include=names), "seed": self.seed if self.how == "sample" else 0}

    def folders(self) -> tuple[Path, Path]:
        """Return the folders that the records' paths count from."""
        beside = Path(self.records or "").parent
        return Path(self.videos or beside / "videos"), Path(self.control_videos or beside / "control_videos")


class Config(_Section):
    """One run: where it goes, how strict it is, and a section for each branch. A branch whose section is left out is off."""

    run: str = Field(pattern=f"^{ID_PATTERN.pattern}$", json_schema_extra={"patternErrorMessage": "text of 1 to 100 characters A-Z a-z 0-9 _ -"})
    """Name of the run; everything goes to `<results>/<run>/`."""
    results: Line = "results"
    """Folder of all results; relative to the folder that Snakemake runs in."""
    python: Line = "python"
    """Python that runs the steps, as a name on PATH or a path; leave it out when steps run in conda environments (--sdm conda)."""
    max_quarantined: int = Field(0, ge=0)
    """The run fails at its very end if more items than this were set aside with a reason."""
    verify: Literal["fast", "full"] = "fast"
    """How finished files are looked at before they are skipped: by size and time, or by reading them whole."""
    prune: bool = False
    """Delete the files of items that the table no longer has; false leaves them set aside in quarantine/."""
    redo: RedoConfig = RedoConfig()
    """Stages to compute again."""
    events: EventsConfig | None = None
    """Raw videos to event voxels; leave the section out to switch this branch off."""
    assets: AssetsConfig | None = None
    """3D assets, normalised and voxelised; leave the section out to switch this branch off."""
    backgrounds: BackgroundsConfig | None = None
    """Pools of backgrounds; leave the section out to switch this branch off."""
    clips: ClipsConfig | None = None
    """Clips of these assets before these backgrounds; leave the section out to switch this branch off."""
    latents: LatentsConfig | None = None
    """Latents of videos with their controls; leave the section out to switch this branch off."""

    @field_validator("events", "assets", "backgrounds", "clips", "latents", mode="before")
    @classmethod
    def _refuse_empty(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError("model_type", "an empty section")
        return value

    @property
    def folder(self) -> Path:
        """Return the folder of this run."""
        return Path(self.results, self.run)

    def interpreter(self, conda: bool) -> str:
        """Return the Python that runs the steps.

        conda : whether steps run in conda environments, which bring their own. Raises DataError (E_CONFIG_VALUE) if one is named all the same.
        """
        if conda and self.python != "python":
            hint = "take `python` out of the configuration, or start without --sdm conda"
            raise DataError(E_CONFIG_VALUE, "config: python", f"'{self.python}' together with --sdm conda", "one of the two", hint)
        return self.python


def resolve(config: Mapping[str, Any], configfiles: Sequence[Path | str]) -> Config:
    """Return the checked configuration of a Snakemake run.

    config : Snakemake's merged configuration, --config included.   configfiles : the files it was merged from, in order; each is read again
    strictly, since Snakemake's own reading hides duplicate keys and values that are not what they look like.
    Raises ConfigError (a DataError) that names every problem with key, file and line.
    """
    files = [read_config_file(Path(path)) for path in configfiles]
    try:
        return _agreeing(Config.model_validate(config))
    except ValidationError as error:
        retyped = retype_command_line(error.errors(include_url=False), config, files)
    try:
        return _agreeing(Config.model_validate(retyped))
    except ValidationError as error:
        raise config_error(error.errors(include_url=False), Config, files) from error


def _agreeing(config: Config) -> Config:
    """Return the configuration if its keys go together. Raises DataError (E_CONFIG_VALUE)."""
    events = config.events
    if events and events.controls and (events.frames_per_bin != 1 or events.interpolate_bins):
        found = f"true with frames_per_bin {events.frames_per_bin} and interpolate_bins {str(events.interpolate_bins).lower()}"
        hint = "a control video shows one frame step in each frame: set these two, or controls to false"
        raise DataError(E_CONFIG_VALUE, "config: events.controls", found, "frames_per_bin 1 and interpolate_bins false", hint)
    clips = config.clips
    if clips and not config.assets:
        raise DataError(E_CONFIG_VALUE, "config: clips", "no section assets", "the assets that clips are made of", "add the section assets")
    if clips and not (config.backgrounds and getattr(config.backgrounds, clips.pool)):
        raise DataError(E_CONFIG_VALUE, "config: clips.pool", f"no section backgrounds.{clips.pool}", "the pool that clips stand before", "add the section")
    if clips and clips.first + clips.count > MOST_CLIPS:
        found = f"{clips.count} from {clips.first} on"
        raise DataError(E_CONFIG_VALUE, "config: clips.count", found, f"numbers below {MOST_CLIPS}", "a split has so many: make fewer")
    for name in ("sun_strength", "ambient_strength") if clips else ():
        least, most = getattr(clips, f"{name}_min"), getattr(clips, f"{name}_max")
        if most < least:
            raise DataError(E_CONFIG_VALUE, f"config: clips.{name}_max", f"{most:g}", f"{least:g} or more, which is {name}_min", "set both")
    _latents_agree(config)
    pools = config.backgrounds
    if pools and pools.polyhaven and pools.sa1b:
        one, other = (Path(os.path.normpath(part.pool)) for part in (pools.polyhaven, pools.sa1b))
        if one.is_relative_to(other) or other.is_relative_to(one):
            raise DataError(E_CONFIG_VALUE, "config: backgrounds.sa1b.pool", f"{other}, where the polyhaven pool is", "a folder of its own", "name another")
    return config


def _latents_agree(config: Config) -> None:
    """Raise DataError (E_CONFIG_VALUE) where latents are asked for of what is not there."""
    latents = config.latents
    if not latents:
        return
    for name in ("events", "clips"):
        branch = getattr(config, name)
        if getattr(latents, name) and not (branch and branch.controls):
            found = f"true with {f'{name}.controls false' if branch else f'no section {name}'}"
            hint = f"set {name}.controls to true, or latents.{name} to false"
            raise DataError(E_CONFIG_VALUE, f"config: latents.{name}", found, f"a section {name} with controls: true", hint)
    if not (latents.events or latents.clips or latents.records):
        raise DataError(E_CONFIG_VALUE, "config: latents", "no samples", "events: true, clips: true or a file of records", "set one of them")
    if latents.model not in ("wan21", "wan22-5b") and (not latents.weights or "tiny" in (latents.weights, latents.text_encoder)):
        hint = "name the folder or hub id of its weights, and of a text encoder where that has none"
        raise DataError(E_CONFIG_VALUE, "config: latents.weights", f"{latents.weights or 'none'} for {latents.model}", "weights of its own", hint)
    if (latents.videos or latents.control_videos) and not latents.records:
        raise DataError(E_CONFIG_VALUE, "config: latents.videos", "no records", "the file of records that names them", "set latents.records")


def load(paths: Sequence[Path | str], overrides: Mapping[str, Any] | None = None) -> Config:
    """Return the checked configuration of files, later ones over earlier ones, and of `overrides` over all.

    Raises ConfigError (a DataError) that names every problem with key, file and line.
    """
    merged: dict[str, Any] = {}
    for path in paths:
        merged = merge(merged, read_config_file(Path(path)).values)
    return resolve(merge(merged, overrides or {}), paths)
