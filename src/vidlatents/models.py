"""Video autoencoders: the table of kinds, and loading one whose configuration and weights are checked.

The table is read without torch; loading imports it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardwork.digests import digest_value
from shardwork.errors import DataError
from shardwork.ids import HUB_ID
from shardwork.jsonio import Json
from vidlatents.buckets import latent_shape, used_frames

if TYPE_CHECKING:
    import torch

M_MMAP_THRESHOLD = -3
"""Of mallopt. Source: glibc, malloc.h."""
KIND_NAME = re.compile(r"wan-z([1-9][0-9]{0,3})-s([1-9][0-9]{0,2})-t([124])-p([1-9][0-9]?)")
"""The name of an autoencoder outside the table: its figures."""
LONGEST_STEP = 4
"""AutoencoderKLWan takes frames by fours after the first; one that folds more into a latent frame would make other shapes than it says."""
DEFAULTS: Mapping[str, Any] = {
    "dim_mult": (1, 2, 4, 4),
    "patch_size": None,
    "scale_factor_spatial": 8,
    "scale_factor_temporal": 4,
    "temperal_downsample": (False, True, True),
    "z_dim": 16,
}
"""What AutoencoderKLWan takes where a configuration, as older folders do, leaves a key out. Source: diffusers 0.42.1."""
WEIGHTS = ".safetensors"
"""What files of weights end in. Those of any other format do not say how many numbers they hold without being loaded, and may run code then."""
PARTS = '--include "vae/*" "text_encoder/*" "tokenizer/*"'
"""What is needed of a released pipeline: without it the video model itself is downloaded too, ten times as much."""
OTHER_WEIGHTS = (".bin", ".ckpt", ".h5", ".msgpack", ".pt", ".pth")

NOTES = {"transformers_version", "dtype", "torch_dtype"}
"""Keys of a configuration that say nothing of the model."""


@dataclass(frozen=True, slots=True)
class ModelKind:
    """What a video autoencoder does to shapes.

    name : str, not compared.   z : channels of a latent.   spatial, temporal : pixels and frames of one latent value.
    patch : pixels folded into channels first.
    """

    name: str = field(compare=False)
    z: int
    spatial: int
    temporal: int
    patch: int

    def shape(self, layout: str, frames: int, height: int, width: int) -> tuple[int, ...]:
        """Return the shape of a sample's latent. Raises SampleRefused (E_WINDOW, E_FRAMES_4N1)."""
        return latent_shape(used_frames(frames, layout, self.temporal), layout, self.z, self.spatial, (height, width))


MODELS: Mapping[str, ModelKind] = {
    "wan21": ModelKind("wan21", z=16, spatial=8, temporal=4, patch=1),
    "wan22-5b": ModelKind("wan22-5b", z=48, spatial=16, temporal=4, patch=2),
}
"""Kinds by the names that configuration uses; `kind_named` takes any other by its figures."""

HUB: Mapping[str, str] = {"wan21": "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "wan22-5b": "Wan-AI/Wan2.2-TI2V-5B-Diffusers"}
"""Where each kind's released weights are: ids on huggingface.co, each with vae, text_encoder and tokenizer."""


def hub_of(kind: str) -> str:
    """Return the hub id that is named where weights of a kind are missing."""
    return HUB.get(kind, HUB["wan21"])


def vae_hub_of(kind: str) -> str:
    """Return the hub id of a kind's released autoencoder, "" for a kind outside the table: none was released."""
    return HUB.get(kind, "")


def kind_named(name: str) -> ModelKind:
    """Return the kind that a name stands for: one of MODELS, or the figures of another, wan-z12-s8-t4-p1. Raises DataError (bad_argument)."""
    if (kind := MODELS.get(name)) is not None:
        return kind
    if (figures := KIND_NAME.fullmatch(name)) is None:
        raise DataError("bad_argument", "model", repr(name), f"{', '.join(MODELS)}, or figures such as wan-z12-s8-t4-p1", "correct the name")
    return ModelKind(name, *map(int, figures.groups()))


@dataclass(frozen=True, slots=True)
class Vae:
    """A loaded video autoencoder.

    model : AutoencoderKLWan, in evaluation.   mean, std : (z, 1, 1, 1) float32 on `device`: a latent is (value - mean) / std.   dtype : of its weights.
    """

    model: Any
    kind: ModelKind
    dtype: torch.dtype
    device: torch.device
    mean: torch.Tensor
    std: torch.Tensor


def missing(where: object, found: str, hub: str) -> DataError:
    """Return the error for weights that cannot be had (E_MODEL_MISSING); it says how to get them.   hub : whose download is named, "" for none."""
    hint = (
        f"get them with `{_download(hub)}` and give that folder, or give a hub id such as {hub}" if hub else "correct the name: none were released of its kind"
    )
    return DataError("E_MODEL_MISSING", where, found, "a folder written by save_pretrained, or a hub id", hint)


def _download(hub: str) -> str:
    return f"hf download {hub} {PARTS} --local-dir FOLDER"


def find_part(where: str | Path, part: str, marker: str, hub: str) -> tuple[str, str | None]:
    """Return what from_pretrained takes: (folder or hub id, subfolder or None).

    where : a pipeline's folder, the part's own folder, or a hub id.   part : vae, text_encoder or tokenizer.   marker : a file the part has.
    Raises DataError (E_MODEL_MISSING).
    """
    folder = Path(where)
    if (folder / part / marker).is_file():
        return str(folder / part), None
    if (folder / marker).is_file():
        return str(folder), None
    if folder.exists():
        raise missing(where, f"neither {part}/{marker} nor {marker}", hub)
    if not isinstance(where, str) or not HUB_ID.fullmatch(where):
        raise missing(where, "no such folder", hub)
    return where, part


def weight_files(folder: Path, where: object, hub: str) -> list[Path]:
    """Return the files of weights in a local folder, sorted. Raises DataError (E_MODEL_MISSING) where there is none, or only ones of another format."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    if found := [path for path in files if path.suffix == WEIGHTS]:
        return found
    if other := next((path.name for path in files if path.suffix in OTHER_WEIGHTS), None):
        hint = "load the model and write it by save_pretrained, which writes safetensors" + (f", or get it so: `{_download(hub)}`" if hub else "")
        raise DataError("E_MODEL_MISSING", where, f"{folder.name}/{other}", "weights saved as safetensors", hint)
    raise missing(where, f"no weights in {folder.name}", hub)


def loaded(read: Callable[[], Any], where: object, hub: str) -> Any:
    """Return what `read` loads. Raises DataError (E_MODEL_MISSING) where the weights are not there or not whole; a fault of the machine is let through."""
    from safetensors import SafetensorError

    try:
        return read()
    except (SafetensorError, ValueError) as error:
        raise missing(where, f"weights that cannot be read ({_first_line(error)})", hub) from error
    except OSError as error:
        # the libraries raise a bare OSError for a file that they do not find
        if error.errno is not None and not isinstance(error, FileNotFoundError):
            raise
        raise missing(where, _first_line(error), hub) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _plain(value: object) -> Json:
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def config_digest(config: Mapping[str, object]) -> str:
    """Return a digest of a model's configuration without what libraries note of themselves and of the loading."""
    return digest_value({key: _plain(value) for key, value in config.items() if not key.startswith("_") and key not in NOTES})


def kind_of(config: Mapping[str, Any], where: object) -> ModelKind:
    """Return the kind that a configuration of AutoencoderKLWan describes; one outside the table is named by its figures.

    What the configuration leaves out is as in DEFAULTS.   Raises DataError (E_MODEL_KIND) for another class of model, or figures that do not belong together.
    """
    if config.get("_class_name") != "AutoencoderKLWan":
        raise DataError("E_MODEL_KIND", where, f"a {config.get('_class_name')}", "an AutoencoderKLWan", "give the folder of a Wan autoencoder")
    whole = {**DEFAULTS, **config}
    patch = whole["patch_size"] or 1
    figures = {"z": whole["z_dim"], "spatial": whole["scale_factor_spatial"], "temporal": whole["scale_factor_temporal"], "patch": patch}
    for name in ("latents_mean", "latents_std"):
        held = len(config[name]) if name in config else DEFAULTS["z_dim"]
        if held != figures["z"]:
            raise DataError("E_MODEL_KIND", where, f"{held} values of {name}", f"z_dim = {figures['z']}", "mend the folder's config.json")
    layers = {"spatial": patch * 2 ** (len(whole["dim_mult"]) - 1), "temporal": 2 ** sum(map(bool, whole["temperal_downsample"]))}
    for name, value in layers.items():
        if figures[name] != value:
            raise DataError("E_MODEL_KIND", where, f"scale_factor_{name} = {figures[name]}", f"{value}, as its layers make", "mend the folder's config.json")
    if LONGEST_STEP % figures["temporal"]:
        raise DataError("E_MODEL_KIND", where, f"{figures['temporal']} frames to a latent frame", f"at most {LONGEST_STEP}", "give another autoencoder")
    known = next((kind.name for kind in MODELS.values() if all(getattr(kind, key) == value for key, value in figures.items())), None)
    return ModelKind(known or "wan-z{z}-s{spatial}-t{temporal}-p{patch}".format(**figures), **figures)


def check_kind(config: Mapping[str, Any], kind: str, where: object) -> ModelKind:
    """Return the kind of a name, which a configuration must be of. Raises DataError (E_MODEL_KIND, bad_argument)."""
    wanted, found = kind_named(kind), kind_of(config, where)
    if found != wanted:
        raise DataError("E_MODEL_KIND", where, f"{found.name} (z {found.z}, spatial {found.spatial})", kind, f"set the model to {found.name}, or give a {kind}")
    return wanted


def load_vae(where: str | Path, kind: str, dtype: torch.dtype, device: torch.device | str, *, local_only: bool = False) -> Vae:
    """Return a video autoencoder from a local folder or a hub id.

    where : a pipeline's folder, its vae folder, or a hub id.   kind : its name, as of `kind_named`.
    dtype : float32 but for tests of speed (bfloat16 encoding is known to hurt).   local_only : never ask the hub.
    Raises DataError: E_MODEL_KIND (another kind, seen before the weights are read), E_MODEL_MISSING, bad_argument.
    """
    import diffusers
    import torch

    _return_large_blocks()
    wan: Any = diffusers.AutoencoderKLWan  # its own annotations are incomplete
    hub = vae_hub_of(kind)
    path, subfolder = find_part(where, "vae", "config.json", hub)
    if subfolder is None:
        weight_files(Path(path), where, hub)
    given = loaded(lambda: wan.load_config(path, subfolder=subfolder, local_files_only=local_only), where, hub)
    found = check_kind(given, kind, where)
    model, report = loaded(
        lambda: wan.from_pretrained(path, subfolder=subfolder, torch_dtype=dtype, local_files_only=local_only, output_loading_info=True, use_safetensors=True),
        where,
        hub,
    )
    if report["missing_keys"]:
        raise missing(where, f"weights without {report['missing_keys'][0]} and {len(report['missing_keys']) - 1} more", hub)
    model = model.eval().requires_grad_(False).to(device)
    mean, std = (torch.tensor(model.config[name], dtype=torch.float32, device=device).view(-1, 1, 1, 1) for name in ("latents_mean", "latents_std"))
    return Vae(model, found, dtype, torch.device(device), mean, std)


@cache
def _return_large_blocks() -> None:
    """Have the C library (glibc) give tensors of 8 MiB or more back to the system when they are freed.

    Left alone it raises that bound to 32 MiB by itself and keeps the room of smaller ones, cut up: 640 MiB were taken where 250 were in use.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(M_MMAP_THRESHOLD, 8 << 20)
