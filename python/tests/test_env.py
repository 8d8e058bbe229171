"""The environment whose agent chooses paths."""

import numpy as np
import pytest

import mpquic_lab as lab

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install mpquic-lab[gym]")

from mpquic_lab.env import FEATURES, PathEnv  # noqa: E402

NETWORK = "50Mbit 20ms | 10Mbit 30ms"
RTT, ROOM = FEATURES.index("smoothed_rtt"), FEATURES.index("can_send")


def lowest_rtt(paths: np.ndarray) -> int:
    """What minRTT does once every path has a sample."""
    rtts = np.where(paths[:, ROOM] > 0, np.where(paths[:, RTT] > 0, paths[:, RTT], 1e6), np.inf)
    return int(np.argmin(rtts))


def play(env: PathEnv, seed: int) -> tuple[float, lab.Run, int]:
    observation, info = env.reset(seed=1, options={"run_seed": seed})
    total, steps, over = 0.0, 0, False
    while not over:
        assert env.observation_space.contains(observation)
        assert info["action_mask"].any()
        observation, reward, over, _, info = env.step(lowest_rtt(observation["paths"]))
        assert reward <= 0.0
        total, steps = total + reward, steps + 1
    return total, info["run"], steps


def test_an_agent_that_takes_the_lowest_rtt_is_as_good_as_minrtt() -> None:
    env = PathEnv(NETWORK, "file:1MB")
    total, run, steps = play(env, 3)
    assert steps > 50
    plain = lab.cell(NETWORK, "file:1MB", {"name": "minrtt", "config": {"wait_for_pacer": False}}, seed=3)
    assert run.value == pytest.approx(plain.value, rel=0.1)
    assert 0.3 * run.value < -total < run.value
    again = play(env, 3)
    assert again[0] == total and again[1].trace_hash == run.trace_hash
    assert play(env, 4)[1].trace_hash != run.trace_hash
    env.close()


def test_the_agent_decides() -> None:
    shares = []
    for slot in (0, 1):
        env = PathEnv("20Mbit 20ms | 20Mbit 20ms", "file:300kB")
        env.reset(seed=1)
        over = False
        while not over:
            _, _, over, _, info = env.step(slot)
        shares.append(info["run"].values["path1_share"])
        env.close()
    assert shares[0] > 90.0 and shares[1] < 50.0


def test_an_episode_may_be_left_and_begun_anew() -> None:
    env = PathEnv([NETWORK, "20Mbit 5ms | 20Mbit 50ms"], "file:20MB")
    for seed in range(5):
        env.reset(seed=seed)
        env.step(0)
    env.close()
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match="one number of paths"):
        PathEnv(["1Mbit 1ms", NETWORK])
    with pytest.raises(lab.ExperimentError, match="--workload"):
        PathEnv(NETWORK, "file").reset()
