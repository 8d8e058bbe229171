"""The environments over the real simulator: their contract, determinism, and that stepping from Python is what a sender does."""

import gc
import pathlib
import threading

import gymnasium
from mpquic_lab import gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from mpquic_training import networks as nets
from mpquic_training.envs import ENVS, ChunkEnv, GapEnv, PageEnv
from mpquic_training.session import Session, evaluate, play

MODELS = pathlib.Path(__file__).parents[2] / "models"
WORKLOADS = {"dqn": "video:4:5Mbit/s", "sailfish": "page:alipay", "gaps": "bulk:1s"}
KINDS = [kind for kind in ENVS if kind in gym.KINDS]


def env_of(kind, **settings):
    return ENVS[kind](workloads=[WORKLOADS[kind]], **settings)


def test_all_kinds_are_there():
    assert sorted(gym.KINDS) == sorted(ENVS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_shapes_are_the_schedulers(kind):
    told = gym.describe(kind)
    env = ENVS[kind]
    assert told["state"] == np.prod(env.shape)
    assert len(told["features"]) == env.shape[-1]
    outputs = {"dqn": 7, "sailfish": 4, "gaps": 8}
    assert told["outputs"] == outputs[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_environments_keep_gymnasiums_contract(kind):
    env = env_of(kind)
    check_env(env, skip_render_check=True)
    env.close()


def trajectory(kind, seed, episodes=2):
    """All that an environment says to actions that follow from the seed alone."""
    env = env_of(kind)
    seen = []
    env.action_space.seed(seed)
    for episode in range(episodes):
        state, info = env.reset(seed=seed) if episode == 0 else env.reset()
        seen.append(state.tobytes())
        over = False
        while not over:
            state, reward, terminated, truncated, info = env.step(env.action_space.sample())
            assert np.isfinite(state).all() and np.isfinite(reward)
            seen.append((state.tobytes(), reward, terminated, info["rewards"]))
            over = terminated or truncated
    env.close()
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_and_answers_same_states(kind):
    first = trajectory(kind, 5)
    assert first == trajectory(kind, 5)
    assert first != trajectory(kind, 6)


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_are_told_by_decision(kind):
    env = env_of(kind)
    env.reset(seed=3)
    decisions, total, earned = 0, 0.0, []
    while True:
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        decisions += 1
        total += reward
        earned += info["rewards"]
        if terminated or truncated:
            break
    assert earned and decisions > 1
    assert sum(reward for _, reward in earned) == pytest.approx(total)
    # A decision before the episode's first would have a negative number.
    assert all(0 <= number < decisions for number, _ in earned)
    if kind == "sailfish":
        # Each stream once.
        assert sorted(number for number, _ in earned) == list(range(decisions))
    with pytest.raises(RuntimeError, match="reset"):
        if kind == "dqn":
            env.close()
        env.step(env.action_space.sample())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("congestion", ["olia", "bbr"])
def test_stepping_with_a_networks_answers_is_running_the_network(kind, congestion):
    network, workload = nets.HELD_BACK[kind][0], WORKLOADS[kind]
    file = MODELS / f"{kind}.onnx"
    policy = gym.Policy(file)
    stepped, rewards = play(policy.run, kind, network, workload, congestion, 7)
    run = evaluate(kind, network, workload, congestion, 7, {"model": str(file)}, client="minrtt")
    assert (stepped["policy"].pop("engine"), run["policy"].pop("engine")) == ("python", policy.engine)
    assert stepped == run
    assert run["policy"]["decisions"] > 1 and rewards
    random = evaluate(kind, network, workload, congestion, 7, {"model": "random"}, client="minrtt")
    assert random["policy"]["engine"] == "random" and random["trace_hash"] != run["trace_hash"]


@pytest.mark.parametrize("kind", KINDS)
def test_policies_of_both_engines_agree(kind):
    file = MODELS / f"{kind}.onnx"
    fastest, tract = gym.Policy(file), gym.Policy(file, engine="tract")
    assert tract.engine == "tract"
    states = np.abs(np.random.default_rng(1).normal(size=(50, fastest.inputs))).astype(np.float32)
    answers = fastest.run_batch(states)
    assert answers.shape == (50, fastest.outputs)
    np.testing.assert_array_equal(answers, [fastest.run(state) for state in states])
    np.testing.assert_allclose(answers, tract.run_batch(states), atol=1e-4)
    with pytest.raises(ValueError, match="inputs"):
        fastest.run(states[0, 1:])
    with pytest.raises(ValueError, match="unknown engine"):
        gym.Policy(file, engine="slowest")
    with pytest.raises(ValueError, match="no-such"):
        gym.Policy("no-such.onnx")


def test_paths_that_are_not_there_are_not_chosen():
    env = env_of("sailfish")
    state, _ = env.reset(seed=2)
    over = False
    while not over:
        present = state[:, 0] == 1
        assert present.any() and not present[3]
        last = np.flatnonzero(present)[-1]
        wanted = 3 if env.np_random.random() < 0.5 else last
        state, _, over, _, info = env.step(wanted)
        (slot,) = info["taken"]
        assert present[int(slot)] and (slot == wanted or wanted == 3)
        assert not info["fell_back"]


def test_transitions_of_chunks_are_whole():
    """Over a slow second path, where the reward for a chunk comes after the first decision on the next one."""
    env = ChunkEnv([nets.DQN_PAPER[0]], ["video:12:5Mbit/s"])
    env.action_space.seed(4)
    state, _ = env.reset(seed=4)
    states, actions, transitions, late = [state], [], [], False
    over = done = False
    while not over:
        if done:
            again, _ = env.reset()
            np.testing.assert_array_equal(again, state)
        actions.append(env.action_space.sample())
        state, _, done, truncated, info = env.step(actions[-1])
        transitions += info["transitions"]
        # What waits after a chunk's last reward is a decision on the next chunk, and not always the first one.
        late = late or (done and state[9] > 0)
        over = "outcome" in info
        if not over:
            states.append(state)
    assert late
    numbers = []
    for state, action, reward, following, done in transitions:
        number = next(n for n, known in enumerate(states) if known is state or np.array_equal(known, state))
        numbers.append((number, done))
        assert actions[number] == action and reward >= 0
        if done:
            # The next decision is on another chunk, of which nothing was sent.
            assert not following.any()
            assert number + 1 == len(states) or states[number + 1][9] == 0
        else:
            np.testing.assert_array_equal(following, states[number + 1])
            assert following[9] > state[9]
    assert len(set(numbers)) == len(numbers)
    assert sum(done for _, done in numbers) == 12


def test_evaluation_takes_any_scheduler():
    network = nets.DQN_PAPER[0]
    for scheduler, config in [("minrtt", None), ("ecf", {}), ("stms", None), ("ecf_a", {"p_wait": 0.5})]:
        told = evaluate(scheduler, network, "file:200kB", seed=1, config=config)
        again = evaluate(scheduler, network, "file:200kB", seed=1, config=config)
        assert told["primary"] == "completion" and 0 < told["values"]["completion"] < 5
        assert told == again and told["policy"] is None


def test_what_cannot_be_is_said():
    network = nets.DQN_PAPER[0]
    with pytest.raises(ValueError, match="unknown kind"):
        Session("dqm", network, "video:1")
    with pytest.raises(ValueError, match="unknown workload"):
        Session("dqn", network, "vidio:1")
    with pytest.raises(ValueError, match="scheduler `dqn`"):
        Session("dqn", network, "video:1", scheduler={"modell": "random"})
    with pytest.raises(ValueError, match="run"):
        Session("dqn", network, "video:1", scheduler={"run": "thread"})
    with pytest.raises(ValueError, match="did you mean `minrtt`"):
        evaluate("minrt", network, "file:1kB")
    with pytest.raises(ValueError, match="at least one path"):
        gym.run_episode("minrtt", {"paths": []}, "file:1kB")
    with pytest.raises(ValueError, match="unknown field"):
        gym.run_episode("minrtt", {"paths": [], "mtv": 1}, "file:1kB")
    dark = nets.Network("dark", (nets.Path(10, 5, 100.0),))
    with pytest.raises(gym.SimulationError):
        evaluate("minrtt", dark, "file:1kB")


def test_answers_and_states_take_turns():
    session = Session("dqn", nets.DQN_PAPER[0], "video:2:5Mbit/s")
    with pytest.raises(ValueError, match="call next"):
        session.answer(np.zeros(7))
    assert session.next().state is not None
    with pytest.raises(ValueError, match="not answered"):
        session.next()
    with pytest.raises(ValueError, match="expected 7"):
        session.answer(np.zeros(6))
    session.answer(np.zeros(7))
    session.close()
    with pytest.raises(ValueError, match="over"):
        session.next()


def test_an_answer_that_cannot_be_followed_falls_back():
    def silly(_state):
        return np.full(7, np.nan)

    told, _ = play(silly, "dqn", nets.DQN_PAPER[0], "video:2:5Mbit/s")
    assert told["policy"]["not_finite"] == told["policy"]["decisions"] > 0


def test_an_abandoned_session_ends_its_thread():
    with open("/proc/self/status") as status:
        if not any(line.startswith("Threads") for line in status):
            pytest.skip("threads cannot be counted here")

    def threads():
        with open("/proc/self/status") as status:
            return int(next(line for line in status if line.startswith("Threads")).split()[1])

    before = threads()
    sessions = [Session("dqn", nets.DQN_PAPER[0], "video:300:5Mbit/s", seed=seed) for seed in range(4)]
    for session in sessions:
        session.next()
    assert threads() == before + 4
    del session, sessions
    gc.collect()
    assert threads() == before


def test_the_simulation_leaves_python_free():
    """Whole runs in threads of their own give what they give one after the other."""
    network = nets.GAPS_PAPER[0]
    alone = [evaluate("minrtt", network, "bulk:1s", seed=seed) for seed in range(3)]
    together = [None] * 3

    def run(seed):
        together[seed] = evaluate("minrtt", network, "bulk:1s", seed=seed)

    workers = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert together == alone


def test_training_networks_are_not_those_held_back():
    for kind, training in nets.TRAINING.items():
        held = nets.HELD_BACK[kind]
        assert len(training) >= 100 and len(held) >= 35
        names = [network.name for network in training + held]
        assert len(set(names)) == len(names)
        assert not {network.paths for network in training} & {network.paths for network in held}


def test_every_network_can_be():
    for networks in (*nets.TRAINING.values(), *nets.HELD_BACK.values()):
        for network in networks:
            told = evaluate("minrtt", network, "file:20kB:warm", seed=1)
            assert told["values"]["completion"] > 0, network.name


def test_envs_are_gymnasiums():
    for env in (ChunkEnv, PageEnv, GapEnv):
        assert issubclass(env, gymnasium.Env)


def test_the_receivers_queue_is_what_the_outcome_measures():
    env = GapEnv(workloads=["bulk:2s"], congestion="olia")
    env.reset(seed=5)
    queues, known, over = [], [], False
    while not over:
        _, reward, _, over, info = env.step(np.zeros(8, np.float32))
        if info["rewarded"]:
            queues.append(info["queue"])
            known.append(-100.0 * reward)
    measured = info["outcome"]["values"]
    # The outcome's mean is over arrivals; each of these is the mean of some of them.
    assert 0.0 <= min(queues) < measured["oqs_mean"] < max(queues) <= measured["oqs_max"]
    # Not what the sender knows of it.
    assert any(abs(queue - of_sender) > 1.0 for queue, of_sender in zip(queues, known, strict=True))
    env.close()
