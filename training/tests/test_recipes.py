"""The recipes end to end in the real simulator, on a crumb of the amount: they repeat themselves, and engines agree."""

import numpy as np
import pytest
import torch
from mpquic_training import __main__, check, evaluate, recipes
from mpquic_training.nets.stream import Actor
from mpquic_training.states import MODELS

pytest.importorskip("mpquic_lab.gym", reason="the simulator's module is not installed")

AMOUNTS = {"dqn": 60, "sailfish": 10, "gaps": 60}


@pytest.fixture(autouse=True)
def small_trials(monkeypatch):
    """A trial on one network is enough to see that there was one."""
    monkeypatch.setattr(recipes, "_every_nth", lambda networks, count: networks[:1])


def trained(name, folder, seed):
    arguments = ["train", name, "--seed", str(seed), "--amount", str(AMOUNTS[name])]
    assert __main__.main([*arguments, "--out", str(folder), "--curves", str(folder)]) == 0
    return [(folder / f"{name}{end}").read_bytes() for end in (".onnx", ".json", ".csv")]


@pytest.mark.parametrize("name", sorted(AMOUNTS))
def test_one_seed_gives_one_model_and_one_curve(name, tmp_path):
    folders = [tmp_path / part for part in "abc"]
    first, again, other = (trained(name, folder, seed) for folder, seed in zip(folders, (1, 1, 2)))
    assert first == again
    assert first[0] != other[0] and first[2] != other[2]
    assert (folders[0] / f"{name}.png").stat().st_size > 1000
    recorded = check.recorded(folders[0] / f"{name}.npz")
    assert recorded is not None and recorded.shape[1:] == MODELS[name].shape[1:]
    assert check.fails(check.check(folders[0] / f"{name}.onnx", MODELS[name], 200, more=recorded)) == []


@pytest.mark.parametrize("name", sorted(AMOUNTS))
def test_features_are_the_schedulers(name):
    from mpquic_lab import gym

    told = gym.describe(name)
    assert [tuple(feature) for feature in told["features"]] == [(f.name, f.unit) for f in MODELS[name].features]


@pytest.mark.parametrize("name", ["dqn", "gaps", "sailfish"])
def test_the_shipped_model_passes_its_check(name):
    file = recipes.model_file(name)
    found = check.check(file, MODELS[name], 10_000, more=check.recorded(recipes.states_file(name)))
    assert check.fails(found) == []


@pytest.mark.parametrize("name", sorted(AMOUNTS))
def test_engines_agree_on_the_shipped_model_in_the_states_of_training(name):
    found = check.check(recipes.model_file(name), MODELS[name], 0, more=check.recorded(recipes.states_file(name)))
    assert found["states"] >= 400
    assert check.fails(found) == []


@pytest.mark.parametrize("name,variant", [(n, v) for n, all in recipes.VARIANTS.items() for v in all])
def test_variants_are_trained_and_say_so_in_the_card(name, variant, tmp_path):
    arguments = ["train", name, "--amount", str(AMOUNTS[name]), "--variant", variant]
    assert __main__.main([*arguments, "--out", str(tmp_path), "--curves", str(tmp_path)]) == 0
    card = (tmp_path / f"{name}.json").read_text()
    assert f"--variant {variant}" in card


def test_weights_that_do_not_count_are_kept_only_until_others_do(monkeypatch):
    figures = iter([[2.0], [0.5], [1.0], [1.5]])
    monkeypatch.setattr(recipes.Keeper, "_figures", lambda *_: np.array(next(figures)))
    keeper = recipes.Keeper(MODELS["sailfish"], recipes.Trial("sailfish", ("w",), "m", ("n",), {}))
    kept = []
    for value, counts in ((1.0, False), (2.0, True), (3.0, True)):
        network = Actor(8, 16)
        torch.nn.init.constant_(network.logit.bias, value)
        keeper(network, counts)
        kept.append(keeper.weights["logit.bias"][0].item())
    assert kept == [1.0, 2.0, 2.0]


def test_pages_of_training_are_none_of_the_evaluations():
    from mpquic_training.networks import HELD_BACK_PAGES, TRAINING_PAGES

    assert not set(TRAINING_PAGES) & set(HELD_BACK_PAGES)
    judged = {workload for workload, _ in evaluate.EXAMS["sailfish"].workloads}
    assert judged == {f"page:{page}" for page in HELD_BACK_PAGES}


def test_the_command_line_says_what_it_can_do(capsys):
    with pytest.raises(SystemExit) as stopped:
        __main__.main(["--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert all(command in said for command in ("train", "export", "check", "evaluate"))
