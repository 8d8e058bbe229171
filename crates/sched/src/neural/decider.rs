//! Asks a policy where the configuration says, on the hot path or on a thread of its own.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

use super::latest_value::LatestValue;
use super::{Experience, Policy, Unanswered};
use crate::{LearnedOnline, PathUpdate};

/// Where a neural scheduler's policy runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Run {
    /// `"inline"`: on the hot path, answered at once.
    #[default]
    Inline,
    /// `"thread"`: on a thread of its own for each connection; the last answer holds until the next one is there, and
    /// only the latest state is answered. Handing a state over wakes that thread, one system call for each decision of
    /// the policy, none for those of packets.
    Thread,
}

/// A policy, and where it runs: a scheduler hands it states and takes answers, without knowing of threads.
pub struct Decider {
    place: Place,
    engine: Cow<'static, str>,
    /// The answer taken last.
    outputs: Box<[f32]>,
}

enum Place {
    Inline {
        policy: Box<dyn Policy>,
        /// The decision asked for, until its answer is taken, and whether there is one.
        asked: Option<(u64, Result<(), Unanswered>)>,
    },
    Thread(Worker),
}

/// The thread that answers.
struct Worker {
    post: Arc<Post>,
    /// `None` if the system gave us no thread.
    thread: Option<JoinHandle<()>>,
    /// The decision asked for last, until it is answered.
    asked: Option<u64>,
    /// The sequence of the answer taken last.
    taken: u64,
}

/// What both sides share.
struct Post {
    states: LatestValue,
    answers: LatestValue,
    stop: AtomicBool,
}

/// What a policy said.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The decision that it is about.
    pub number: u64,
    /// Its outputs.
    pub outputs: Result<&'a [f32], Unanswered>,
}

impl Decider {
    /// `policy`, which takes and gives so many numbers, run where `run` says.
    pub fn new(policy: Box<dyn Policy>, run: Run, inputs: usize, outputs: usize) -> Self {
        Self {
            engine: policy.engine(),
            place: match run {
                Run::Inline => Place::Inline {
                    policy,
                    asked: None,
                },
                Run::Thread => Place::Thread(Worker::start(policy, inputs, outputs)),
            },
            outputs: vec![0.0; outputs].into(),
        }
    }

    /// What runs the policy.
    pub fn engine(&self) -> Cow<'static, str> {
        self.engine.clone()
    }

    /// The policy, if it learns from what comes of its answers.
    fn learner(&mut self) -> Option<&mut dyn Policy> {
        match &mut self.place {
            Place::Inline { policy, .. } if policy.learns() => Some(&mut **policy),
            _ => None,
        }
    }

    /// Whether there is somebody to tell of experiences.
    pub fn learns(&self) -> bool {
        matches!(&self.place, Place::Inline { policy, .. } if policy.learns())
    }

    /// Tells a policy that learns what came of its answers.
    pub fn experience(&mut self, experience: &Experience<'_>) {
        if let Some(policy) = self.learner() {
            policy.experience(experience);
        }
    }

    /// Tells a policy that learns whether the next state is about data to explore with.
    pub fn mark(&mut self, explore: bool) {
        if let Some(policy) = self.learner() {
            policy.mark(explore);
        }
    }

    /// Tells a policy that learns of a path.
    pub fn on_path(&mut self, event: &PathUpdate) {
        if let Some(policy) = self.learner() {
            policy.on_path(event);
        }
    }

    /// How far a policy that learns is.
    pub fn online(&self) -> Option<LearnedOnline> {
        match &self.place {
            Place::Inline { policy, .. } => policy.online(),
            Place::Thread(_) => None,
        }
    }

    /// Hands over the state of a decision.
    pub fn ask(&mut self, number: u64, state: &[f32]) {
        match &mut self.place {
            Place::Inline { policy, asked } => {
                let answer = policy.answer(state).and_then(|outputs| {
                    if outputs.len() != self.outputs.len() {
                        return Err(Unanswered);
                    }
                    self.outputs.copy_from_slice(outputs);
                    Ok(())
                });
                *asked = Some((number, answer));
            }
            Place::Thread(worker) => worker.ask(number, state),
        }
    }

    /// The newest answer, if there is one that was not taken before.
    pub fn answer(&mut self) -> Option<Answer<'_>> {
        let (number, answer) = match &mut self.place {
            Place::Inline { asked, .. } => asked.take()?,
            Place::Thread(worker) => worker.take(&mut self.outputs)?,
        };
        Some(Answer {
            number,
            outputs: answer.map(|()| &*self.outputs),
        })
    }
}

impl Worker {
    fn start(policy: Box<dyn Policy>, inputs: usize, outputs: usize) -> Self {
        let post = Arc::new(Post {
            states: LatestValue::new(inputs),
            answers: LatestValue::new(outputs),
            stop: AtomicBool::new(false),
        });
        let its = Arc::clone(&post);
        let thread = thread::Builder::new()
            .name("mpquic-policy".into())
            .spawn(move || its.serve(policy, inputs))
            .ok();
        Self {
            post,
            thread,
            asked: None,
            taken: 0,
        }
    }

    fn ask(&mut self, number: u64, state: &[f32]) {
        self.asked = Some(number);
        self.post.states.write(number, Some(state));
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn take(&mut self, outputs: &mut [f32]) -> Option<(u64, Result<(), Unanswered>)> {
        let asked = self.asked?;
        if self.post.answers.sequence() != self.taken
            && let Some((sequence, number, full)) = self.post.answers.read(outputs)
        {
            self.taken = sequence;
            if number == asked {
                self.asked = None;
            }
            return Some((number, if full { Ok(()) } else { Err(Unanswered) }));
        }
        // It panicked, or never began: there will be no answer.
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            self.asked = None;
            return Some((asked, Err(Unanswered)));
        }
        None
    }
}

impl Drop for Worker {
    /// Lets the thread end by itself: a connection's end does not wait for an answer that nobody needs.
    fn drop(&mut self) {
        self.post.stop.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Post {
    /// Answers the latest state, again and again.
    fn serve(&self, mut policy: Box<dyn Policy>, inputs: usize) {
        let mut state = vec![0.0; inputs];
        let mut served = 0;
        while !self.stop.load(Ordering::Acquire) {
            if self.states.sequence() == served {
                thread::park();
                continue;
            }
            let Some((sequence, number, full)) = self.states.read(&mut state) else {
                // Being written right now.
                std::hint::spin_loop();
                continue;
            };
            served = sequence;
            let answer = if full {
                policy.answer(&state).ok()
            } else {
                None
            };
            self.answers.write(number, answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says how many states it was shown, and the first element of the last one; panics at a negative one.
    struct Echo(f32);

    impl Policy for Echo {
        fn answer(&mut self, state: &[f32]) -> Result<&[f32], Unanswered> {
            assert!(state[0] >= 0.0);
            self.0 = state[0];
            Ok(std::slice::from_ref(&self.0))
        }
    }

    /// What comes back for a decision, however long it takes.
    fn wait_for(decider: &mut Decider, wanted: u64) -> Result<f32, Unanswered> {
        loop {
            if let Some(answer) = decider.answer() {
                assert!(answer.number <= wanted);
                if answer.number == wanted {
                    return answer.outputs.map(|outputs| outputs[0]);
                }
            }
            thread::yield_now();
        }
    }

    #[test]
    fn both_places_give_the_same_answers() {
        for run in [Run::Inline, Run::Thread] {
            let mut decider = Decider::new(Box::new(Echo(0.0)), run, 2, 1);
            assert!(decider.answer().is_none());
            for number in 0..100 {
                decider.ask(number, &[number as f32 * 2.0, 0.0]);
                assert_eq!(wait_for(&mut decider, number), Ok(number as f32 * 2.0));
                assert!(decider.answer().is_none(), "an answer is taken once");
            }
        }
    }

    #[test]
    fn the_latest_state_wins_and_is_always_answered() {
        let mut decider = Decider::new(Box::new(Echo(0.0)), Run::Thread, 1, 1);
        for round in 0..100 {
            for number in round * 10..round * 10 + 10 {
                decider.ask(number, &[number as f32]);
            }
            let last = round * 10 + 9;
            assert_eq!(wait_for(&mut decider, last), Ok(last as f32));
        }
    }

    #[test]
    fn a_thread_that_died_gives_no_answer_rather_than_none_for_ever() {
        let mut decider = Decider::new(Box::new(Echo(0.0)), Run::Thread, 1, 1);
        decider.ask(0, &[-1.0]);
        assert_eq!(wait_for(&mut decider, 0), Err(Unanswered));
        decider.ask(1, &[1.0]);
        assert_eq!(wait_for(&mut decider, 1), Err(Unanswered));
    }

    #[test]
    fn a_wrong_number_of_outputs_is_no_answer() {
        for run in [Run::Inline, Run::Thread] {
            let mut decider = Decider::new(Box::new(Echo(0.0)), run, 1, 3);
            decider.ask(0, &[1.0]);
            let answer = loop {
                if let Some(answer) = decider.answer() {
                    break answer.outputs.map(<[f32]>::len);
                }
                thread::yield_now();
            };
            assert_eq!(answer, Err(Unanswered));
        }
    }
}
