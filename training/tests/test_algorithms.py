"""The three algorithms learn what there is to learn in environments of the real ones' spaces, and repeat themselves."""

import numpy as np
import pytest
import toys
import torch
from mpquic_training import a2c, ddpg, dqn
from mpquic_training.curve import Curve
from mpquic_training.nets.stream import Actor, Critic
from mpquic_training.nets.gaps import Size
from mpquic_training.nets.steering import Steering
from mpquic_training.replay import Replay
from mpquic_training.states import DQN, GAPS, SAILFISH


def quiet(*_, **__):
    """Nobody reads a test's progress."""


def run_dqn(seed, actions, **settings):
    curve = Curve(say=quiet)
    agent = dqn.train(toys.Chunk(), DQN.normalise, dqn.Settings(**settings), seed, actions, curve, every=200)
    return agent, curve.rows


def run_a2c(seed, pages, **settings):
    torch.manual_seed(seed)
    curve = Curve(say=quiet)
    agent = a2c.train(
        toys.Page(), SAILFISH.normalise, a2c.Settings(**settings), Actor(8, 16), Critic(8, 16), seed, pages, curve, 50
    )
    return agent, curve.rows


def run_ddpg(seed, actions, **settings):
    torch.manual_seed(seed)
    curve = Curve(say=quiet)
    agent = ddpg.train(
        toys.Gap(), GAPS.normalise, ddpg.Settings(**settings), Steering(Size(8, 1, 2, 16)), seed, actions, curve, every=200
    )
    return agent, curve.rows


@pytest.mark.parametrize("double", [False, True])
def test_dqn_learns_which_action_a_state_wants(double):
    agent, _ = run_dqn(1, 6000, floor=0.1, double=double)
    env = toys.Chunk()
    states = [env.reset(seed=seed)[0].copy() for seed in range(300)]
    right = [agent.greedy(DQN.normalise(state)) == (6 if state[3] < 100 else 5) for state in states]
    assert np.mean(right) > 0.85, "chance is 0.14"


def test_a2c_learns_the_path_with_the_least_rtt_from_rewards_that_come_late():
    agent, _ = run_a2c(1, 2400, entropy=(0.1, 0.01), entropy_pages=1000, actor_rate=1e-3, gamma=0.0)
    env = toys.Page()
    right = []
    for seed in range(300):
        raw, _ = env.reset(seed=seed)
        state = SAILFISH.normalise(raw)
        with torch.no_grad():
            logits = agent.actor(torch.from_numpy(state[None]))[0].numpy()
        logits = np.where(raw[:, 0] > 0, logits, -np.inf)
        right.append(np.argmax(logits) == np.argmin(np.where(raw[:, 0] > 0, raw[:, 3], np.inf)))
    assert np.mean(right) > 0.8, "chance is below 0.5"


def test_ddpg_learns_to_bring_each_gap_to_its_place():
    agent, rows = run_ddpg(1, 2500, start=300, actor_rate=1e-3, gamma=0.9, tau=0.01)
    env = toys.Gap()
    off = []
    for seed in range(50):
        raw, _ = env.reset(seed=seed)
        for _ in range(10):
            raw, reward, _, _, _ = env.step(agent.wanted(GAPS.normalise(raw)))
        off.append(-reward)
    assert np.mean(off) < 0.2, "doing nothing leaves 0.5"


def test_one_seed_gives_one_curve():
    for run, amount in ((run_dqn, 400), (run_a2c, 50), (run_ddpg, 200)):
        more = {"start": 100} if run is run_ddpg else {}
        _, first = run(5, amount, **more)
        _, again = run(5, amount, **more)
        _, other = run(6, amount, **more)
        assert first == again
        assert first != other


def test_returns_keep_the_last_reward():
    assert a2c.returns([1.0, 2.0, 4.0], 0.5).tolist() == [3.0, 4.0, 4.0]


def test_a_decision_without_a_reward_is_left_out():
    page = a2c.Page([np.full((4, 13), i) for i in range(3)], [0, 1, 2], {2: 8.0, 0: 1.0})
    states, actions, gains = page.arrays(0.5)
    assert states[:, 0, 0].tolist() == [0, 2]
    assert actions.tolist() == [0, 2]
    assert gains.tolist() == [5.0, 8.0]


def test_gradients_of_a_batch_are_used_once():
    agent = a2c.A2c(a2c.Settings(pages=2), Actor(8, 16), Critic(8, 16), 0)
    steps = []
    agent._learn = lambda states, actions, gains, lengths: steps.append(len(states))
    page = a2c.Page([np.zeros((4, 13), np.float32)], [0], {0: 1.0})
    for _ in range(5):
        agent.page(page)
    assert steps == [2, 2]


def test_epsilon_falls_per_action_to_its_floor():
    agent = dqn.Dqn(dqn.Settings(floor=0.5), 10, 7, 0)
    state = np.zeros(10, np.float32)
    agent.act(state)
    assert agent.epsilon == pytest.approx(0.997)
    for _ in range(400):
        agent.act(state)
    assert agent.epsilon == 0.5


def test_the_acting_network_changes_only_at_a_refresh():
    agent = dqn.Dqn(dqn.Settings(refresh=3, decay=0.0), 10, 7, 0)
    state = np.ones(10, np.float32)
    before = agent.acting(state).copy()
    with torch.no_grad():
        for parameter in agent.values.parameters():
            parameter.add_(1.0)
    agent.act(state)
    agent.act(state)
    assert np.array_equal(agent.acting(state), before)
    agent.act(state)
    assert not np.allclose(agent.acting(state), before)


def test_noise_is_pulled_back_to_zero():
    noise = ddpg.Noise(1000, 0.15, 0.2, np.random.default_rng(0))
    for _ in range(200):
        value = noise(1.0)
    # The stationary deviation of x' = (1 - theta) x + sigma n.
    assert np.std(value) == pytest.approx(0.2 / np.sqrt(1 - 0.85**2), rel=0.15)


def test_a_teachers_actions_are_copied_before_anything_is_earned():
    settings = dqn.Settings(start=200, lessons=600, teach=(1.0, 1.0), rate=2e-3, average=0.9)
    teacher = lambda states: torch.where(states[:, 3] < 1.0, 2, 4)  # noqa: E731
    agent = dqn.train(
        toys.Chunk(), DQN.normalise, settings, 1, 201, Curve(say=quiet), every=1000, teacher=teacher
    )
    env = toys.Chunk()
    states = [env.reset(seed=seed)[0].copy() for seed in range(200)]
    same = [agent.greedy(DQN.normalise(state)) == (2 if state[3] < 100 else 4) for state in states]
    assert np.mean(same) > 0.85


def test_a_teacher_that_lets_go_has_no_say_afterwards():
    wrong = lambda states: torch.ones(len(states), 8)  # noqa: E731
    agents = [
        dqn.Dqn(dqn.Settings(start=20, teach=(2.0, 0.0), taught=0.5), 10, 7, 1, wrong),
        ddpg.Ddpg(
            ddpg.Settings(start=64, teach=(2.0, 0.0), taught=0.5), Steering(Size(8, 1, 2, 16)), (8, 9), (8,), 1, wrong
        ),
    ]
    for agent in agents:
        weights = []
        for progress in (0.0, 0.25, 0.5, 1.0):
            agent.weigh(progress)
            weights.append(agent.teach)
        assert weights == [2.0, 1.0, 0.0, 0.0]


def test_an_explored_action_can_be_held():
    agent = dqn.Dqn(dqn.Settings(floor=1.0, hold=True), 10, 7, 0)
    state = np.zeros(10, np.float32)
    first = agent.act(state)
    assert {agent.act(state) for _ in range(20)} == {first}
    agent.held = None
    assert len({agent.act(state) for agent.held in [None] * 40}) > 1


def test_a_full_replay_forgets_the_oldest():
    memory = Replay(3, (1,), (), np.int64)
    for i in range(5):
        memory.store([i], i, i, [i + 1], False)
    assert len(memory) == 3
    assert sorted(memory.rewards.tolist()) == [2, 3, 4]


def test_what_a_group_of_pages_has_in_common_is_taken_off():
    advantages = np.array([1, 2, 3, 3, 4, 10, 20, 10, 20], np.float32)
    left = a2c.without_common(advantages, [3, 2, 2, 2], 2)
    assert left.tolist() == [-1, -1, 0, 1, 1, 0, 0, 0, 0]
