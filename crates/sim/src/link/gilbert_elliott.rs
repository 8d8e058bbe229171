//! Loss in bursts: the settings and the state of a Gilbert–Elliott chain.

use rand::RngExt;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use super::validate::{LinkConfigError, out_of_range, probability};

/// A Gilbert–Elliott chain: a good and a bad state, each with a probability of loss. After each
/// packet, the chain may change its state (Elliott, Bell System Technical Journal 42, 1963).
///
/// Files give either its four numbers, or `mean_loss` and `mean_burst` for a chain that loses
/// nothing in the good state and everything in the bad state.
///
/// ```
/// use mpquic_sim::GilbertElliott;
///
/// let bursts = GilbertElliott::from_mean(0.015, 4.0)?;
/// assert!((bursts.mean_loss() - 0.015).abs() < 1e-12);
/// assert_eq!(bursts.r, 0.25);
/// # Ok::<(), mpquic_sim::LinkConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Keys")]
pub struct GilbertElliott {
    /// The probability per packet to change from the good to the bad state.
    pub p: f64,
    /// The probability per packet to change from the bad to the good state.
    pub r: f64,
    /// The probability of loss in the good state (1 - k in the literature).
    pub loss_good: f64,
    /// The probability of loss in the bad state (1 - h in the literature).
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// A chain that loses nothing in the good state and everything in the bad state (Gilbert 1960
    /// with h = 0).
    pub const fn new(p: f64, r: f64) -> Self {
        Self {
            p,
            r,
            loss_good: 0.0,
            loss_bad: 1.0,
        }
    }

    /// The chain of [`new`](Self::new) with this mean loss, which loses `mean_burst` consecutive
    /// packets on average.
    ///
    /// # Errors
    ///
    /// If a burst is shorter than one packet, or the mean loss is above `mean_burst / (mean_burst +
    /// 1)`, where bursts this short cannot cause so much loss.
    pub fn from_mean(mean_loss: f64, mean_burst: f64) -> Result<Self, LinkConfigError> {
        if !mean_burst.is_finite() || mean_burst < 1.0 {
            let field = "gilbert_elliott.mean_burst";
            return Err(out_of_range(field, mean_burst, "1 packet at least"));
        }
        let most = mean_burst / (mean_burst + 1.0);
        // Not a comparison with `>`, which NaN would pass.
        if !(0.0..=most).contains(&mean_loss) {
            return Err(out_of_range(
                "gilbert_elliott.mean_loss",
                mean_loss,
                "a probability, at most mean_burst / (mean_burst + 1)",
            ));
        }
        let r = 1.0 / mean_burst;
        // pi_bad = p / (p + r), solved for p. Rounding must not push the probability above one.
        let p = (r * mean_loss / (1.0 - mean_loss)).min(1.0);
        Ok(Self::new(p, r))
    }

    /// The share of packets that meet the bad state.
    pub fn bad_share(&self) -> f64 {
        if self.p > 0.0 {
            self.p / (self.p + self.r)
        } else {
            0.0
        }
    }

    /// The share of packets that are lost.
    pub fn mean_loss(&self) -> f64 {
        let bad = self.bad_share();
        bad * self.loss_bad + (1.0 - bad) * self.loss_good
    }

    /// How many consecutive packets meet the bad state, on average. Infinite if the chain never
    /// leaves it.
    pub fn mean_burst(&self) -> f64 {
        1.0 / self.r
    }

    pub(super) fn validate(&self, prefix: &str) -> Result<(), LinkConfigError> {
        for (name, value) in [
            ("p", self.p),
            ("r", self.r),
            ("loss_good", self.loss_good),
            ("loss_bad", self.loss_bad),
        ] {
            probability(&format!("{prefix}gilbert_elliott.{name}"), value)?;
        }
        Ok(())
    }
}

/// The keys that a file may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    p: Option<f64>,
    r: Option<f64>,
    loss_good: Option<f64>,
    loss_bad: Option<f64>,
    mean_loss: Option<f64>,
    mean_burst: Option<f64>,
}

impl TryFrom<Keys> for GilbertElliott {
    type Error = String;

    fn try_from(keys: Keys) -> Result<Self, String> {
        match keys {
            Keys {
                p: Some(p),
                r: Some(r),
                loss_good,
                loss_bad,
                mean_loss: None,
                mean_burst: None,
            } => Ok(Self {
                p,
                r,
                loss_good: loss_good.unwrap_or(0.0),
                loss_bad: loss_bad.unwrap_or(1.0),
            }),
            Keys {
                p: None,
                r: None,
                loss_good: None,
                loss_bad: None,
                mean_loss: Some(loss),
                mean_burst: Some(burst),
            } => Self::from_mean(loss, burst).map_err(|error| error.to_string()),
            _ => Err(
                "`gilbert_elliott` needs either `p` and `r` (with `loss_good` and `loss_bad` if they \
                 are not 0 and 1) or `mean_loss` and `mean_burst`"
                    .to_owned(),
            ),
        }
    }
}

/// A chain and its current state.
pub(super) struct Bursts {
    chain: GilbertElliott,
    bad: bool,
}

impl Bursts {
    /// Starts in the stationary state, so that the first packets have the same loss as all others.
    pub(super) fn new(chain: GilbertElliott, rng: &mut StdRng) -> Self {
        let bad = rng.random_bool(chain.bad_share());
        Self { chain, bad }
    }

    /// Changes the chain. The state stays.
    pub(super) const fn set(&mut self, chain: GilbertElliott) {
        self.chain = chain;
    }

    /// Whether the next packet is lost.
    pub(super) fn lose(&mut self, rng: &mut StdRng) -> bool {
        let (loss, change) = if self.bad {
            (self.chain.loss_bad, self.chain.r)
        } else {
            (self.chain.loss_good, self.chain.p)
        };
        let lost = draw(rng, loss);
        self.bad ^= draw(rng, change);
        lost
    }
}

/// Draws a random number only if the outcome is open.
fn draw(rng: &mut StdRng, probability: f64) -> bool {
    if probability >= 1.0 {
        true
    } else {
        probability > 0.0 && rng.random_bool(probability)
    }
}
