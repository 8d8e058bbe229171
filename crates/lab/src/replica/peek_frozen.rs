//! What the public code runs as Peekaboo: weights that are never learned; a baseline of published figures.

use mpquic_bandit::Draw;
use serde::{Deserialize, Serialize};

use mpquic_sched::support::StickyWaiting;
use mpquic_sched::{
    Arm, Context, Decision, FeatureRtt, InvalidConfig, PathUpdate, PathUpdateKind, Scheduler,
};

/// Peekaboo as its public code has it, for the DQN paper's comparison: deployed, never learning.
///
/// **Rule.** As [`Linucb`](mpquic_sched::Linucb), with θ from the configuration in place of what is learned,
/// without a bonus: the arm with the larger θ·x, `tx` if they are equal, is kept with the probability
/// `p_tx` = 0.90 or `p_wt` = 0.70, else the other one is taken. Waits stand as they do there.
///
/// **It always transmits**, but for chance: with the default θ, those of the public file, every
/// component of θ_tx is larger than that of θ_wt, and no feature is negative. This is minRTT that
/// waits in 10 % of the decisions, whatever the network is. To judge Peekaboo, use the learning one.
///
/// **Source.** The public repository banksemi/mpquic-rl at c5db733, whose readme says that the DQN
/// paper (Lee, Yoo, *Sensors* 2022) compares with this: the scheduler `peek` in its
/// `MAppLE/peekaboo/scheduler.go` (commit d6cdc6d), and θ = A⁻¹ b worked out from A and b in its
/// `docker/output/lin`. Both of its features and its rewards are in bytes per nanosecond; θ has no unit.
/// Drawn once per decision here as there; the bound on waiting and what is lost data's are ours, as
/// for [`Linucb`](mpquic_sched::Linucb).
///
/// **Cost.** One walk over the slots, 24 multiplications; no state but the wait and the seed.
///
/// ```
/// use mpquic_sched::Registry;
/// use mpquic_lab::replica::PeekFrozenConfig;
/// use serde_json::json;
///
/// let config = PeekFrozenConfig::default();
/// assert!(config.theta_tx.iter().zip(&config.theta_wt).all(|(tx, wt)| tx > wt));
///
/// let mut registry = Registry::new();
/// mpquic_lab::replica::register(&mut registry)?;
/// let wrong = registry.build("peek_frozen", &json!({"p_tx": 90})).err().unwrap();
/// assert_eq!(
///     wrong.to_string(),
///     "scheduler `peek_frozen`, field `p_tx`: expected a probability, 0 to 1, got 90",
/// );
/// # Ok::<(), mpquic_sched::RegistryError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PeekFrozen {
    config: PeekFrozenConfig,
    wait: StickyWaiting,
    draw: Draw,
}

/// Settings of [`PeekFrozen`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeekFrozenConfig {
    /// θ of transmitting, for the features W_f/R_f, I_f/R_f, C/R_f, W_s/R_s, I_s/R_s, C/R_s.
    /// Finite. Default: the public file's, which has them in another order.
    pub theta_tx: [f64; 6],
    /// θ of waiting. Finite. Default: the public file's.
    pub theta_wt: [f64; 6],
    /// With which probability a decision to transmit is kept, 0 to 1. Default 0.90.
    pub p_tx: f64,
    /// With which probability a decision to wait is kept, 0 to 1. Default 0.70.
    pub p_wt: f64,
    /// Where the random numbers begin. Default 0.
    pub seed: u64,
    /// Which RTTs the features are made of. Default "latest", as in the public code.
    pub features: FeatureRtt,
}

impl Default for PeekFrozenConfig {
    fn default() -> Self {
        Self {
            theta_tx: [
                2.245_649e-4,
                2.298_000e-4,
                1.881_587_5e-3,
                1.629_461e-4,
                7.590_51e-5,
                1.247_976e-3,
            ],
            theta_wt: [
                1.878_351e-4,
                1.927_425e-4,
                1.454_397_8e-3,
                1.396_551e-4,
                7.192_825e-5,
                9.464_158e-4,
            ],
            p_tx: 0.90,
            p_wt: 0.70,
            seed: 0,
            features: FeatureRtt::Latest,
        }
    }
}

impl PeekFrozenConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        for (field, theta) in [("theta_tx", self.theta_tx), ("theta_wt", self.theta_wt)] {
            if let Some(wrong) = theta.iter().find(|weight| !weight.is_finite()) {
                let expected = format!("expected six finite numbers, got {wrong}");
                return Err(InvalidConfig::field(field, expected));
            }
        }
        for (field, p) in [("p_tx", self.p_tx), ("p_wt", self.p_wt)] {
            if !(0.0..=1.0).contains(&p) {
                let expected = format!("expected a probability, 0 to 1, got {p}");
                return Err(InvalidConfig::field(field, expected));
            }
        }
        Ok(())
    }
}

impl PeekFrozen {
    /// A scheduler with these settings.
    pub fn new(config: &PeekFrozenConfig) -> Self {
        Self {
            config: config.clone(),
            wait: StickyWaiting::default(),
            draw: Draw::new(config.seed),
        }
    }
}

impl Default for PeekFrozen {
    fn default() -> Self {
        Self::new(&PeekFrozenConfig::default())
    }
}

impl Scheduler for PeekFrozen {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let Self { config, wait, draw } = self;
        wait.decide(cx, |fast, slow| {
            let context = config
                .features
                .context(fast, slow, cx.queue.flow_control_window, 1.0);
            let score = |theta: &[f64; 6]| theta.iter().zip(&context).map(|(t, x)| t * x).sum();
            let chosen = Arm::largest([score(&config.theta_tx), score(&config.theta_wt)]);
            let kept = draw.chance(match chosen {
                Arm::Send => config.p_tx,
                Arm::Wait => config.p_wt,
            });
            if kept { chosen } else { chosen.other() }
        })
    }

    fn on_path(&mut self, event: &PathUpdate) {
        if event.kind == PathUpdateKind::Abandoned {
            self.wait.forget(event.path);
        }
    }
}
