//! Schedulers that ask a neural policy, and what they share: how it is found, asked, guarded and watched.
//!
//! Networks from files are in the crate `mpquic-sched-neural`, and with it tract, which takes minutes to build: it adds
//! `dqn`, `gaps` and `sailfish` to a registry. Without it there are [`Dqn`] with a [`Policy`] of yours, [`DqnOnline`],
//! which learns by itself, and the parts for neural schedulers of yours: [`Decider`] and [`Guard`].
//!
//! A neural scheduler is a rule with a hole: it turns what the transport knows into a state, hands that to a
//! [`Policy`], and does what the answer says until the next decision. The policy is a network from a file
//! ([`Model`]), or anything else that answers states: a trainer's exploring policy, a test's.
//!
//! **What can go wrong stays harmless.** An answer that is no number, out of its range or names a path that cannot be
//! used is not followed: the scheduler does what [`MinRtt`](crate::MinRtt) would until the next decision, and counts
//! it ([`Fallbacks`](crate::Fallbacks), told by [`Scheduler::learned`](crate::Scheduler::learned)).
//!
//! **Where it runs.** [`Run::Inline`] asks on the hot path and takes the answer at once: right for what a compiled plan
//! answers in microseconds, and the only way that gives the same decisions for the same seed. [`Run::Thread`] hands the
//! state to a thread of its own and goes on with the last answer until the new one is there; of states that wait, the
//! latest wins. Right for what takes longer than a packet lasts on the wire (12 us at 1 Gbit/s): graphs that tract runs,
//! large ones. [`Policy::engine`] says which engine it is, and `cargo bench -p mpquic-bench-inference` what an answer costs.

mod decider;
mod dqn;
mod experience;
mod guard;
mod latest_value;
mod model;
mod policy;

pub use decider::{Answer, Decider, Run};
pub use dqn::{Decay, Dqn, DqnConfig, DqnOnline, DqnOnlineConfig, Ninth, Payoff, Train};
pub use experience::{Experience, NeuralScheduler, Observer};
pub use guard::Guard;
pub use model::Model;
pub use policy::{Policy, Random, Unanswered};

pub(crate) use latest_value::LatestValue;
