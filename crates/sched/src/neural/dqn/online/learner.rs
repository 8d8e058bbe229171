//! Q-learning with a replay and a target network (Lee and Yoo, algorithm 1), a step at a time.

use mpquic_bandit::Draw;

use super::DqnOnlineConfig;
use super::network::{Adam, HIDDEN, Network};
use super::replay::{Replay, Transition};

/// Learns what actions are worth.
#[derive(Debug)]
pub(super) struct Learner {
    network: Box<Network<HIDDEN>>,
    target: Box<Network<HIDDEN>>,
    gradient: Box<Network<HIDDEN>>,
    adam: Adam<HIDDEN>,
    replay: Replay,
    draw: Draw,
    batch: usize,
    gamma: f32,
    rate: f32,
    steps: u64,
}

impl Learner {
    /// One that has learned nothing.
    pub(super) fn new(config: &DqnOnlineConfig) -> Self {
        // The actions' draws have the seed itself.
        let mut draw = Draw::new(config.seed ^ 0x6c65_6172_6e65_7221);
        let network = Network::new(&mut draw);
        let rate = config.learning_rate as f32;
        Self {
            target: network.clone(),
            network,
            gradient: Network::zero(),
            adam: Adam::new(rate),
            replay: Replay::new(config.replay),
            draw,
            batch: config.batch,
            gamma: config.gamma as f32,
            rate,
            steps: 0,
        }
    }

    /// Something to learn from.
    pub(super) fn remember(&mut self, transition: Transition) {
        self.replay.push(transition);
    }

    /// One batch, if there are that many transitions.
    pub(super) fn step(&mut self) {
        if self.replay.len() < self.batch {
            return;
        }
        let weight = 1.0 / self.batch as f32;
        for _ in 0..self.batch {
            let Some(sample) = self.replay.sample(&mut self.draw) else {
                return;
            };
            let mut target = sample.reward;
            if let Some(next) = &sample.next {
                let values = self.target.values(next);
                target += self.gamma * values.into_iter().fold(f32::NEG_INFINITY, f32::max);
            }
            let (state, action) = (&sample.state, usize::from(sample.action));
            let gradient = &mut self.gradient;
            self.network
                .add_gradient(gradient, state, action, target, weight);
        }
        self.adam.step(&mut self.network, &mut self.gradient);
        self.steps += 1;
    }

    /// The target network becomes the one that learns, and is returned for the one that decides to become it, too. If
    /// learning ran away to what is no number, it is the one that learns that goes back.
    pub(super) fn refresh(&mut self) -> &Network<HIDDEN> {
        if self.network.parameters().all(|weight| weight.is_finite()) {
            self.target.clone_from(&self.network);
        } else {
            self.network.clone_from(&self.target);
            self.adam = Adam::new(self.rate);
        }
        &self.target
    }

    /// Goes on from a network that an earlier connection has learned; what it learned from is gone.
    pub(super) fn begin_with(&mut self, network: &Network<HIDDEN>) {
        (*self.network).clone_from(network);
        (*self.target).clone_from(network);
        self.adam = Adam::new(self.rate);
    }

    /// What decides before anything was learned.
    pub(super) fn network(&self) -> &Network<HIDDEN> {
        &self.network
    }

    /// Steps taken.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Transitions that came, those included that there is no more room for.
    pub(super) fn transitions(&self) -> u64 {
        self.replay.total()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::state::STATE;
    use super::*;
    use crate::neural::Dqn;

    fn config() -> DqnOnlineConfig {
        DqnOnlineConfig {
            learning_rate: 0.005,
            ..DqnOnlineConfig::default()
        }
    }

    /// Two states; action 2 leads from the first to the second, and action 5 earns 1 there. All else ends with nothing.
    fn chain(learner: &mut Learner) -> [[f32; STATE]; 2] {
        let mut states = [[0.0; STATE]; 2];
        (states[0][0], states[1][1]) = (1.0, 1.0);
        for action in 0..Dqn::OUTPUTS as u8 {
            learner.remember(Transition {
                state: states[0],
                action,
                reward: 0.0,
                next: (action == 2).then_some(states[1]),
            });
            learner.remember(Transition {
                state: states[1],
                action,
                reward: if action == 5 { 1.0 } else { 0.0 },
                next: None,
            });
        }
        states
    }

    #[test]
    fn the_values_of_a_chain_are_those_of_bellman() {
        let mut learner = Learner::new(&DqnOnlineConfig {
            batch: 14,
            ..config()
        });
        let states = chain(&mut learner);
        for _ in 0..40 {
            for _ in 0..50 {
                learner.step();
            }
            learner.refresh();
        }
        assert_eq!((learner.steps(), learner.transitions()), (2000, 14));
        let expected = [(2, 0.5), (5, 1.0)];
        for (state, (worth, value)) in states.iter().zip(expected) {
            for (action, got) in learner.network().values(state).into_iter().enumerate() {
                let expected = if action == worth { value } else { 0.0 };
                assert!((got - expected).abs() < 0.03, "action {action}: {got}");
            }
        }
    }

    #[test]
    fn the_target_stands_until_it_is_refreshed() {
        let mut learner = Learner::new(&DqnOnlineConfig {
            batch: 14,
            ..config()
        });
        let states = chain(&mut learner);
        let before = learner.target.values(&states[0]);
        for _ in 0..100 {
            learner.step();
        }
        assert_eq!(learner.target.values(&states[0]), before);
        let learned = learner.network().values(&states[0]);
        assert_ne!(learned, before);
        assert_eq!(learner.refresh().values(&states[0]), learned);
    }

    #[test]
    fn nothing_is_learned_from_less_than_a_batch() {
        let mut learner = Learner::new(&config());
        let states = chain(&mut learner);
        let before = learner.network().values(&states[0]);
        learner.step();
        assert_eq!(
            (learner.steps(), learner.network().values(&states[0])),
            (0, before)
        );
    }

    #[test]
    fn a_network_that_ran_away_comes_back() {
        let mut learner = Learner::new(&DqnOnlineConfig {
            batch: 1,
            ..config()
        });
        let before = learner.network().values(&[1.0; STATE]);
        learner.remember(Transition {
            state: [1.0; STATE],
            action: 0,
            reward: f32::INFINITY,
            next: None,
        });
        learner.step();
        assert!(
            learner
                .network()
                .values(&[1.0; STATE])
                .iter()
                .any(|value| !value.is_finite())
        );
        assert_eq!(learner.refresh().values(&[1.0; STATE]), before);
        assert_eq!(learner.network().values(&[1.0; STATE]), before);
    }
}
