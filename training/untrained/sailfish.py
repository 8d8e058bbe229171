"""Writes models/sailfish.onnx and its card, untrained: the network of the `sailfish` scheduler with random weights.

Training replaces the weights and leaves the architecture, which stands here and in the card, as it is:

    state [1, 4, 13]: a row for each path, features as FEATURES below, normalised by the card.
    scalars  = features 0, 1, 2, 11, 12                     [1, 4, 5]
    rtts     = features 3 to 10, as one channel per path    [4, 1, 8]
    s        = relu(dense 5 -> 32 (scalars))                [1, 4, 32]
    r        = relu(Conv1D 1 -> 32, width 4 (rtts))         [4, 32, 5], seen as [1, 4, 160]
    h        = relu(dense 192 -> 32 (s, r))                 [1, 4, 32]
    context  = sum over the paths of h * present            [1, 1, 32]
    z        = relu(dense 32 -> 32 (h) + dense 32 -> 32 without bias (context))
    logits   = dense 32 -> 1 (z)                            [1, 4]

The same weights serve every path, and a path that is not there changes nothing for the others: the network does not
depend on the number or the order of the paths.

    python training/untrained/sailfish.py
"""

import hashlib
import json
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

PATHS, HISTORY, WIDTH, KERNEL, SEED = 4, 8, 32, 4, 1

# Name, unit, offset, scale, as in crates/sched/src/neural/sailfish/state.rs. The norms are the reference code's where
# it has the feature: (Mbit/s - 1) / 99, (ms - 1) / 120, packets / 20.
FEATURES = (
    [("present", "0 or 1", 0, 1), ("rate", "Mbit/s", 1, 99), ("retransmitted or lost", "packets", 0, 20)]
    + [("smoothed RTT" if age == 0 else f"smoothed RTT {age} before", "ms", 1, 120) for age in range(HISTORY)]
    + [("bound and not acknowledged", "kB", 0, 100), ("size of the stream", "kB", 0, 100)]
)


def graph():
    draw = np.random.default_rng(SEED)
    weights, nodes = [], []

    def constant(name, array):
        weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(name, shape, fan_in):
        return constant(name, (draw.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32))

    def zeros(name, size):
        return constant(name, np.zeros(size, dtype=np.float32))

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def cut(name, start, end):
        bounds = [constant(f"{name}_{what}", np.array([at], dtype=np.int64))
                  for what, at in (("from", start), ("to", end), ("axis", 2))]
        return node("Slice", ["state", *bounds], name)

    def dense(name, x, inputs, outputs, bias=True):
        x = node("MatMul", [x, normal(f"{name}_weight", (inputs, outputs), inputs)], f"{name}_product")
        return node("Add", [x, zeros(f"{name}_bias", outputs)], name) if bias else x

    def shaped(name, x, shape):
        return node("Reshape", [x, constant(f"{name}_shape", np.array(shape, dtype=np.int64))], name)

    first, last = 3, 3 + HISTORY
    scalars = node("Concat", [cut("path_scalars", 0, first), cut("stream_scalars", last, last + 2)], "scalars", axis=2)
    s = node("Relu", [dense("scalar", scalars, 5, WIDTH)], "s")
    rtts = shaped("rtts", cut("rtt_rows", first, last), (PATHS, 1, HISTORY))
    kernel = normal("kernel", (WIDTH, 1, KERNEL), KERNEL)
    r = node("Relu", [node("Conv", [rtts, kernel, zeros("kernel_bias", WIDTH)], "conv", kernel_shape=[KERNEL])], "r")
    r = shaped("r_rows", r, (1, PATHS, WIDTH * (HISTORY - KERNEL + 1)))
    joined = node("Concat", [s, r], "joined", axis=2)
    h = node("Relu", [dense("path", joined, WIDTH * (HISTORY - KERNEL + 2), WIDTH)], "h")
    present = node("Mul", [h, cut("present", 0, 1)], "h_present")
    axes = constant("paths_axis", np.array([1], dtype=np.int64))
    context = node("ReduceSum", [present, axes], "context", keepdims=1)
    own = dense("own", h, WIDTH, WIDTH)
    others = dense("others", context, WIDTH, WIDTH, bias=False)
    z = node("Relu", [node("Add", [own, others], "both")], "z")
    shaped("logits", dense("logit", z, WIDTH, 1), (1, PATHS))

    state = helper.make_tensor_value_info("state", TensorProto.FLOAT, [1, PATHS, len(FEATURES)])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, PATHS])
    return helper.make_graph(nodes, "sailfish", [state], [logits], weights)


def main():
    model = helper.make_model(graph(), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model, full_check=True)
    onnx = model.SerializeToString(deterministic=True)
    card = {
        "format": 1,
        "name": "sailfish, untrained",
        "onnx_sha256": hashlib.sha256(onnx).hexdigest(),
        "inputs": [{
            "name": "state",
            "shape": [1, PATHS, len(FEATURES)],
            "axis": 2,
            "features": [
                {"name": name, "unit": unit,
                 "normalisation": {"offset": float(offset), "scale": float(scale), "clip": {"low": -10.0, "high": 10.0}}}
                for name, unit, offset, scale in FEATURES
            ],
        }],
        "outputs": [{
            "name": "logits",
            "shape": [1, PATHS],
            "meaning": [f"logit of binding the stream to the path in slot {slot}" for slot in range(PATHS)],
        }],
        "provenance": {
            "source": "SAILfish (MSc thesis, 2020), with a path encoder shared by up to four paths; architecture: "
                      "training/untrained/sailfish.py",
            "training": "none: python training/untrained/sailfish.py",
            "seed": SEED,
        },
    }
    models = Path(__file__).resolve().parents[2] / "models"
    models.mkdir(exist_ok=True)
    (models / "sailfish.onnx").write_bytes(onnx)
    (models / "sailfish.json").write_text(json.dumps(card, indent=2) + "\n")


if __name__ == "__main__":
    main()
