"""Writes a SAILfish policy as it is before training, an ONNX file and its card; trains nothing.

    python -m mpquic_training.untrained_sailfish models

What stands in for the trained one until there is one, with the architecture that training gives it: nets/stream.py.
"""

import argparse
from pathlib import Path

import torch

from mpquic_training import export
from mpquic_training.nets.stream import Actor
from mpquic_training.states import SAILFISH

SEED = 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where sailfish.onnx and sailfish.json go")
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    path = arguments.directory / "sailfish.onnx"
    training = "none: python -m mpquic_training.untrained_sailfish models"
    export.write(Actor(), SAILFISH, path, training, SEED)


if __name__ == "__main__":
    main()
