"""How each shipped model comes about: networks, settings, amounts, and which of the states on the way is kept; the
algorithms are in modules of their own.
"""

import copy
import math
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from . import a2c, ddpg, dqn, evaluate, export
from .curve import Curve
from .nets.chunk import Values
from .nets.stream import Actor, Critic
from .states import MODELS

# Where what is made here lies in the repository.
TRAINING = Path(__file__).resolve().parent.parent
SHIPPED = TRAINING.parent / "models"


@dataclass(frozen=True)
class Trial:
    """What is run now and then to see how good the policy has become, against minRTT on the same networks and seeds.

    The networks are training's: what is held back decides nothing before the evaluation.
    """

    scheduler: str
    workloads: tuple[str, ...]
    metric: str
    networks: tuple
    config: dict
    seed: int = 2**32
    """Above all seeds of training, below those of the evaluation."""


class Keeper:
    """Tries a policy on the `Trial`, and keeps the weights that did best."""

    def __init__(self, model, trial):
        self.model, self.trial = model, trial
        self.jobs = [(network, workload) for network in trial.networks for workload in trial.workloads]
        self.minrtt = self._figures("minrtt", {})
        self.best = math.inf
        self.weights = None

    def _figures(self, scheduler, config):
        figures = []
        for i, (network, workload) in enumerate(self.jobs):
            values = evaluate.run(scheduler, config, network, workload, "olia", self.trial.seed + i)
            figures.append(values[self.trial.metric] if values else np.nan)
        return np.array(figures)

    def __call__(self, network):
        """The change of the metric against minRTT, negative is better, and whether it is the best so far."""
        with tempfile.TemporaryDirectory() as folder:
            path = export.write(network, self.model, Path(folder) / "policy.onnx", "trial", 0)
            figures = self._figures(self.trial.scheduler, {"model": os.fspath(path)} | self.trial.config)
        least = 1e-3 * np.nanmean(self.minrtt)
        logs = np.log(np.maximum(figures, least)) - np.log(np.maximum(self.minrtt, least))
        found = float(np.nanmean(logs))
        if found < self.best:
            self.best = found
            self.weights = copy.deepcopy(network.state_dict())
        return {"against_minrtt": math.expm1(found)}


@dataclass
class Session:
    """One training: what its parts share."""

    seed: int
    minutes: float
    amount: int | None
    curve: Curve

    def __post_init__(self):
        self.ends = time.monotonic() + 60 * self.minutes

    def stop(self):
        """Whether the time is up. A run that ends by this does not repeat itself elsewhere, and says so."""
        if time.monotonic() < self.ends:
            return False
        print(f"stopped after {self.minutes:g} minutes: this run will not repeat itself exactly", flush=True)
        return True


def _every_nth(networks, count):
    return tuple(networks[:: max(1, len(networks) // count)][:count])


def train_dqn(session):
    """Section 15, with an epsilon that keeps a floor and many more chunks than the paper's 300."""
    from .envs import ChunkEnv
    from .networks import DQN_TRAINING

    model = MODELS["dqn"]
    trial = Trial("dqn", ("video:12:5Mbit/s",), "chunk_time", _every_nth(DQN_TRAINING, 30), {})
    keeper = Keeper(model, trial)
    amount = session.amount or 120_000
    settings = dqn.Settings(decay=0.9997, floor=0.1, rate_end=5e-5, gamma=0.9, batch=64)
    states = _States(model)
    env = ChunkEnv(workloads=("video:30:5Mbit/s", "video:30"))
    dqn.train(
        env, states, settings, session.seed, amount, session.curve, max(amount // 40, 1),
        lambda values, _: keeper(values), session.stop,
    )  # fmt: skip
    env.close()
    network = Values(10, 7, settings.hidden)
    network.load_state_dict(keeper.weights)
    return network, states


def train_sailfish(session):
    """Section 16 with its repairs."""
    from .envs import PageEnv
    from .networks import SAILFISH_TRAINING, TRAINING_PAGES

    model = MODELS["sailfish"]
    workloads = tuple(f"page:{page}" for page in TRAINING_PAGES)
    trial = Trial("sailfish", workloads, "stream_mean", _every_nth(SAILFISH_TRAINING, 12), {})
    keeper = Keeper(model, trial)
    amount = session.amount or 7000
    torch.manual_seed(session.seed)
    settings = a2c.Settings(
        actor_rate=1e-3, entropy=(0.5, 0.01), entropy_pages=amount // 2, gamma=0.5, normalise=True, clip=1.0
    )
    states = _States(model)
    env = PageEnv(workloads=workloads)
    a2c.train(
        env, states, settings, Actor(), Critic(), session.seed, amount, session.curve, max(amount // 40, 1),
        lambda actor, _: keeper(actor), session.stop,
    )  # fmt: skip
    env.close()
    network = Actor()
    network.load_state_dict(keeper.weights)
    return network, states


def train_gaps(session):
    """Section 17 over the compact encoder."""
    from .envs import GapEnv
    from .nets.steering import Steering
    from .networks import GAPS_TRAINING

    model = MODELS["gaps"]
    trial = Trial("gaps", ("bulk:4s",), "oqs_mean", _every_nth(GAPS_TRAINING, 24), {})
    keeper = Keeper(model, trial)
    amount = session.amount or 40_000
    torch.manual_seed(session.seed)
    settings = ddpg.Settings()
    states = _States(model)
    env = GapEnv(workloads=("bulk:6s",))
    ddpg.train(
        env, states, settings, Steering(), session.seed, amount, session.curve, max(amount // 40, 1),
        lambda network, _: keeper(network), session.stop,
    )  # fmt: skip
    env.close()
    network = Steering()
    network.load_state_dict(keeper.weights)
    return network, states


class _States:
    """Normalises, and remembers some of the raw states it has seen: what checks call recorded."""

    def __init__(self, model, every=37, most=500):
        self.model, self.every, self.most = model, every, most
        self.seen = 0
        self.kept = []

    def __call__(self, raw):
        if self.seen % self.every == 0:
            if len(self.kept) < self.most:
                self.kept.append(raw.copy())
            else:
                self.kept[self.seen // self.every % self.most] = raw.copy()
        self.seen += 1
        return self.model.normalise(raw)

    def save(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, states=np.array(self.kept, np.float32))


RECIPES = {"dqn": train_dqn, "sailfish": train_sailfish, "gaps": train_gaps}


def states_file(name):
    return TRAINING / "states" / f"{name}.npz"


def curve_file(name):
    return TRAINING / "curves" / f"{name}.csv"


def result_file(name):
    return TRAINING / "results" / f"{name}.json"


def model_file(name):
    return SHIPPED / f"{name}.onnx"


def train(name, seed, minutes, amount, out, curves, command):
    """Trains, and writes the model, its curve and some states; `out` and `curves` are folders. Returns the ONNX file."""
    curve = Curve(Path(curves) / f"{name}.csv" if curves else None)
    network, states = RECIPES[name](Session(seed, minutes, amount, curve))
    curve.save()
    if curves:
        states.save(states_file(name) if Path(curves) == curve_file(name).parent else Path(curves) / f"{name}.npz")
    return export.write(network, MODELS[name], Path(out) / f"{name}.onnx", command, seed)


def untrained(name, seed, out, command):
    """Writes the network as training begins with it."""
    from .nets.steering import Steering

    torch.manual_seed(seed)
    network = {"dqn": Values, "sailfish": Actor, "gaps": Steering}[name]()
    return export.write(network, MODELS[name], Path(out) / f"{name}.onnx", command, seed)
