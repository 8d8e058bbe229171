//! ECF-A: ECF whose advice is followed with a probability.

use mpquic_bandit::Draw;
use serde::{Deserialize, Serialize};

use crate::support::{Advice, PairFlags, Waiting, backlog};
use crate::{
    Context, Decision, EcfConfig, InvalidConfig, PathIndex, PathUpdate, PathUpdateKind, Scheduler,
    Sent,
};

/// [`Ecf`](crate::Ecf) that is not always obeyed.
///
/// **Rule.** Whenever ECF says wait, wait with probability `p_wait`, else send on `s`; whenever it
/// says send on `s`, do so with probability `p_send`, else wait. It is drawn once for each packet: the
/// draw stands until a packet leaves, `f` is another path, or ECF says something else. Drawing at
/// every call would make the probability of a wait depend on how often the transport asks; a draw for as long as `f` is
/// full would fill the window of `s` each time that a wait is not waited. All else is as with ECF.
///
/// **Source.** Wu, Alay, Brunstrom, Ferlin, Caso: *Peekaboo*, IEEE JSAC 2020, insight 2 and figure
/// 2(c): 0.73 and 1, found offline by particle swarm for the median time of a 2 MB download over
/// paths of medium dynamicity; other networks have other optima. That a draw stands until its packet leaves is ours.
///
/// **Cost.** As ECF; a draw is a handful of integer operations. The random numbers come from the
/// configured seed alone, so that the same calls give the same decisions.
///
/// ```
/// use mpquic_sched::{EcfA, EcfAConfig, Registry};
/// use serde_json::json;
///
/// let config: EcfAConfig = serde_json::from_value(json!({"p_wait": 0.5, "seed": 7}))?;
/// assert_eq!((config.p_send, config.ecf.beta), (1.0, 0.25));
/// let one = EcfA::new(&config);
///
/// let wrong = Registry::new().build("ecf_a", &json!({"p_wait": 73})).err().unwrap();
/// assert_eq!(
///     wrong.to_string(),
///     "scheduler `ecf_a`, field `p_wait`: expected a probability, 0 to 1, got 73",
/// );
/// # drop(one);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct EcfA {
    config: EcfAConfig,
    wait: Waiting,
    flags: PairFlags,
    draw: Draw,
    drawn: Option<Drawn>,
}

/// What was drawn for the next packet, and for what.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    fast: PathIndex,
    advice_is_wait: bool,
    obeyed: bool,
}

/// Settings of [`EcfA`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EcfAConfig {
    /// With which probability a wait of ECF's is waited, 0 to 1. Default 0.73.
    pub p_wait: f64,
    /// With which probability a packet that ECF sends on the slow path is sent there, 0 to 1.
    /// Default 1.
    pub p_send: f64,
    /// Where the random numbers begin. Default 0. Every connection of one configuration draws the
    /// same.
    pub seed: u64,
    /// The settings of ECF itself.
    pub ecf: EcfConfig,
}

impl Default for EcfAConfig {
    fn default() -> Self {
        Self {
            p_wait: 0.73,
            p_send: 1.0,
            seed: 0,
            ecf: EcfConfig::default(),
        }
    }
}

impl EcfAConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        for (field, p) in [("p_wait", self.p_wait), ("p_send", self.p_send)] {
            if !(0.0..=1.0).contains(&p) {
                let expected = format!("expected a probability, 0 to 1, got {p}");
                return Err(InvalidConfig::field(field, expected));
            }
        }
        self.ecf.check().map_err(|problem| problem.within("ecf"))
    }
}

impl EcfA {
    /// A scheduler with these settings.
    pub fn new(config: &EcfAConfig) -> Self {
        Self {
            config: config.clone(),
            wait: Waiting::new(config.ecf.wait_for_pacer),
            flags: PairFlags::default(),
            draw: Draw::new(config.seed),
            drawn: None,
        }
    }

    /// Whether to wait, ECF having said so or not.
    fn follow(&mut self, fast: PathIndex, advice_is_wait: bool) -> bool {
        let obeyed = match self.drawn {
            Some(d) if d.fast == fast && d.advice_is_wait == advice_is_wait => d.obeyed,
            _ => {
                let p = if advice_is_wait {
                    self.config.p_wait
                } else {
                    self.config.p_send
                };
                let obeyed = self.draw.chance(p);
                self.drawn = Some(Drawn {
                    fast,
                    advice_is_wait,
                    obeyed,
                });
                obeyed
            }
        };
        advice_is_wait == obeyed
    }
}

impl Default for EcfA {
    fn default() -> Self {
        Self::new(&EcfAConfig::default())
    }
}

impl Scheduler for EcfA {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let mut wait = self.wait;
        let decision = wait.decide(cx, |fast, slow| {
            let mut waiting = self.flags.get(fast.index, slow.index);
            let ecf = &self.config.ecf;
            let advice = ecf.says_wait(fast, slow, backlog(cx), &mut waiting);
            self.flags.set(fast.index, slow.index, waiting);
            Advice::wait_if(self.follow(fast.index, advice))
        });
        self.wait = wait;
        decision
    }

    fn on_sent(&mut self, _event: &Sent) {
        self.drawn = None;
    }

    fn on_path(&mut self, event: &PathUpdate) {
        if event.kind == PathUpdateKind::Abandoned {
            self.flags.forget(event.path);
        }
    }
}
