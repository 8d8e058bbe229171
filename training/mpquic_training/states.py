"""What each policy is shown and answers: features with units, normalisation, shapes; trains and exports nothing.

Names, units and order are those of the schedulers' `FEATURES` in `crates/sched/src/neural/` and
`crates/sched-neural/src/`, which refuse a card that differs. States are in raw units everywhere, in Rust and in Python; `normalise` computes what `mpquic_infer::Policy`
computes from the card, in the same f32 arithmetic.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Feature:
    """One quantity: `(x - offset) / scale`, held within `clip`. `typical` bounds the random states of checks."""

    name: str
    unit: str
    scale: float = 1.0
    offset: float = 0.0
    clip: tuple[float, float] | None = None
    typical: tuple[float, float] = (0.0, 1.0)
    whole: bool = False


@dataclass(frozen=True)
class Model:
    """A policy's inputs and outputs."""

    name: str
    title: str
    source: str
    shape: tuple[int, ...]
    axis: int
    features: tuple[Feature, ...]
    output: str
    output_shape: tuple[int, ...]
    meaning: tuple[str, ...]

    def __post_init__(self):
        assert self.shape[0] == 1 and self.shape[self.axis] == len(self.features), self.name

    @cached_property
    def _bounds(self):
        """Offset, scale, low and high, each of a shape that broadcasts over states."""
        around = [1] * (len(self.shape) - 1)
        around[self.axis - 1] = -1

        def along(values):
            return np.array(values, np.float32).reshape(around)

        return (
            along([f.offset for f in self.features]),
            along([f.scale for f in self.features]),
            along([f.clip[0] if f.clip else -np.inf for f in self.features]),
            along([f.clip[1] if f.clip else np.inf for f in self.features]),
        )

    def normalise(self, raw):
        """What the network sees of raw states, `(state)` or `(batch, state)`, without the leading 1 of `shape`."""
        offset, scale, low, high = self._bounds
        return np.clip((np.asarray(raw, np.float32) - offset) / scale, low, high)

    def random_states(self, count, rng):
        """States with each feature uniform over what is typical of it, one in eight beyond its clip."""
        states = np.empty((count, *self.shape[1:]), np.float32)
        moved = np.moveaxis(states, self.axis, -1)
        for i, feature in enumerate(self.features):
            low, high = feature.typical
            values = rng.uniform(low, high, moved.shape[:-1])
            if not feature.whole:
                values *= np.where(rng.random(values.shape) < 0.125, 10.0, 1.0)
            moved[..., i] = np.round(values) if feature.whole else values
        return states


def _ms(name, **more):
    return Feature(name, "ms", scale=100.0, clip=(0.0, 10.0), typical=(0.0, 400.0), **more)


def _bytes(name, clip=20.0):
    return Feature(name, "bytes", scale=1e5, clip=(0.0, clip), typical=(0.0, 1.5e6))


DQN = Model(
    name="dqn",
    title="chunk scheduler by deep Q-learning",
    source="Lee & Yoo 2022, Sensors 22:6333; state, actions and reward as specified for this project",
    shape=(1, 10),
    axis=1,
    features=(
        _ms("rtt of path 1"),
        _bytes("window of path 1"),
        _bytes("in flight on path 1"),
        _ms("rtt of path 2"),
        _bytes("window of path 2"),
        _bytes("in flight on path 2"),
        _bytes("credit", 10.0),
        _bytes("chunk not sent"),
        _bytes("chunk not acknowledged in order"),
        Feature("time since the chunk was asked for", "s", clip=(0.0, 10.0), typical=(0.0, 3.0)),
    ),
    output="q",
    output_shape=(1, 7),
    meaning=(
        "value of path 1 with probability 0.25",
        "value of path 1 with probability 0.5",
        "value of path 1 with probability 0.75",
        "value of minRTT for 15 ms, then path 1",
        "value of minRTT for 30 ms, then path 1",
        "value of path 1 only",
        "value of minRTT",
    ),
)

SAILFISH = Model(
    name="sailfish",
    title="stream scheduler by advantage actor-critic",
    source="Kanakis 2020 (SAILfish), MSc thesis, with per-path logits for N paths (ours)",
    shape=(1, 4, 13),
    axis=2,
    features=(
        Feature("present", "0 or 1", whole=True),
        Feature("rate", "Mbit/s", offset=1.0, scale=99.0, clip=(-1.0, 5.0), typical=(1.0, 100.0)),
        Feature("retransmitted or lost", "packets", scale=20.0, clip=(0.0, 10.0), typical=(0.0, 60.0), whole=True),
        *(
            Feature(name, "ms", offset=1.0, scale=120.0, clip=(-1.0, 10.0), typical=(0.0, 200.0))
            for name in ("smoothed RTT", *(f"smoothed RTT {back} before" for back in range(1, 8)))
        ),
        Feature("bound and not acknowledged", "kB", scale=1000.0, clip=(0.0, 10.0), typical=(0.0, 3000.0)),
        Feature("size of the stream", "kB", scale=100.0, clip=(0.0, 20.0), typical=(0.0, 500.0)),
    ),
    output="logits",
    output_shape=(1, 4),
    meaning=("logit of the path in this slot",),
)

GAPS = Model(
    name="gaps",
    title="gap steering by DDPG over a Transformer encoder",
    source="Liao et al. 2021 (GAPS), the compact graph (embedding 32, 2 encoders; ours)",
    shape=(1, 8, 9),
    axis=2,
    features=(
        Feature("present", "0 or 1", whole=True),
        Feature("d", "ms", scale=100.0, clip=(0.0, 10.0), typical=(0.0, 200.0)),
        Feature("c", "packets", scale=100.0, clip=(0.0, 20.0), typical=(0.0, 600.0)),
        Feature("delivery rate", "Mbit/s", scale=10.0, clip=(0.0, 50.0), typical=(0.0, 100.0)),
        Feature("loss rate", "1", clip=(0.0, 1.0), typical=(0.0, 0.1)),
        Feature("receive window", "MB", clip=(0.0, 20.0), typical=(0.0, 6.0)),
        Feature("acked since the last decision", "packets", scale=10.0, clip=(0.0, 20.0), typical=(0.0, 50.0)),
        # Ours: an answer changes a gap, and nothing else tells one that is too long from one that is too short.
        Feature("gap", "packets", scale=100.0, clip=(0.0, 20.0), typical=(0.0, 300.0)),
        Feature("out of order", "kB", scale=100.0, clip=(0.0, 20.0), typical=(0.0, 500.0)),
    ),
    output="change",
    output_shape=(1, 8),
    meaning=("change of the GAP of the path in this slot, in units of 8 packets",),
)

MODELS = {model.name: model for model in (DQN, SAILFISH, GAPS)}
