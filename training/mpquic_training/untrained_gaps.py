"""Writes a GAPS policy as it is before training, an ONNX file and its card: near-zero changes whatever the state; trains nothing.

    python -m mpquic_training.untrained_gaps models

What stands in for the trained one until there is one.
"""

import argparse
import hashlib
import json
import warnings
from pathlib import Path

import torch

from mpquic_training.nets.gaps import Actor

TOKENS = 8
SEED = 1
# Name, unit, divisor and bounds of the result; the names and units are those of `Gaps::FEATURES`.
FEATURES = (
    ("present", "0 or 1", 1.0, None),
    ("d", "ms", 100.0, 10.0),
    ("c", "packets", 100.0, 20.0),
    ("delivery rate", "Mbit/s", 10.0, 50.0),
    ("loss rate", "1", 1.0, 1.0),
    ("receive window", "MB", 1.0, 20.0),
    ("acked since the last decision", "packets", 10.0, 20.0),
    ("gap", "packets", 100.0, 20.0),
    ("out of order", "kB", 100.0, 20.0),
)
SOURCE = "Liao et al. 2021 (GAPS), sections III to V"


def feature(name, unit, scale, most):
    normalisation = {"offset": 0.0, "scale": scale}
    if most is not None:
        normalisation["clip"] = {"low": 0.0, "high": most}
    return {"name": name, "unit": unit, "normalisation": normalisation}


def write(actor, folder, name, title, source, command, seed):
    """Writes `name`.onnx and `name`.json into `folder`, and returns the ONNX file's path."""
    onnx = Path(folder) / f"{name}.onnx"
    with warnings.catch_warnings():
        # The newer exporter needs a package more, and writes what it likes around the same operators.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            actor.eval(),
            (torch.zeros(1, TOKENS, len(FEATURES)),),
            str(onnx),
            opset_version=17,
            input_names=["state"],
            output_names=["change"],
            dynamo=False,
        )
    card = {
        "format": 1,
        "name": title,
        "onnx_sha256": hashlib.sha256(onnx.read_bytes()).hexdigest(),
        "inputs": [
            {
                "name": "state",
                "shape": [1, TOKENS, len(FEATURES)],
                "axis": 2,
                "features": [feature(*it) for it in FEATURES],
            }
        ],
        "outputs": [
            {
                "name": "change",
                "shape": [1, TOKENS],
                "meaning": ["change of the GAP of the path in this place, in units of 8 packets"],
            }
        ],
        "provenance": {"source": source, "training": f"none: {command}", "seed": seed},
    }
    onnx.with_suffix(".json").write_text(json.dumps(card, indent=2) + "\n")
    return onnx


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    torch.manual_seed(SEED)
    command = "python -m mpquic_training.untrained_gaps models"
    write(Actor(), folder, "gaps", "gap steering, untrained", f"{SOURCE}, compact size (ours)", command, SEED)


if __name__ == "__main__":
    main()
