"""GAPS' networks: shapes, what absent paths change, where training starts from; and the paper's size, built and thrown away."""

import json

import onnx
import onnxruntime
import numpy as np
import torch

from mpquic_training import paper_size, untrained_gaps
from mpquic_training.nets.gaps import PAPER, Actor, Encoder

FEATURES = len(untrained_gaps.FEATURES)


def states(paths, batch=3):
    """Random normalised states of so many paths."""
    state = torch.zeros(batch, 8, FEATURES)
    state[:, :paths] = torch.rand(batch, paths, FEATURES)
    state[:, :paths, 0] = 1.0
    return state


def widened(actor):
    """The same with a last layer of ordinary size, so that what comes before it shows."""
    torch.nn.init.uniform_(actor.last.weight, -1.0, 1.0)
    return actor


def test_an_untrained_policy_changes_next_to_nothing():
    for seed in range(8):
        torch.manual_seed(seed)
        answer = Actor()(states(5))
        assert answer.shape == (3, 8)
        # 8 packets times this, rounded, is none.
        assert answer.abs().max() < 1 / 16


def test_absent_paths_say_nothing_and_get_nothing():
    torch.manual_seed(1)
    actor = widened(Actor())
    state = states(3)
    answer = actor(state)
    assert (answer[:, :3] != 0).all() and (answer[:, 3:] == 0).all()
    # Whatever stands in their tokens.
    state[:, 3:, 1:] = 5.0
    assert torch.allclose(actor(state), answer, atol=1e-6)
    # A path that is there counts.
    state[:, 3, 0] = 1.0
    assert not torch.allclose(actor(state)[:, :3], answer[:, :3], atol=1e-3)


def exported(folder, name):
    session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])
    return session, json.loads((folder / f"{name}.json").read_text())


def test_the_untrained_files_are_what_they_say(tmp_path):
    untrained_gaps.main([str(tmp_path)])
    session, card = exported(tmp_path, "gaps")
    assert card["inputs"][0]["shape"] == [1, 8, 9] and card["outputs"][0]["shape"] == [1, 8]
    torch.manual_seed(untrained_gaps.SEED)
    actor = Actor()
    for paths in (1, 2, 8):
        state = states(paths, batch=1)
        [answer] = session.run(["change"], {"state": state.numpy()})
        assert np.allclose(answer, actor(state).detach().numpy(), atol=1e-6)


def test_the_papers_size_builds_with_the_papers_shapes(tmp_path):
    path = paper_size.build(tmp_path)
    session, card = exported(tmp_path, "gaps_paper")
    assert "benchmarks only" in card["name"]
    [answer] = session.run(["change"], {"state": states(5, batch=1).numpy()})
    assert answer.shape == (1, 8) and np.abs(answer).max() <= 1.0
    graph = onnx.load(path).graph
    kinds = [node.op_type for node in graph.node]
    # Two normalisations an encoder, one softmax each.
    assert (kinds.count("LayerNormalization"), kinds.count("Softmax")) == (12, 6)
    shapes = {tuple(it.dims) for it in graph.initializer}
    assert {(512, 512), (512, 2048), (2048, 512), (8, 512)} <= shapes
    assert (PAPER.embedding, PAPER.layers, PAPER.heads) == (512, 6, 8)
    assert sum(it.numel() for it in Encoder(PAPER).parameters()) > 18_000_000
