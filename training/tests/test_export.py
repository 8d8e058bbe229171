"""What is exported answers as the network did, in onnxruntime and in the Rust engines."""

import hashlib
import json
from importlib import metadata

import numpy as np
import pytest
import torch
from mpquic_training import check, export
from mpquic_training.nets.chunk import Acting, Values
from mpquic_training.nets.stream import Actor
from mpquic_training.nets.steering import Steering
from mpquic_training.states import DQN, GAPS, MODELS, SAILFISH

NETWORKS = {"dqn": Values, "sailfish": Actor, "gaps": Steering}


@pytest.fixture(params=sorted(NETWORKS))
def exported(request, tmp_path):
    torch.manual_seed(3)
    network = NETWORKS[request.param]()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    model = MODELS[request.param]
    return network, model, export.write(network, model, tmp_path / f"{model.name}.onnx", "pytest", 3)


def test_torch_and_onnxruntime_agree(exported):
    network, model, path = exported
    states = model.random_states(10_000, np.random.default_rng(1))
    with torch.no_grad():
        expected = network(torch.from_numpy(model.normalise(states))).numpy().reshape(len(states), -1)
    assert check.difference(expected, check.onnxruntime_answers(path, states)) <= check.TOLERANCE


@pytest.mark.skipif(not check.has_rust(), reason="the simulator's module is not installed")
def test_rust_engines_agree_with_onnxruntime(exported):
    _, model, path = exported
    found = check.check(path, model, 10_000)
    assert found["states"] == 10_000
    assert found["plan engine"].startswith("plan")
    assert check.fails(found) == []


def test_the_check_sees_a_difference(exported):
    _, model, path = exported
    states = model.random_states(100, np.random.default_rng(1))
    answers = check.onnxruntime_answers(path, states)
    other = answers.copy()
    other[50, 0] += 1e-4 * max(1.0, abs(other[50, 0]))
    assert check.difference(answers, other) > check.TOLERANCE
    assert check.fails({"states": 1, "a - b": 2e-5}) == ["a - b: 2.00e-05"]
    assert check.fails({"a - b": float("nan")}) != []


def test_the_card_belongs_to_the_file(exported):
    _, model, path = exported
    card = export.read_card(path)
    assert card["onnx_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert card["inputs"][0]["shape"] == list(model.shape)
    assert [f["name"] for f in card["inputs"][0]["features"]] == [f.name for f in model.features]
    assert path.stat().st_size < export.MOST_BYTES


def test_the_card_says_where_the_weights_come_from(exported):
    _, _, path = exported
    origin = export.read_card(path)["provenance"]
    assert origin["versions"] == {name: metadata.version(name) for name in export.LIBRARIES}
    assert "held_out" not in origin
    export.judged(path, "chunk_time -1.5%")
    assert export.read_card(path)["provenance"] == origin | {"held_out": "chunk_time -1.5%"}


def test_one_network_gives_one_file(exported):
    network, model, path = exported
    assert export.onnx_bytes(network, model) == path.read_bytes()


def test_the_cards_normalisation_is_the_trainers(exported):
    _, model, path = exported
    states = model.random_states(1000, np.random.default_rng(2))
    assert np.array_equal(export.normalise(export.read_card(path), states), model.normalise(states))


def test_normalisation_by_hand():
    state = np.array([50, 2e5, 0, 5000, 0, 0, 0, 0, 0, 0.25], np.float32)
    assert DQN.normalise(state).tolist() == [0.5, 2, 0, 10, 0, 0, 0, 0, 0, 0.25]
    state = np.zeros((4, 13), np.float32)
    state[0, :4] = [1, 100, 40, 121]
    assert SAILFISH.normalise(state)[0, :4].tolist() == [1, 1, 2, 1]
    assert GAPS.normalise(np.full((8, 9), 10, np.float32))[3, 1] == np.float32(0.1)


def test_an_operator_without_a_kernel_is_refused():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.erf(x[:, :7])

    with pytest.raises(ValueError, match="Erf"):
        export.onnx_bytes(Odd(), DQN)


def test_a_card_is_plain_json(exported):
    _, _, path = exported
    card = json.loads(path.with_suffix(".json").read_text())
    assert set(card) == {"format", "name", "onnx_sha256", "inputs", "outputs", "provenance"}


def test_the_acting_copy_is_the_network():
    torch.manual_seed(1)
    network = Values()
    state = DQN.normalise(DQN.random_states(1, np.random.default_rng(0)))[0]
    with torch.no_grad():
        assert np.allclose(Acting(network)(state), network(torch.from_numpy(state)).numpy(), rtol=1e-5, atol=1e-6)


def test_absent_subflows_change_nothing_and_are_not_changed():
    torch.manual_seed(1)
    network = Steering()
    states = GAPS.random_states(2, np.random.default_rng(0))
    states[:, :, 0] = [1, 1, 1, 0, 0, 0, 0, 0]
    states[1] = states[0]
    states[1, 3:, 1:] += 7.0
    with torch.no_grad():
        first, second = network(torch.from_numpy(states)).numpy()
    assert np.allclose(first, second, atol=1e-6)
    assert not first[3:].any()


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_a_network_with_equal_weights_can_be_exported(name, tmp_path):
    network, model = NETWORKS[name](), MODELS[name]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    path = export.write(network, model, tmp_path / "zero.onnx", "pytest", 0)
    assert not check.onnxruntime_answers(path, model.random_states(3, np.random.default_rng(0))).any()
