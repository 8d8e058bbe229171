"""The schedulers that ask a network, stepped one decision at a time; whole runs; policies as the sender runs them."""

from . import _native

if not _native.NEURAL:
    raise ImportError("this build of mpquic_lab has no schedulers that ask a network: build it with the feature `neural`")

KINDS = _native.gym.KINDS
Policy = _native.gym.Policy
Session = _native.gym.Session
SimulationError = _native.SimulationError
describe = _native.gym.describe
run_episode = _native.gym.run_episode

__all__ = ["KINDS", "Policy", "Session", "SimulationError", "describe", "run_episode"]
