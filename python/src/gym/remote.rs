//! The two ends of a session: a policy that hands states to whoever steps it and blocks for the answers, and what is told of the scheduler's experience.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use mpquic_proto::Connection;
use mpquic_sched::neural::{Experience, Policy, Unanswered};

use super::outcome::Outcome;
use super::run::RunError;

/// What the simulation tells.
pub(crate) enum News {
    /// It waits for the answer to this.
    State(Vec<f32>),
    /// It is over.
    End(Result<Box<Outcome>, RunError>),
}

/// A decision that was taken.
pub(crate) struct Taken {
    pub(crate) number: u64,
    pub(crate) action: Vec<f32>,
    pub(crate) fell_back: bool,
    /// Virtual time, s.
    pub(crate) at: f64,
}

/// A reward.
pub(crate) struct Earned {
    pub(crate) number: u64,
    pub(crate) reward: f32,
    pub(crate) done: bool,
    /// The receiver's own out-of-order queue since the reward before, on average over arrivals, bytes. The sender of a
    /// transfer cannot know it in time; who trains its policy may.
    pub(crate) queue: f64,
    /// Virtual time, s.
    pub(crate) at: f64,
}

/// What was experienced since it was last looked at.
#[derive(Default)]
pub(crate) struct Experienced {
    pub(crate) taken: Vec<Taken>,
    pub(crate) earned: Vec<Earned>,
}

/// The receiver's out-of-order queue.
#[derive(Default)]
struct Arrivals {
    /// Stream bytes received up to the last look.
    received: u64,
    /// Bytes out of order, summed over the arrivals since they were last asked for.
    sum: f64,
    count: u32,
    /// Bytes out of order at the last arrival.
    last: u64,
}

impl Arrivals {
    fn look(&mut self, received: u64, out_of_order: u64) {
        if received > self.received {
            (self.received, self.last) = (received, out_of_order);
            self.sum += out_of_order as f64;
            self.count += 1;
        }
    }

    /// Their mean; what it was at last, if nothing arrived.
    fn take(&mut self) -> f64 {
        let mean = match self.count {
            0 => self.last as f64,
            count => self.sum / f64::from(count),
        };
        (self.sum, self.count) = (0.0, 0);
        mean
    }
}

/// What the simulation's thread holds of it.
pub(crate) struct Simulated {
    pub(crate) news: Sender<News>,
    /// Behind a lock for the type's sake: one connection's scheduler asks.
    answers: Mutex<Receiver<Vec<f32>>>,
    experienced: Mutex<Experienced>,
    arrivals: Mutex<Arrivals>,
    /// Time 0.
    pub(crate) origin: OnceLock<Instant>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// What the other side holds.
pub(crate) struct Ends {
    pub(crate) news: Receiver<News>,
    pub(crate) answers: Sender<Vec<f32>>,
    pub(crate) simulated: Arc<Simulated>,
}

impl Simulated {
    /// Both ends of a new session.
    pub(crate) fn session() -> Ends {
        let (news, from_simulation) = channel();
        let (answers, to_simulation) = channel();
        let simulated = Self {
            news,
            answers: Mutex::new(to_simulation),
            experienced: Mutex::default(),
            arrivals: Mutex::default(),
            origin: OnceLock::new(),
            stop: Arc::default(),
        };
        Ends {
            news: from_simulation,
            answers,
            simulated: Arc::new(simulated),
        }
    }

    /// The policy of a scheduler.
    pub(crate) fn policy(self: &Arc<Self>) -> Box<dyn Policy> {
        Box::new(Remote {
            simulated: Arc::clone(self),
            outputs: Vec::new(),
        })
    }

    /// The observer of a scheduler.
    pub(crate) fn observer(self: &Arc<Self>) -> Box<dyn FnMut(&Experience<'_>) + Send> {
        let this = Arc::clone(self);
        Box::new(move |experience| this.note(experience))
    }

    /// What was experienced since the last time.
    pub(crate) fn take(&self) -> Experienced {
        let experienced = self.experienced.lock();
        std::mem::take(&mut experienced.unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the receiver after a step of the simulation.
    pub(crate) fn look(&self, receiver: &Connection) {
        let stats = receiver.stats();
        let arrivals = self.arrivals.lock();
        let mut arrivals = arrivals.unwrap_or_else(PoisonError::into_inner);
        arrivals.look(stats.received_stream_bytes, stats.out_of_order);
    }

    fn note(&self, experience: &Experience<'_>) {
        let experienced = self.experienced.lock();
        let mut experienced = experienced.unwrap_or_else(PoisonError::into_inner);
        match *experience {
            Experience::Decided {
                number,
                now,
                action,
                fell_back,
                ..
            } => experienced.taken.push(Taken {
                number,
                action: action.to_vec(),
                fell_back,
                at: self.seconds(now),
            }),
            Experience::Rewarded {
                number,
                now,
                reward,
                done,
                ..
            } => experienced.earned.push(Earned {
                number,
                reward,
                done,
                queue: (self.arrivals.lock())
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
                at: self.seconds(now),
            }),
            _ => {}
        }
    }

    fn seconds(&self, now: Instant) -> f64 {
        let since = self.origin.get().map(|&origin| now - origin);
        since.unwrap_or_default().as_secs_f64()
    }
}

/// Its answers come from the other end.
struct Remote {
    simulated: Arc<Simulated>,
    outputs: Vec<f32>,
}

impl Policy for Remote {
    fn answer(&mut self, state: &[f32]) -> Result<&[f32], Unanswered> {
        let simulated = &*self.simulated;
        if simulated.stop.load(Ordering::Relaxed) {
            return Err(Unanswered);
        }
        let told = simulated.news.send(News::State(state.to_vec()));
        let answers = simulated.answers.lock();
        let answers = answers.unwrap_or_else(PoisonError::into_inner);
        match (told, answers.recv()) {
            (Ok(()), Ok(outputs)) => self.outputs = outputs,
            // Nobody steps this any more: the run ends after this event.
            _ => {
                simulated.stop.store(true, Ordering::Relaxed);
                return Err(Unanswered);
            }
        }
        Ok(&self.outputs)
    }

    fn engine(&self) -> Cow<'static, str> {
        "python".into()
    }
}
