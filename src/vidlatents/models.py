"""Video autoencoders: the table of kinds, and loading one whose configuration and weights are checked.

The table is read without torch; loading imports it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardwork.digests import digest_value, new_xxh3
from shardwork.errors import DataError
from shardwork.jsonio import Json
from vidlatents.buckets import latent_shape, used_frames

if TYPE_CHECKING:
    import torch

M_MMAP_THRESHOLD = -3
"""Of mallopt. Source: glibc, malloc.h."""
WEIGHTS = ".safetensors"
"""What files of weights end in. Those of any other format do not say how many numbers they hold without being loaded, and may run code then."""
OTHER_WEIGHTS = (".bin", ".ckpt", ".h5", ".msgpack", ".pt", ".pth")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
TINY_VAE_PARAMETERS = 20_000_000
"""Fewer parameters than any released Wan autoencoder has (127 million and 705 million): its weights are no real ones."""

NOTES = {"transformers_version", "dtype", "torch_dtype"}
"""Keys of a configuration that say nothing of the model."""


@dataclass(frozen=True, slots=True)
class ModelKind:
    """What a video autoencoder does to shapes.

    name : str.   z : channels of a latent.   spatial, temporal : pixels and frames of one latent value.   patch : pixels folded into channels first.
    """

    name: str
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
"""Kinds by the names that configuration uses."""

HUB: Mapping[str, str] = {"wan21": "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "wan22-5b": "Wan-AI/Wan2.2-TI2V-5B-Diffusers"}
"""Where each kind's released weights are: ids on huggingface.co, each with vae, text_encoder and tokenizer."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a model is, wherever it lies.

    kind : name.   config : digest of its configuration.   weights : xxh3 of its tensors as loaded.   dtype : of the weights, as torch names it.
    parameters : int.   tiny : whether it is too small to be a released model, so that what it makes is good for tests only.
    """

    kind: str
    config: str
    weights: str
    dtype: str
    parameters: int
    tiny: bool

    def as_json(self) -> dict[str, Json]:
        """Return the fields for a fingerprint, manifest or report."""
        return {name: getattr(self, name) for name in ("kind", "config", "weights", "dtype", "parameters", "tiny")}


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
    identity: Identity


def missing(where: object, found: str, hub: str) -> DataError:
    """Return the error for weights that cannot be had (E_MODEL_MISSING); it says how to get them."""
    hint = f"get them with `hf download {hub} --local-dir FOLDER` and give that folder, or give a hub id such as {hub}"
    return DataError("E_MODEL_MISSING", where, found, "a folder written by save_pretrained, or a hub id", hint)


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
        hint = f"load the model and write it by save_pretrained, which writes safetensors, or get it so: `hf download {hub} --local-dir FOLDER`"
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


def weights_digest(model: Any) -> str:
    """Return the xxh3 of a model's tensors, their names and shapes: the same however the weights are cut into files."""
    import torch

    hasher = new_xxh3()
    for name, tensor in sorted(model.state_dict().items()):
        hasher.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        if flat.numel():
            hasher.update(memoryview(flat.view(torch.uint8).numpy()))
    return str(hasher.hexdigest())


def identify(model: Any, kind: str, config: Mapping[str, object], least: int) -> Identity:
    """Return what a model is.   least : the fewest parameters that a released one has."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Identity(kind, config_digest(config), weights_digest(model), str(model.dtype).removeprefix("torch."), parameters, parameters < least)


def kind_of(config: Mapping[str, Any], where: object) -> ModelKind:
    """Return the kind that a configuration of AutoencoderKLWan describes; one outside the table is named by its figures.

    Raises DataError (E_MODEL_KIND) for another class of model, or figures that do not belong together.
    """
    if config.get("_class_name") != "AutoencoderKLWan":
        raise DataError("E_MODEL_KIND", where, f"a {config.get('_class_name')}", "an AutoencoderKLWan", "give the folder of a Wan autoencoder")
    figures = {"z": config["z_dim"], "spatial": config["scale_factor_spatial"], "temporal": config["scale_factor_temporal"], "patch": config["patch_size"] or 1}
    for name in ("latents_mean", "latents_std"):
        if len(config[name]) != figures["z"]:
            raise DataError("E_MODEL_KIND", where, f"{len(config[name])} values of {name}", f"z_dim = {figures['z']}", "mend the folder's config.json")
    known = next((kind.name for kind in MODELS.values() if all(getattr(kind, key) == value for key, value in figures.items())), None)
    return ModelKind(known or "wan-z{z}-s{spatial}-t{temporal}-p{patch}".format(**figures), **figures)


def load_vae(where: str | Path, kind: str | None, dtype: torch.dtype, device: torch.device | str, *, local_only: bool = False) -> Vae:
    """Return a video autoencoder from a local folder or a hub id.

    where : a pipeline's folder, its vae folder, or a hub id.   kind : a name of MODELS, or None for whatever the configuration says.
    dtype : float32 but for tests of speed (bfloat16 encoding is known to hurt).   local_only : never ask the hub.
    Raises DataError: E_MODEL_KIND (another kind, seen before the weights are read), E_MODEL_MISSING.
    """
    import diffusers
    import torch

    _return_large_blocks()
    wan: Any = diffusers.AutoencoderKLWan  # its own annotations are incomplete
    hub = HUB.get(kind or "", HUB["wan21"])
    if kind is not None and kind not in MODELS:
        raise DataError("bad_argument", "model", kind, f"one of {', '.join(MODELS)}", "choose one, or none to take what the folder holds")
    path, subfolder = find_part(where, "vae", "config.json", hub)
    if subfolder is None:
        weight_files(Path(path), where, hub)
    given = loaded(lambda: wan.load_config(path, subfolder=subfolder, local_files_only=local_only), where, hub)
    found = kind_of({**_defaults(wan), **given}, where)
    if kind is not None and found != MODELS[kind]:
        raise DataError("E_MODEL_KIND", where, f"{found.name} (z {found.z}, spatial {found.spatial})", kind, f"set the model to {found.name}, or give a {kind}")
    model, report = loaded(
        lambda: wan.from_pretrained(path, subfolder=subfolder, torch_dtype=dtype, local_files_only=local_only, output_loading_info=True, use_safetensors=True),
        where,
        hub,
    )
    if report["missing_keys"]:
        raise missing(where, f"weights without {report['missing_keys'][0]} and {len(report['missing_keys']) - 1} more", hub)
    model = model.eval().requires_grad_(False).to(device)
    mean, std = (torch.tensor(model.config[name], dtype=torch.float32, device=device).view(-1, 1, 1, 1) for name in ("latents_mean", "latents_std"))
    return Vae(model, found, dtype, torch.device(device), mean, std, identify(model, found.name, dict(model.config), TINY_VAE_PARAMETERS))


@cache
def _return_large_blocks() -> None:
    """Have the C library (glibc) give tensors of 8 MiB or more back to the system when they are freed.

    Left alone it raises that bound to 32 MiB by itself and keeps the room of smaller ones, cut up: 640 MiB were taken where 250 were in use.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(M_MMAP_THRESHOLD, 8 << 20)


def _defaults(model: Any) -> dict[str, Any]:
    """Return the defaults of a model's configuration: older folders leave newer keys out."""
    import inspect

    return {name: one.default for name, one in inspect.signature(model.__init__).parameters.items() if one.default is not inspect.Parameter.empty}
