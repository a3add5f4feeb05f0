"""Write a tiny autoencoder, text encoder and tokenizer of random weights: what they make is good for tests and demos only."""

import sys
from pathlib import Path

import _src  # noqa: F401
from shardwork import command
from vidlatents.models import MODELS
from vidlatents.tiny import make_tiny

arguments = command.parser(__doc__)
arguments.add_argument("--model", choices=tuple(MODELS), required=True, help="kind of the autoencoder")
arguments.add_argument("--out", type=Path, required=True, help="the folder, replaced if it is there")
arguments.add_argument("--seed", type=command.whole(0), default=0, help="of the weights (default: 0)")


def main(args) -> int:
    make_tiny(args.model, args.out, args.seed)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
