//! What schedulers share: which path is fast and which is slow, how long a wait may last, gaps, turns.
//!
//! Everything here is for use in a scheduler of your own. The parts, from the one that decides most to the one that
//! decides least:
//!
//! - [`Waiting`] does all of a scheduler that may wait for a faster path but its rule: it finds the fast and the slow
//!   path, asks the rule whether to wait, looks after lost data, control frames and pacers, and ends every wait in
//!   time. With [`PairFlags`], [`backlog`] and [`nanos`], ECF is 20 lines. [`StickyWaiting`] is the same for rules that
//!   answer once per wait.
//! - [`gap::decide`] does the same for schedulers that leave a gap before what a slower path carries.
//! - [`binding`] binds streams to paths, and serves each on its own.
//! - [`Opportunities`] gives turns: a chosen path sends until its window is full.
//! - [`Fastest`], [`usable`] and [`comes_back`] are for schedulers that look at the paths themselves, and
//!   [`Patience`] bounds their waits.
//!
//! `docs/guide/writing-a-scheduler.md` builds ECF from these parts.

pub mod binding;
pub mod gap;
mod maths;
mod opportunity;
mod ranking;
mod round;
mod sticky;
mod waiting;

pub(crate) use maths::{float, rounded, whole};
pub use mpquic_sched_core::support::{Patience, comes_back, nanos};
pub use opportunity::Opportunities;
pub use ranking::{Fastest, payload, usable};
pub(crate) use round::Round;
pub use sticky::StickyWaiting;
pub use waiting::{Advice, PairFlags, Waiting, backlog, has_new_data};
