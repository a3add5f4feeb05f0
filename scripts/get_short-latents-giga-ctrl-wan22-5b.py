"""Encode RGB and control videos as latents of Wan2.2 5B, one .pt a sample; exits 0 (all), 2 (bad input, nothing encoded) or 3 (some failed)."""

import sys

import _src  # noqa: F401
from shardwork import command
from vidlatents.producer import arguments, produce

if __name__ == "__main__":
    sys.exit(command.run(lambda args: produce(args, "wan22-5b"), arguments(__doc__, "wan22-5b", "output/latents_short_giga_control_wan22_5b")))
