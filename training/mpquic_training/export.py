"""A network as an ONNX file and its card, in the form that `mpquic_infer` reads; checks what is written only against
the operators of the compiled plan.
"""

import functools
import hashlib
import json
import subprocess
import warnings
from importlib import metadata
from pathlib import Path

import numpy as np
import onnx
import torch

# What crates/infer compiles to a plan. Another operator would run, slowly, in tract.
OPERATORS = {
    "Add", "Concat", "Constant", "Conv", "Div", "Flatten", "Gemm", "LayerNormalization", "MatMul", "Mul", "ReduceMean",
    "ReduceSum", "Relu", "Reshape", "Sigmoid", "Slice", "Softmax", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose",
    "Unsqueeze",
}  # fmt: skip
OPSET = 17
MOST_BYTES = 1_000_000
# Whose versions a card names: what computes the weights and draws the numbers.
LIBRARIES = ("gymnasium", "numpy", "onnx", "torch")


class _Shaped(torch.nn.Module):
    """Gives a network's answer the shape that the card says."""

    def __init__(self, network, shape):
        super().__init__()
        self.network = network
        self.shape = shape

    def forward(self, state):
        return self.network(state).reshape(self.shape)


def _drop_identities(graph):
    """The exporter writes equal weights once, and an Identity for each other use, as of biases that are still 0."""
    names = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    kept = [node for node in graph.node if node.op_type != "Identity"]
    for node in kept:
        for i, name in enumerate(node.input):
            while name in names:
                name = names[name]
            node.input[i] = name
    del graph.node[:]
    graph.node.extend(kept)


def onnx_bytes(network, model):
    """`network` takes normalised states; the card normalises, so nothing of it is in the file."""
    import io

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The older exporter, asked for by name: it writes plain operators and needs no further package.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Shaped(network.eval(), model.output_shape),
            (torch.zeros(model.shape),),
            buffer,
            dynamo=False,
            opset_version=OPSET,
            input_names=["state"],
            output_names=[model.output],
            do_constant_folding=True,
        )
    graph = onnx.load_from_string(buffer.getvalue())
    _drop_identities(graph.graph)
    graph.doc_string = ""
    graph.graph.name = model.name
    for node in graph.graph.node:
        node.doc_string = ""
    onnx.checker.check_model(graph, full_check=True)
    unknown = {node.op_type for node in graph.graph.node} - OPERATORS
    if unknown:
        raise ValueError(f"{model.name}: the compiled plan has no {', '.join(sorted(unknown))}")
    data = graph.SerializeToString(deterministic=True)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{model.name}: {len(data)} bytes, at most {MOST_BYTES}")
    return data


@functools.cache
def _commit():
    """The commit that is checked out here, with a + where files of it have been changed; None outside of a repository."""

    def git(*words):
        done = subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _origin():
    """What a card says of the programs that are at work here."""
    versions = {name: metadata.version(name) for name in LIBRARIES}
    return {"commit": _commit(), "versions": versions}


def card(model, data, training, seed, more=None):
    """The card of ONNX bytes. `training`: the command that makes them; `more`: what else is known of where they come from."""
    features = []
    for feature in model.features:
        entry = {"name": feature.name, "unit": feature.unit}
        normalisation = {"offset": feature.offset, "scale": feature.scale}
        if feature.clip:
            normalisation["clip"] = {"low": feature.clip[0], "high": feature.clip[1]}
        if normalisation != {"offset": 0.0, "scale": 1.0}:
            entry["normalisation"] = normalisation
        features.append(entry)
    return {
        "format": 1,
        "name": model.title,
        "onnx_sha256": hashlib.sha256(data).hexdigest(),
        "inputs": [{"name": "state", "shape": list(model.shape), "axis": model.axis, "features": features}],
        "outputs": [{"name": model.output, "shape": list(model.output_shape), "meaning": list(model.meaning)}],
        "provenance": {
            "source": model.source, "training": training, "seed": seed,
            **{key: value for key, value in (_origin() | (more or {})).items() if value},
        },
    }  # fmt: skip


def write(network, model, path, training, seed, more=None):
    """Writes `path` and the card beside it; returns `path`."""
    path = Path(path)
    data = onnx_bytes(network, model)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    _save_card(path, card(model, data, training, seed, more))
    return path


def _save_card(path, card):
    path.with_suffix(".json").write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n")


def read_card(path):
    """The card beside an ONNX file."""
    return json.loads(Path(path).with_suffix(".json").read_text())


def judged(path, held_out):
    """Has the card beside an ONNX file say what the policy is worth on networks that it was not trained on."""
    card = read_card(path)
    card["provenance"]["held_out"] = held_out
    _save_card(Path(path), card)


def normalise(card, states):
    """What `mpquic_infer` makes of raw states, from the card alone and in f32: `(batch, *shape[1:])`."""
    taken = card["inputs"][0]
    moved = np.moveaxis(np.array(states, np.float32), taken["axis"], -1).copy()
    for i, feature in enumerate(taken["features"]):
        how = feature.get("normalisation", {})
        x = (moved[..., i] - np.float32(how.get("offset", 0.0))) / np.float32(how.get("scale", 1.0))
        if clip := how.get("clip"):
            x = np.clip(x, np.float32(clip["low"]), np.float32(clip["high"]))
        moved[..., i] = x
    return np.moveaxis(moved, -1, taken["axis"])
