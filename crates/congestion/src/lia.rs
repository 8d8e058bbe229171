//! LIA, the Linked Increases Algorithm (RFC 6356): the paths together grow as a lone flow on the
//! best of them would; windows are halved as ever.

use super::coupled::{CoupledIncrease, Flow};

/// The growth of RFC 6356 section 3.
#[derive(Debug)]
pub(super) struct Lia;

impl CoupledIncrease for Lia {
    /// Equation (1): min(alpha / cwnd_total, 1 / cwnd_i). With equation (2),
    /// alpha / cwnd_total = max(cwnd_i / rtt_i^2) / (sum(cwnd_i / rtt_i))^2, so that cwnd_total
    /// cancels. All windows are in bytes; the datagrams' sizes do not enter alpha.
    fn increase(own: &Flow, all: impl Iterator<Item = Flow> + Clone) -> f64 {
        let (mut best, mut rate) = (0.0_f64, 0.0);
        for flow in all {
            best = best.max(flow.rate() / flow.rtt);
            rate += flow.rate();
        }
        (best / (rate * rate)).min(1.0 / own.window)
    }
}

#[cfg(test)]
mod tests {
    use super::super::coupled::tests_support::{close, flow};
    use super::*;

    /// Windows of 10 and 20 datagrams of 1000 bytes, RTTs of 100 and 200 ms:
    /// cwnd_total = 30,000; max(cwnd_i / rtt_i^2) = max(10^6, 5 * 10^5) = 10^6 on the first;
    /// sum(cwnd_i / rtt_i) = 2 * 10^5; alpha = 30,000 * 10^6 / (4 * 10^10) = 0.75.
    #[test]
    fn alpha_by_hand() {
        let flows = [flow(10_000, 100), flow(20_000, 200)];
        let increase = |own: usize| Lia::increase(&flows[own], flows.into_iter());
        close(increase(0), 0.75 / 30_000.0);
        close(increase(1), 0.75 / 30_000.0);
    }

    /// Windows of 2 and 98 datagrams, RTTs of 10 and 100 ms: cwnd_i / rtt_i^2 = 2 * 10^7 and
    /// 9.8 * 10^6; sum(cwnd_i / rtt_i) = 2 * 10^5 + 9.8 * 10^5 = 1.18 * 10^6;
    /// alpha / cwnd_total = 2 * 10^7 / 1.3924 * 10^12 = 1.4364 * 10^-5: above 1 / 98,000, the growth
    /// of a lone flow with the second path's window.
    #[test]
    fn no_path_outgrows_a_lone_flow() {
        let flows = [flow(2000, 10), flow(98_000, 100)];
        let increase = |own: usize| Lia::increase(&flows[own], flows.into_iter());
        close(increase(0), 2e7 / 1.3924e12);
        close(increase(1), 1.0 / 98_000.0);
    }
}
