//! Schedulers that learn while the connection runs, and what they share: contexts, rewards, pairs of paths.

mod arm;
mod falcon;
mod features;
mod linucb;
mod own_packets;
mod pairs;
mod peekaboo;
mod rewards;
mod ucb;
mod wait;

pub use arm::{Arm, Step};
pub use falcon::{Falcon, FalconConfig};
pub use features::FeatureRtt;
pub use linucb::{Linucb, LinucbConfig};
pub use peekaboo::{BudgetOf, Peekaboo, PeekabooConfig, Reference, Tuning};
pub use rewards::Reward;
pub use ucb::{EpsilonGreedyConfig, Forgetting, Ucb, UcbConfig, UcbReward};
pub use wait::LearnedWait;
pub(crate) use wait::WaitRule;

pub(crate) use linucb::{check_probability, is_default};
