//! ECF with the fault of the public Peekaboo code: it never waits; for reproducing figures only.

use serde::{Deserialize, Serialize};

use mpquic_sched::{Context, Decision, MinRtt, Scheduler};

/// **Faulty on purpose**: ECF that looks for `f` among the paths with room only, and so never
/// waits.
///
/// **Why it exists.** In the Go code that goes with *Peekaboo* (Wu et al., IEEE JSAC 2020), as
/// first imported into the public repository of Lee and Yoo's later work, the loop over the paths
/// skips those without window space *before* it remembers the fastest one. `f` therefore always has
/// room, the tests of ECF are never reached, and every packet goes where minRTT sends it. BLEST has
/// the same loop there. The bars labelled ECF and BLEST of a paper that measured with this code
/// (ECF and BLEST in Peekaboo's figures 2 and 7 to 12, if they rest on it: its authors published no
/// repository of their own) are bars of minRTT, and this is what to put beside them. Lee and Yoo
/// removed the fault from both in June 2022, before their own paper (Sensors 2022, 22, 6333).
///
/// To compare schedulers, use [`Ecf`](mpquic_sched::Ecf).
///
/// **Rule.** [`MinRtt`]'s, ties and all.
///
/// **Cost.** [`MinRtt`]'s.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, PathView, QueueView, Scheduler};
/// use mpquic_lab::replica::EcfNoWait;
///
/// let view = |slot, rtt_ms| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt_ms));
///     view.cwnd = 30_000;
///     view
/// };
/// let mut paths = [view(0, 40), view(1, 2000)];
/// (paths[0].can_send, paths[0].in_flight) = (false, 30_000);
/// let mut queue = QueueView::default();
/// (queue.unsent, queue.window_left) = (1000, 1_000_000); // the very last packet
///
/// let decision = EcfNoWait::default().decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[1].index)); // two seconds instead of 60 ms
/// ```
#[derive(Debug, Clone, Default)]
pub struct EcfNoWait(MinRtt);

/// Settings of [`EcfNoWait`]: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EcfNoWaitConfig {}

impl EcfNoWait {
    /// A scheduler with these settings.
    pub fn new(_config: &EcfNoWaitConfig) -> Self {
        Self::default()
    }
}

impl Scheduler for EcfNoWait {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        // The fastest of those with room is both `f` and `s`: nothing is left to test.
        self.0.decide(cx)
    }
}
