//! A rule of waiting whose waits are kept with a probability, for figures over that probability.

use std::time::Instant;

use mpquic_bandit::Draw;
use mpquic_sched::support::has_new_data;
use mpquic_sched::{
    Acked, Context, CopyCause, Decision, InvalidConfig, Learned, Lost, MinRtt, PathUpdate,
    Registry, Scheduler, Sent, StreamUpdate,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A scheduler that waits for a faster path, and is not always obeyed.
///
/// **Rule.** What `rule` says, but if it says wait and [`MinRtt`] would send new data: with probability `p` the wait is
/// kept, else the packet goes where minRTT has it. It is drawn once for each packet, as in [`EcfA`](mpquic_sched::EcfA).
/// With `p = 1` it is `rule`, with `p = 0` minRTT.
///
/// **Source.** Wu et al., *Peekaboo*, IEEE JSAC 2020, section III-B and figure 6, which varies p for the deterministic
/// schedulers. The built-in learners have such probabilities of their own.
///
/// ```
/// use mpquic_sched::Registry;
/// use serde_json::json;
///
/// let mut registry = Registry::new();
/// mpquic_lab::own::register(&mut registry)?;
/// let one = registry.build("kept", &json!({"rule": "blest", "p": 0.5, "seed": 7}))?;
/// let wrong = registry.build("kept", &json!({"rule": "best"})).err().unwrap();
/// assert!(wrong.to_string().contains("field `rule`"));
/// # drop(one);
/// # Ok::<(), mpquic_sched::RegistryError>(())
/// ```
pub struct Kept {
    rule: Box<dyn Scheduler>,
    otherwise: MinRtt,
    p: f64,
    draw: Draw,
    /// What was drawn for the next packet.
    kept: Option<bool>,
}

/// Settings of [`Kept`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeptConfig {
    /// The name of a built-in scheduler. Default "ecf".
    pub rule: String,
    /// Its settings. Default none.
    pub config: Value,
    /// With which probability a wait is kept, 0 to 1. Default 1.
    pub p: f64,
    /// Where the random numbers begin. Default 0.
    pub seed: u64,
}

impl Default for KeptConfig {
    fn default() -> Self {
        Self {
            rule: "ecf".to_owned(),
            config: Value::Null,
            p: 1.0,
            seed: 0,
        }
    }
}

impl KeptConfig {
    fn rule(&self) -> Result<Box<dyn Scheduler>, InvalidConfig> {
        let built = Registry::new().build(&self.rule, &self.config);
        built.map_err(|why| InvalidConfig::field("rule", why.to_string()))
    }

    pub(super) fn check(&self) -> Result<(), InvalidConfig> {
        if !(0.0..=1.0).contains(&self.p) {
            let expected = format!("expected a probability, 0 to 1, got {}", self.p);
            return Err(InvalidConfig::field("p", expected));
        }
        self.rule().map(drop)
    }
}

impl Kept {
    /// A scheduler with these settings; where they are wrong, which a [`Registry`] refuses, minRTT.
    pub fn new(config: &KeptConfig) -> Self {
        let rule = config.rule();
        Self {
            rule: rule.unwrap_or_else(|_| Box::new(MinRtt::default())),
            otherwise: MinRtt::default(),
            p: config.p,
            draw: Draw::new(config.seed),
            kept: None,
        }
    }
}

impl Scheduler for Kept {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let decision = self.rule.decide(cx);
        if !matches!(decision, Decision::Wait { .. }) || !has_new_data(cx) {
            return decision;
        }
        let instead = self.otherwise.decide(cx);
        if !matches!(instead, Decision::Send { .. }) {
            return decision;
        }
        let (p, draw) = (self.p, &mut self.draw);
        if *self.kept.get_or_insert_with(|| draw.chance(p)) {
            decision
        } else {
            instead
        }
    }

    fn on_sent(&mut self, event: &Sent) {
        self.kept = None;
        self.rule.on_sent(event);
    }

    fn on_acked(&mut self, event: &Acked) {
        self.rule.on_acked(event);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.rule.on_lost(event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.otherwise.on_path(event);
        self.rule.on_path(event);
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.rule.on_stream(event);
    }

    fn follows_streams(&self) -> bool {
        self.rule.follows_streams()
    }

    fn wants_streams(&self) -> bool {
        self.rule.wants_streams()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.rule.next_wakeup()
    }

    fn on_wakeup(&mut self, cx: &Context<'_>) {
        self.rule.on_wakeup(cx);
    }

    fn learned(&self) -> Option<Learned> {
        self.rule.learned()
    }

    fn heeds_purse(&self) -> bool {
        self.rule.heeds_purse()
    }

    fn copies_for(&self) -> CopyCause {
        self.rule.copies_for()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mpquic_sched::{PathView, QueueView};
    use serde_json::json;

    use super::*;

    /// Where each of 40 packets goes while ECF would wait for the fast path, which is path 0.
    fn sent(p: f64, seed: u64) -> Vec<Option<usize>> {
        let mut registry = Registry::empty();
        crate::own::register(&mut registry).unwrap();
        let config = json!({"rule": "ecf", "p": p, "seed": seed});
        let mut kept = registry.build("kept", &config).unwrap();
        let mut paths =
            [40, 2000].map(|rtt| PathView::of(usize::from(rtt > 40), Duration::from_millis(rtt)));
        for path in &mut paths {
            (path.cwnd, path.pto) = (30_000, Duration::from_millis(5_000));
        }
        (paths[0].can_send, paths[0].in_flight) = (false, 30_000);
        let mut queue = QueueView::default();
        (queue.unsent, queue.window_left) = (1000, 1_000_000);
        #[expect(clippy::disallowed_methods, reason = "a point to start from")]
        let now = Instant::now();
        let mut ask = |number| match kept.decide(&Context::new(now, &paths, &queue, number)) {
            Decision::Send { path, .. } => {
                kept.on_sent(&Sent::new(path, now, 1000, number, false, 1000));
                Some(path.get())
            }
            Decision::Wait { .. } => None,
        };
        (0..40).map(&mut ask).collect()
    }

    #[test]
    fn waits_are_kept_with_the_probability_and_the_draw_stands_until_a_packet_leaves() {
        assert_eq!(sent(0.0, 3), [Some(1); 40]);
        assert_eq!(sent(1.0, 3), [None; 40]);
        let first = (0..400).map(|seed| {
            let half = sent(0.5, seed);
            let waited = half.iter().position(Option::is_none).unwrap();
            assert!(half[waited..].iter().all(Option::is_none), "no packet left");
            waited
        });
        // How many leave before the first wait: geometric, with the mean 1 and a deviation of 1.41; five of them over 20.
        let mean = first.sum::<usize>() as f64 / 400.0;
        assert!((0.65..1.35).contains(&mean), "{mean}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut registry = Registry::empty();
        crate::own::register(&mut registry).unwrap();
        for (config, field) in [
            (json!({"p": 1.5}), "`p`"),
            (json!({"rule": "best"}), "`rule`"),
            (json!({"rule": "ecf", "config": {"beta": -1}}), "`rule`"),
        ] {
            let wrong = registry.build("kept", &config).err().unwrap();
            assert!(wrong.to_string().contains(field), "{wrong}");
        }
    }
}
