//! BALIA, Balanced Linked Adaptation (Peng, Walid, Hwang and Low, "Multipath TCP: analysis, design,
//! and implementation", 2016; draft-walid-mptcp-congestion-control-04): growth and decrease depend
//! on how far a path is behind the fastest.

use super::coupled::{CoupledIncrease, Flow};

/// The growth and decrease of the draft's section 3.
#[derive(Debug)]
pub(super) struct Balia;

/// alpha_r = max(x_k) / x_r: 1 on the fastest path.
fn alpha(own: &Flow, all: impl Iterator<Item = Flow>) -> f64 {
    let fastest = all.map(|flow| flow.rate()).fold(own.rate(), f64::max);
    fastest / own.rate()
}

impl CoupledIncrease for Balia {
    /// x_r / rtt_r / (sum x_k)^2 * (1 + alpha_r) / 2 * (4 + alpha_r) / 5 per acknowledgement.
    fn increase(own: &Flow, all: impl Iterator<Item = Flow> + Clone) -> f64 {
        let alpha = alpha(own, all.clone());
        let total: f64 = all.map(|flow| flow.rate()).sum();
        own.rate() / own.rtt / (total * total) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0
    }

    /// w_r / 2 * min(alpha_r, 1.5).
    fn decrease(own: &Flow, all: impl Iterator<Item = Flow> + Clone) -> f64 {
        alpha(own, all).min(1.5) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::coupled::tests_support::{close, flow};
    use super::*;

    /// Windows of 20 and 10 datagrams of 1000 bytes, both RTTs 100 ms: x = 2 * 10^5 and 10^5,
    /// alpha = 1 and 2. First: 2 * 10^5 / 0.1 / (3 * 10^5)^2 * 1 * 1 = 2.2222 * 10^-5. Second:
    /// 10^5 / 0.1 / (9 * 10^10) * 1.5 * 1.2 = 2 * 10^-5.
    #[test]
    fn increase_by_hand() {
        let flows = [flow(20_000, 100), flow(10_000, 100)];
        let increase = |own: usize| Balia::increase(&flows[own], flows.into_iter());
        close(increase(0), 2e6 / 9e10);
        close(increase(1), 2e-5);
    }

    /// alpha of 1, 1.25 and 2: half, five eighths, and no more than three quarters are given up.
    #[test]
    fn decrease_by_hand() {
        let flows = [flow(20_000, 100), flow(16_000, 100), flow(10_000, 100)];
        let decrease = |own: usize| Balia::decrease(&flows[own], flows.into_iter());
        close(decrease(0), 0.5);
        close(decrease(1), 0.625);
        close(decrease(2), 0.75);
    }

    /// The rate counts, not the window: 30 datagrams per 300 ms against 20 per 100 ms, alpha = 2.
    #[test]
    fn a_large_window_on_a_long_path_is_behind() {
        let flows = [flow(30_000, 300), flow(20_000, 100)];
        close(Balia::decrease(&flows[0], flows.into_iter()), 0.75);
        close(Balia::decrease(&flows[1], flows.into_iter()), 0.5);
    }
}
