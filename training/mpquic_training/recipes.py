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

import gymnasium
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
    congestions: tuple[str, ...] = ("olia",)
    seed: int = 2**32
    """Above all seeds of training, below those of the evaluation."""


class Keeper:
    """Tries a policy on the `Trial`, and keeps the weights that did best."""

    def __init__(self, model, trial):
        self.model, self.trial = model, trial
        self.jobs = [
            (network, workload, congestion)
            for network in trial.networks
            for workload in trial.workloads
            for congestion in trial.congestions
        ]
        self.minrtt = self._figures("minrtt", {})
        self.best = math.inf
        self.weights = None

    def _figures(self, scheduler, config):
        figures = []
        for i, (network, workload, congestion) in enumerate(self.jobs):
            values = evaluate.run(scheduler, config, network, workload, congestion, self.trial.seed + i)
            figures.append(values[self.trial.metric] if values else np.nan)
        return np.array(figures)

    def __call__(self, network, counts=True):
        """The change of the metric against minRTT, negative is better. The best weights are kept, of those that `counts`
        says may be."""
        with tempfile.TemporaryDirectory() as folder:
            path = export.write(network, self.model, Path(folder) / "policy.onnx", "trial", 0)
            figures = self._figures(self.trial.scheduler, {"model": os.fspath(path)} | self.trial.config)
        least = 1e-3 * np.nanmean(self.minrtt)
        logs = np.log(np.maximum(figures, least)) - np.log(np.maximum(self.minrtt, least))
        found = float(np.nanmean(logs))
        if self.weights is None or (counts and found < self.best):
            self.best = found if counts else math.inf
            self.weights = copy.deepcopy(network.state_dict())
        return {"against_minrtt": math.expm1(found)}


@dataclass
class Session:
    """One training: what its parts share."""

    seed: int
    minutes: float
    amount: int | None
    curve: Curve
    variant: str | None = None
    """One of `VARIANTS`; none is what ships."""

    def __post_init__(self):
        self.ends = time.monotonic() + 60 * self.minutes

    def stop(self):
        """Whether the time is up. A run that ends by this does not repeat itself elsewhere, and says so."""
        if time.monotonic() < self.ends:
            return False
        print(f"stopped after {self.minutes:g} minutes: this run will not repeat itself exactly", flush=True)
        return True


class Steady(gymnasium.Wrapper):
    """A connection that the simulator gave up on ends the episode and not the training."""

    def step(self, action):
        from .envs import SimulationError

        try:
            answer = self.env.step(action)
        except SimulationError as error:
            print(f"left out: {error}", flush=True)
            self.env.close()
            answer = (self.last, 0.0, False, True, {"transitions": [], "rewards": [], "rewarded": False})
        self.last = answer[0]
        return answer

    def reset(self, **more):
        self.last, info = self.env.reset(**more)
        return self.last, info


def _every_nth(networks, count):
    return tuple(networks[:: max(1, len(networks) // count)][:count])


# The most that a step may cost: what is beyond is bad enough.
WORST = -8.0


class Hurry(gymnasium.Wrapper):
    """The chunk scheduler's rewards as minus the time that passes, in units of what the chunk takes at best: the least
    RTT and its bytes at the rate of all paths.

    The paper's rewards are the same packets in another order, and the chunk's time in units that leave most of the
    differences between actions below those between networks. In this unit a fast network's chunk counts as much as a
    slow one's, as it does in what is evaluated: ratios. The time of the chunk is taken from the paper's own reward.
    """

    def __init__(self, env):
        super().__init__(env)
        self.sizes = {}

    def reset(self, **more):
        raw, info = self.env.reset(**more)
        if "network" in info:
            inner = self.env.unwrapped
            self.network = next(network for network in inner.networks if network.name == info["network"])
            self.sizes.clear()
        return raw, info

    def step(self, action):
        raw, reward, terminated, truncated, info = self.env.step(action)
        info["transitions"] = [self._hurried(*transition) for transition in info["transitions"]]
        return raw, reward, terminated, truncated, info

    def _hurried(self, state, action, reward, after, done):
        # Chunks overlap: one's last reward may come after the next one's first. What was waiting at a chunk's first
        # decision is its size, and each later state knows it from the one before.
        size = self.sizes.pop(state.tobytes(), max(float(state[8]), 1.0))
        megabits = 8e-6 * size
        best = 2e-3 * min(path.owd for path in self.network.paths) + megabits / sum(self.network.rates())
        if done:
            # reward = max(0, 100 + (1000 - D) B / 1e6) / 100, D in ms.
            end = 1e-3 * (1000.0 - (100.0 * reward - 100.0) * 1e6 / size)
        else:
            end = float(after[9])
            self.sizes[after.tobytes()] = size
        return state, action, max(-max(end - float(state[9]), 0.0) / best, WORST), after, done


# The part of a run after which the teacher's weight is 0. What is kept was learned after that.
LET_GO = 0.5

# By how much another action's value has to be above that of minRTT, which is hard to beat: what is tried.
MARGINS = (0.0, 0.05, 0.1, 0.2)
FIRST_ONLY, MIN_RTT = 5, 6


def first_alone(states):
    """Path 1 only, if it carries what is left in less than half of path 2's RTT; else minRTT. Much like ECF, and what
    the chunk scheduler's policy is taught first."""
    rtt, window, flying, other, unsent = (states[:, i] for i in (0, 1, 2, 3, 7))
    alone = rtt * (unsent + flying) < 0.5 * other * window
    return torch.where(alone, FIRST_ONLY, MIN_RTT)


def train_dqn(session):
    """Section 15 with another reward (`Hurry`), more exploration, many more chunks than the paper's 300, and a margin in
    favour of minRTT that is part of the exported network. "let_go": the teacher's weight falls to 0. "paper": the paper's
    reward, network, loss and constants from random weights, no teacher and no margin, on our training networks."""
    from .envs import ChunkEnv
    from .networks import DQN_TRAINING

    model = MODELS["dqn"]
    trial = Trial("dqn", ("video:15:5Mbit/s",), "chunk_time", _every_nth(DQN_TRAINING, 50), {})
    keeper = Keeper(model, trial)
    lets_go, paper = session.variant == "let_go", session.variant == "paper"
    amount = session.amount or (24_000 if session.variant else 100_000)
    states = _States(model)
    env = Steady(ChunkEnv(workloads=("video:30:5Mbit/s", "video:30")))
    if paper:
        settings, teacher, margins = dqn.Settings(double=False), None, (0.0,)
    else:
        settings = dqn.Settings(
            hidden=(64, 64, 64), decay_weights=0.03, decay=0.9997, floor=0.5, hold=True, rate=2e-3, rate_end=5e-5, gamma=0.95,
            batch=256, updates=0.3, refresh=500, average=0.999, huber=0.3, start=2000, memory=200_000, lessons=3000, margin=0.2,
            teach=(2.0, 0.0) if lets_go else (2.0, 1.0), taught=LET_GO if lets_go else 1.0,
        )  # fmt: skip
        env, teacher, margins = Hurry(env), first_alone, MARGINS

    def check(values, taken):
        network = copy.deepcopy(values)
        alone = not lets_go or taken >= LET_GO * amount
        plain = network[-1].bias[MIN_RTT].item()
        found = []
        for margin in margins:
            with torch.no_grad():
                network[-1].bias[MIN_RTT] = plain + margin
            found.append(keeper(network, alone)["against_minrtt"])
        best = int(np.argmin(found))
        return {"against_minrtt": found[best], "margin": margins[best]}

    dqn.train(
        env, states, settings, session.seed, amount, session.curve, max(amount // 15, 1), check,
        session.stop, teacher,
    )  # fmt: skip
    env.close()
    network = Values(10, 7, settings.hidden)
    network.load_state_dict(keeper.weights)
    return network, states


class Again(gymnasium.Wrapper):
    """Each connection that is drawn comes `times` times in a row: same network, workload and seed."""

    def __init__(self, env, times):
        super().__init__(env)
        self.times = times
        self.resets = 0

    def reset(self, **more):
        if self.resets % self.times == 0 or more:
            raw, info = self.env.reset(**more)
            name = info["network"]
            networks = self.env.unwrapped.networks
            self.drawn = {
                "network": next(network for network in networks if network.name == name),
                "workload": info["workload"],
                "seed": info["seed"],
            }
            self.resets = 0 if more else self.resets
        else:
            raw, info = self.env.reset(options=self.drawn)
        self.resets += 0 if more else 1
        return raw, info


class Relative(gymnasium.Wrapper):
    """SAILfish's rewards as minus the completion time, in units of what streams take on average on the same network
    and page with stream-based minRTT.

    The scheduler's own reward adds the chosen path's rate, which with rates of 1 to 99 Mbit/s outweighs the seconds that
    it is about, and counts each second alike whether the network is one of 100 ms or of 10 s a page. What is taken off
    here is known at the decision: it is in the state.
    """

    def __init__(self, env):
        super().__init__(env)
        self.usual = {}

    def reset(self, **more):
        raw, info = self.env.reset(**more)
        key = (info["network"], info["workload"])
        if key not in self.usual:
            inner = self.env.unwrapped
            network = next(network for network in inner.networks if network.name == key[0])
            figures = evaluate.run("stream_minrtt", {}, network, key[1], "olia", 2**32)
            self.usual[key] = figures["stream_mean"] if figures else 1.0
        self.scale = self.usual[key]
        self.asked = [raw]
        self.chosen = []
        return raw, info

    def step(self, action):
        self.chosen.append(int(action))
        raw, reward, terminated, truncated, info = self.env.step(action)
        self.asked.append(raw)
        info["rewards"] = [(number, self._relative(number, worth)) for number, worth in info["rewards"]]
        return raw, reward, terminated, truncated, info

    def _relative(self, number, worth):
        state = self.asked[number]
        there = state[:, 3] > 0.0
        rate = (state[self.chosen[number], 1] - 1.0) / 99.0
        rtts = 0.8 * ((state[there, 3] - 1.0) / 120.0).sum()
        # `loss_weight` is 0 in the environment's configuration.
        # The bound: a stream that waits for a loss to be noticed would outweigh a page.
        return max(float(worth - rate + rtts) / self.scale, -5.0)


def train_sailfish(session):
    """Section 16 with its repairs. "oracle": the policy sees the links' true rates, as the thesis' does; "thesis": that,
    and the reward of section 4.1 as it stands; "paper": that, and the constants of the thesis' code, each page once."""
    from .envs import PageEnv
    from .networks import SAILFISH_TRAINING, TRAINING_PAGES

    model = MODELS["sailfish"]
    workloads = tuple(f"page:{page}" for page in TRAINING_PAGES)
    rates = "estimate" if session.variant is None else "oracle"
    tried = _every_nth(workloads, 4)
    trial = Trial("sailfish", tried, "stream_mean", _every_nth(SAILFISH_TRAINING, 12), {"rates": rates})
    keeper = Keeper(model, trial)
    amount = session.amount or 3000
    torch.manual_seed(session.seed)
    if session.variant == "paper":
        settings = a2c.Settings(entropy_pages=amount)
    else:
        settings = a2c.Settings(
            actor_rate=1e-3, pages=8, group=4, gamma=0.9, normalise=True, clip=1.0, entropy=(0.03, 0.003),
            entropy_pages=amount // 2,
        )  # fmt: skip
    states = _States(model)
    if session.variant in ("thesis", "paper"):
        env = Steady(PageEnv(workloads=workloads, rates=rates))
    else:
        env = Relative(Steady(PageEnv(workloads=workloads, rates=rates, scheduler={"loss_weight": 0.0})))
    env = Again(env, settings.group)
    a2c.train(
        env, states, settings, Actor(), Critic(), session.seed, amount, session.curve, max(amount // 15, 1),
        lambda actor, _: keeper(actor), session.stop,
    )  # fmt: skip
    env.close()
    network = Actor()
    network.load_state_dict(keeper.weights)
    return network, states


class Received(gymnasium.Wrapper):
    """GAPS' rewards from the receiver's own queue, which the paper's receiver reports, in the paper's form: minus the
    queue, here in units of 100 kB. The scheduler's own reward is made of what its sender can know of that queue."""

    def step(self, action):
        raw, _, terminated, truncated, info = self.env.step(action)
        return raw, -info.get("queue", 0.0) / 100.0, terminated, truncated, info


class Usual(gymnasium.Wrapper):
    """GAPS' rewards in units of the mean out-of-order queue that minRTT has on the same network.

    In units of 100 kB for all, networks with long queues outweigh the others by orders.
    """

    def __init__(self, env):
        super().__init__(env)
        self.usual = {}

    def reset(self, **more):
        raw, info = self.env.reset(**more)
        key = (info["network"], info["congestion"])
        if key not in self.usual:
            inner = self.env.unwrapped
            network = next(network for network in inner.networks if network.name == key[0])
            figures = evaluate.run("minrtt", {}, network, inner.workloads[0], key[1], 2**32)
            # Queues below 20 kB do no harm, and are not to count like others.
            self.usual[key] = max(figures["oqs_mean"], 20.0) if figures else 100.0
        self.scale = 100.0 / self.usual[key]
        return raw, info

    def step(self, action):
        raw, reward, terminated, truncated, info = self.env.step(action)
        return raw, max(reward * self.scale, -10.0), terminated, truncated, info


def starting_gaps(states):
    """The changes that bring each GAP to what STMS would start it with now: `c_f (d_i / d_f - 1) / 2` packets.

    What GAPS' policy is taught first. The scheduler itself takes that value once, when a path is first seen, and
    windows are small then. States are normalised: d in 100 ms, c and the GAP in 100 packets.
    """
    present = states[:, :, 0] > 0.5
    delay = torch.where(present, states[:, :, 1].clamp(min=1e-3), torch.inf)
    fast = delay.argmin(1, keepdim=True)
    window = states[:, :, 2].gather(1, fast)
    wanted = 100.0 * window * (torch.where(present, delay, 0.0) / delay.gather(1, fast) - 1.0) / 2.0
    change = ((wanted - 100.0 * states[:, :, 7]) / 8.0).clamp(-1.0, 1.0)
    return torch.where(present, change, 0.0)


def train_gaps(session):
    """Section 17 over the compact encoder. "let_go": the reward is made of the receiver's own queue, and the teacher's
    weight falls to 0; "paper": that reward in kilobytes alike for all networks, DDPG with the paper's constants, and no
    teacher."""
    from .envs import GapEnv
    from .nets.steering import Steering
    from .networks import GAPS_TRAINING

    model = MODELS["gaps"]
    # The paper's controller, and the one of all others: windows and with them queues differ by a factor of 10.
    congestions = ("balia", "olia")
    trial = Trial("gaps", ("bulk:4s",), "oqs_mean", _every_nth(GAPS_TRAINING, 24), {}, congestions)
    keeper = Keeper(model, trial)
    lets_go = session.variant == "let_go"
    amount, trials = {None: (20_000, 30), "let_go": (12_000, 15), "paper": (5_000, 15)}[session.variant]
    amount = session.amount or amount
    torch.manual_seed(session.seed)
    env = Steady(GapEnv(workloads=("bulk:6s",), congestion=congestions))
    if session.variant == "paper":
        settings, teacher = ddpg.Settings(tau=1e-3, noise_end=1.0, clip=None), None
        env = Received(env)
    else:
        settings = ddpg.Settings(
            gamma=0.95, delay=2, updates=0.5, actor_rate=3e-4, start=2000, lessons=1500, sigma=0.15,
            teach=(2.0, 0.0) if lets_go else (2.0, 0.5), taught=LET_GO if lets_go else 1.0,
        )  # fmt: skip
        teacher = starting_gaps
        env = Usual(Received(env) if lets_go else env)
    states = _States(model)
    ddpg.train(
        env, states, settings, Steering(), session.seed, amount, session.curve, max(amount // trials, 1),
        lambda network, taken: keeper(network, not lets_go or taken >= LET_GO * amount), session.stop, teacher,
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
# Other ways to train them, for comparisons.
VARIANTS = {"dqn": ("let_go", "paper"), "sailfish": ("oracle", "thesis", "paper"), "gaps": ("let_go", "paper")}


def states_file(name):
    return TRAINING / "states" / f"{name}.npz"


def curve_file(name):
    return TRAINING / "curves" / f"{name}.csv"


def result_file(name):
    return TRAINING / "results" / f"{name}.json"


def model_file(name):
    return SHIPPED / f"{name}.onnx"


def train(name, seed, minutes, amount, out, curves, command, variant=None):
    """Trains, and writes the model, its curve and some states; `out` and `curves` are folders. Returns the ONNX file."""
    if variant is not None and variant not in VARIANTS[name]:
        raise ValueError(f"{name} has no variant {variant!r}, only {', '.join(VARIANTS[name])}")
    from .networks import TRAINING as networks

    curve = Curve(Path(curves) / f"{name}.csv" if curves else None)
    network, states = RECIPES[name](Session(seed, minutes, amount, curve, variant))
    curve.save()
    shipped = bool(curves) and Path(curves) == curve_file(name).parent
    if curves:
        states.save(states_file(name) if shipped else Path(curves) / f"{name}.npz")
    more = {"networks": f"{len(networks[name])}, {name.upper()}_TRAINING in training/mpquic_training/networks.py"}
    if shipped:
        more["curve"] = f"training/curves/{name}.csv"
    return export.write(network, MODELS[name], Path(out) / f"{name}.onnx", command, seed, more)


def untrained(name, seed, out, command):
    """Writes the network as training begins with it."""
    from .nets.steering import Steering

    torch.manual_seed(seed)
    network = {"dqn": Values, "sailfish": Actor, "gaps": Steering}[name]()
    return export.write(network, MODELS[name], Path(out) / f"{name}.onnx", command, seed)
