"""Writes GAPS' network at the paper's size with random weights, for benchmarks only: it was never trained, and no scheduler should ask it.

    python -m mpquic_training.paper_size FOLDER

`gaps_paper.onnx` has 6 encoders with an embedding of 512 (the paper's) and 8 heads and a feed-forward layer of 2048
(ours), some 76 MB: more than a policy's file may have by default, so that whoever loads it raises the limits.
"""

import argparse
from pathlib import Path

import torch

from mpquic_training.nets.gaps import PAPER, Actor
from mpquic_training.untrained_gaps import SEED, SOURCE, write

COMMAND = "python -m mpquic_training.paper_size FOLDER"


def build(folder):
    """Writes `gaps_paper.onnx` and `gaps_paper.json` into `folder`, and returns the ONNX file's path."""
    torch.manual_seed(SEED)
    title = "GAPS at the paper's size, random weights, for benchmarks only"
    return write(Actor(PAPER), folder, "gaps_paper", title, SOURCE, COMMAND, SEED)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    build(parser.parse_args(arguments).folder)


if __name__ == "__main__":
    main()
