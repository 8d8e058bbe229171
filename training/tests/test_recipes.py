"""The recipes end to end in the real simulator, on a crumb of the amount: they repeat themselves, and engines agree."""

import pytest
from mpquic_training import __main__, check, recipes
from mpquic_training.states import MODELS

pytest.importorskip("mpquic_gym", reason="the simulator's module is not installed")

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
    import mpquic_gym

    told = mpquic_gym.describe(name)
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


def test_the_command_line_says_what_it_can_do(capsys):
    with pytest.raises(SystemExit) as stopped:
        __main__.main(["--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert all(command in said for command in ("train", "export", "check", "evaluate"))
