//! Regret of the linear bandits in synthetic worlds whose best arm is known, over 100 seeds.

mod growth;
mod switching;
mod world;
