//! A learner on a thread of its own: transitions go there and networks come back, and neither side waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

use super::DqnOnlineConfig;
use super::learner::Learner;
use super::network::{HIDDEN, Network};
use super::replay::Transition;
use crate::neural::LatestValue;

/// Transitions that may wait for the thread, which looks each few milliseconds; there is one each 50 ms and chunk.
const WAITING: usize = 1024;

/// The side of the scheduler.
#[derive(Debug)]
pub(super) struct Apart {
    shared: Arc<Shared>,
    transitions: Producer<Transition>,
    /// `None` if the system gave us no thread: then nothing is learned.
    thread: Option<Thread>,
    /// The sequence of the network taken last.
    taken: u64,
    /// Where a network is read to before it is known to be whole.
    read: Box<[f32]>,
    /// Transitions given away, or lost for want of room.
    given: u64,
    lost: u64,
}

#[derive(Debug)]
struct Shared {
    networks: LatestValue,
    /// How often a network was asked for.
    refreshes: AtomicU64,
    steps: AtomicU64,
    stop: AtomicBool,
    /// A network to go on from, until the thread has taken it.
    begin: Mutex<Option<Box<Network<HIDDEN>>>>,
}

impl Apart {
    /// Begins to learn: a step each [`step_ms`](DqnOnlineConfig::step_ms) as soon as there is something to learn from.
    pub(super) fn new(learner: Learner, config: &DqnOnlineConfig) -> Self {
        let size = learner.network().parameters().count();
        let shared = Arc::new(Shared {
            networks: LatestValue::new(size),
            refreshes: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            begin: Mutex::new(None),
        });
        let (transitions, incoming) = RingBuffer::new(WAITING);
        let its = Arc::clone(&shared);
        let pause = Duration::from_millis(config.step_ms);
        let thread = thread::Builder::new()
            .name("mpquic-learner".into())
            .spawn(move || its.learn(learner, incoming, pause))
            .ok();
        Self {
            shared,
            transitions,
            thread: thread.map(|handle| handle.thread().clone()),
            taken: 0,
            read: vec![0.0; size].into(),
            given: 0,
            lost: 0,
        }
    }

    /// Hands a transition over. No lock, no system call.
    pub(super) fn remember(&mut self, transition: Transition) {
        match self.transitions.push(transition) {
            Ok(()) => self.given += 1,
            Err(_) => self.lost += 1,
        }
    }

    /// Goes on from a network that an earlier connection has learned. For the beginning of a connection: it waits for a
    /// lock that is hardly ever held.
    pub(super) fn begin_with(&self, network: &Network<HIDDEN>) {
        if let Ok(mut begin) = self.shared.begin.lock() {
            *begin = Some(Box::new(network.clone()));
        }
    }

    /// Asks for a new network.
    pub(super) fn ask(&self) {
        self.shared.refreshes.fetch_add(1, Ordering::Release);
    }

    /// Makes `network` the one that was asked for, if it has come meanwhile. Whether it has.
    pub(super) fn take(&mut self, network: &mut Network<HIDDEN>) -> bool {
        if self.shared.networks.sequence() == self.taken {
            return false;
        }
        let Some((sequence, _, true)) = self.shared.networks.read(&mut self.read) else {
            return false;
        };
        self.taken = sequence;
        for (to, from) in network.parameters_mut().zip(&self.read) {
            *to = *from;
        }
        true
    }

    pub(super) fn steps(&self) -> u64 {
        self.shared.steps.load(Ordering::Relaxed)
    }

    /// Transitions that it was given.
    pub(super) fn transitions(&self) -> u64 {
        self.given
    }

    /// Transitions that there was no room for.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for Apart {
    /// Lets the thread end by itself.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

impl Shared {
    fn learn(&self, mut learner: Learner, mut incoming: Consumer<Transition>, pause: Duration) {
        let mut refreshed = 0;
        let mut weights = vec![0.0; learner.network().parameters().count()];
        while !self.stop.load(Ordering::Acquire) {
            let begin = self.begin.lock().ok().and_then(|mut begin| begin.take());
            if let Some(network) = begin {
                learner.begin_with(&network);
            }
            for _ in 0..WAITING {
                let Ok(transition) = incoming.pop() else {
                    break;
                };
                learner.remember(transition);
            }
            learner.step();
            self.steps.store(learner.steps(), Ordering::Relaxed);
            let wanted = self.refreshes.load(Ordering::Acquire);
            if wanted != refreshed {
                refreshed = wanted;
                for (to, from) in weights.iter_mut().zip(learner.refresh().parameters()) {
                    *to = *from;
                }
                self.networks.write(wanted, Some(&weights));
            }
            // The pace of learning: nobody waits for it.
            thread::park_timeout(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use mpquic_bandit::Draw;

    use super::super::super::state::STATE;
    use super::*;

    #[test]
    fn what_is_learned_apart_comes_back_when_it_is_asked_for() {
        let config = DqnOnlineConfig {
            step_ms: 1,
            batch: 1,
            learning_rate: 0.01,
            ..DqnOnlineConfig::default()
        };
        let mut apart = Apart::new(Learner::new(&config), &config);
        let mut network = Network::new(&mut Draw::new(9));
        assert!(!apart.take(&mut network), "nobody asked");
        let state = [0.5; STATE];
        apart.remember(Transition {
            state,
            action: 3,
            reward: 2.0,
            next: None,
        });
        let mut tries = 0;
        loop {
            apart.ask();
            while !apart.take(&mut network) {
                thread::yield_now();
            }
            if (network.values(&state)[3] - 2.0).abs() < 0.05 {
                break;
            }
            tries += 1;
            assert!(
                tries < 100_000,
                "{:?} after {} steps",
                network.values(&state),
                apart.steps()
            );
        }
        assert!(apart.steps() > 10);
        assert_eq!((apart.transitions(), apart.lost()), (1, 0));
    }

    #[test]
    fn what_there_is_no_room_for_is_lost_and_counted() {
        let config = DqnOnlineConfig {
            step_ms: 10_000,
            ..DqnOnlineConfig::default()
        };
        let mut apart = Apart::new(Learner::new(&config), &config);
        let transition = Transition {
            state: [0.0; STATE],
            action: 0,
            reward: 0.0,
            next: None,
        };
        // Far more than the thread takes in its first look and finds room for.
        for _ in 0..100 * WAITING {
            apart.remember(transition);
        }
        assert_eq!(apart.transitions() + apart.lost(), 100 * WAITING as u64);
        assert!(apart.transitions() >= WAITING as u64 && apart.lost() > 0);
    }
}
