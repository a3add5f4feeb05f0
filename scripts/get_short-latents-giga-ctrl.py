"""Encode RGB and control videos as latents of Wan2.1, one .pt a sample; exits 0 (all), 2 (bad input, nothing encoded) or 3 (some failed)."""

import sys

import _src  # noqa: F401
from shardwork import command
from vidlatents.producer import arguments, produce

if __name__ == "__main__":
    sys.exit(command.run(lambda args: produce(args, "wan21"), arguments(__doc__, "wan21", "output/latents_short_giga_control")))
