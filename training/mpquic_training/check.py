"""Whether engines agree on a model: onnxruntime, and the project's compiled plan and tract; decides nothing else."""

from pathlib import Path

import numpy as np

from .export import normalise, read_card

TOLERANCE = 1e-5


def difference(a, b):
    """The largest difference relative to the larger of the two, or to 1 where both are smaller (as crates/infer)."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.max(np.abs(a - b) / np.maximum(np.maximum(np.abs(a), np.abs(b)), 1.0)))


def onnxruntime_answers(path, states):
    """Answers to raw states by onnxruntime, normalised by the card."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    prepared = normalise(read_card(path), states)
    return np.stack([session.run(None, {name: state[None]})[0].ravel() for state in prepared])


def rust_answers(path, states, engine):
    """Answers by the Rust engine `plan` or `tract`, and which one it was; they normalise by themselves."""
    from mpquic_lab import gym

    policy = gym.Policy(path, engine)
    return policy.run_batch(np.asarray(states, np.float32).reshape(len(states), -1)), policy.engine


def has_rust():
    """Whether the simulator's module, and with it the Rust engines, is installed."""
    try:
        from mpquic_lab import gym  # noqa: F401
    except ImportError:
        return False
    return True


def recorded(path):
    """States that a trainer saved, or none."""
    file = Path(path)
    return np.load(file)["states"] if file.exists() else None


def check(path, model, count=10_000, seed=0, more=None):
    """Differences by pair of engines over `count` random states and those in `more`."""
    states = model.random_states(count, np.random.default_rng(seed))
    if more is not None:
        states = np.concatenate([states, np.asarray(more, np.float32).reshape(-1, *model.shape[1:])])
    reference = onnxruntime_answers(path, states)
    found = {"states": len(states)}
    if has_rust():
        plan, name = rust_answers(path, states, "plan")
        found["plan engine"] = name
        tract, _ = rust_answers(path, states, "tract")
        found["plan - onnxruntime"] = difference(plan, reference)
        found["tract - onnxruntime"] = difference(tract, reference)
        found["plan - tract"] = difference(plan, tract)
    return found


def fails(found):
    """The pairs that differ by more than `TOLERANCE`."""
    return [f"{pair}: {value:.2e}" for pair, value in found.items() if " - " in pair and not value <= TOLERANCE]
