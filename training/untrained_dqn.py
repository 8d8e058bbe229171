"""Writes models/dqn.onnx and models/dqn.json with weights that nothing has trained; trains nothing.

For builds before the first training, which replaces both: python training/untrained_dqn.py
"""

import hashlib
import json
import math
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 1
LAYERS = [10, 24, 24, 24, 7]
FEATURES = [
    ("rtt of path 1", "ms", 100.0),
    ("window of path 1", "bytes", 1e5),
    ("in flight on path 1", "bytes", 1e5),
    ("rtt of path 2", "ms", 100.0),
    ("window of path 2", "bytes", 1e5),
    ("in flight on path 2", "bytes", 1e5),
    ("credit", "bytes", 1e5),
    ("chunk not sent", "bytes", 1e5),
    ("chunk not acknowledged in order", "bytes", 1e5),
    ("time since the chunk was asked for", "s", 1.0),
]
ACTIONS = [
    "path 1 with probability 0.25",
    "path 1 with probability 0.5",
    "path 1 with probability 0.75",
    "minRTT for 15 ms, then path 1",
    "minRTT for 30 ms, then path 1",
    "path 1",
    "minRTT",
]


def network():
    random = np.random.default_rng(SEED)
    nodes, weights = [], []
    value = "state"
    for number, (rows, columns) in enumerate(zip(LAYERS, LAYERS[1:])):
        # Glorot and Bengio, AISTATS 2010, equation 16.
        bound = math.sqrt(6.0 / (rows + columns))
        matrix = random.uniform(-bound, bound, (rows, columns)).astype(np.float32)
        weights.append(numpy_helper.from_array(matrix, f"w{number}"))
        weights.append(numpy_helper.from_array(np.zeros(columns, np.float32), f"b{number}"))
        last = number == len(LAYERS) - 2
        out = "q" if last else f"z{number}"
        nodes.append(helper.make_node("Gemm", [value, f"w{number}", f"b{number}"], [out]))
        value = out
        if not last:
            value = f"h{number}"
            nodes.append(helper.make_node("Relu", [out], [value]))
    graph = helper.make_graph(
        nodes,
        "dqn",
        [helper.make_tensor_value_info("state", TensorProto.FLOAT, [1, LAYERS[0]])],
        [helper.make_tensor_value_info("q", TensorProto.FLOAT, [1, LAYERS[-1]])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def card(file):
    return {
        "format": 1,
        "name": "dqn, untrained",
        "onnx_sha256": hashlib.sha256(file).hexdigest(),
        "inputs": [
            {
                "name": "state",
                "shape": [1, LAYERS[0]],
                "axis": 1,
                "features": [
                    {"name": name, "unit": unit, "normalisation": {"offset": 0.0, "scale": scale}}
                    for name, unit, scale in FEATURES
                ],
            }
        ],
        "outputs": [{"name": "q", "shape": [1, LAYERS[-1]], "meaning": ACTIONS}],
        "provenance": {
            "source": "Lee and Yoo, Sensors 22:6333, 2022",
            "training": "python training/untrained_dqn.py",
            "seed": SEED,
        },
    }


if __name__ == "__main__":
    models = pathlib.Path(__file__).parent.parent / "models"
    models.mkdir(exist_ok=True)
    file = network()
    (models / "dqn.onnx").write_bytes(file)
    (models / "dqn.json").write_text(json.dumps(card(file), indent=2) + "\n")
