"""encode_latents with a stand-in for the autoencoder, which takes seconds to import: what the contract disturbs is the step, not the model."""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))


from shardwork import command

encode_latents = importlib.import_module("encode_latents")


class Pooled:
    """Means of blocks of pixels, as an autoencoder's moments."""

    def encode(self, pixels):
        from types import SimpleNamespace

        import torch.nn.functional as F

        _, _, frames, height, width = pixels.shape
        means = F.adaptive_avg_pool3d(pixels, (1 + (frames - 1) // 4, height // 8, width // 8))
        return SimpleNamespace(latent_dist=SimpleNamespace(parameters=means.repeat(1, 11, 1, 1, 1)[:, :32]))

    def clear_cache(self):
        """Hold nothing."""


def pooled(model, threads):
    import torch

    from vidlatents.models import MODELS, Vae

    torch.set_num_threads(threads)
    shape = (16, 1, 1, 1)
    return Vae(Pooled(), MODELS["wan21"], torch.float32, torch.device("cpu"), torch.zeros(shape), torch.ones(shape))


if __name__ == "__main__":
    setattr(encode_latents, "check_room", lambda needs: None)  # noqa: B010 - a disk that fills up is to be met while a file is written
    sys.exit(command.run(lambda args: encode_latents.main(args, pooled), encode_latents.arguments))
