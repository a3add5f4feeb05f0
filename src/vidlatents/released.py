"""The configurations of the released autoencoders, for what is counted before a model is at hand. Standard library alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shardwork.errors import DataError
from shardwork.jsonio import Json, read_json
from vidlatents.models import find_part
from vidlatents.stage import TINY

_SHARED: Mapping[str, Json] = {"dim_mult": [1, 2, 4, 4], "num_res_blocks": 2, "temperal_downsample": [False, True, True]}
RELEASED: Mapping[str, Mapping[str, Json]] = {
    "wan21": {**_SHARED, "base_dim": 96, "z_dim": 16},
    "wan22-5b": {
        **_SHARED,
        "base_dim": 160,
        "decoder_base_dim": 256,
        "z_dim": 48,
        "is_residual": True,
        "patch_size": 2,
        "in_channels": 12,
        "out_channels": 12,
        "scale_factor_spatial": 16,
        "scale_factor_temporal": 4,
        "latents_mean": [0.0] * 48,
        "latents_std": [1.0] * 48,
    },
}
"""Kind -> what decides the operations and memory of its released autoencoder; means and deviations, which do not, are filled up.
Source: vae/config.json of Wan-AI/Wan2.1-T2V-1.3B-Diffusers and Wan-AI/Wan2.2-TI2V-5B-Diffusers."""


def config_for(where: str, kind: str) -> tuple[Mapping[str, Json], str] | None:
    """Return the configuration of an autoencoder, and whose it is in words: the named one's where its folder is here, else the released one's of its kind.

    where : a local folder, a hub id, or `tiny`.   kind : its name, as of `models.kind_named`.   None for a kind outside RELEASED whose folder is not here, or
    holds no whole configuration.   No hub is asked.
    """
    if where == TINY and kind in RELEASED:
        from vidlatents.tiny import VAE_CONFIGS

        return VAE_CONFIGS[kind], f"a tiny {kind}"
    try:
        folder, part = find_part(where, "vae", "config.json", where)
        if part is None:
            config = read_json(Path(folder, "config.json"))
            if isinstance(config, dict):
                return {key: value for key, value in config.items() if not key.startswith("_")}, where
    except (DataError, OSError):
        pass  # a missing or damaged model is an error of the step that loads it
    return (RELEASED[kind], f"the released {kind}") if kind in RELEASED else None
