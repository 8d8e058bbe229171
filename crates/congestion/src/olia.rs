//! OLIA, the Opportunistic Linked Increases Algorithm (Khalili, Gast, Popovic and Le Boudec, "MPTCP is
//! not Pareto-optimal", 2012; draft-khalili-mptcp-congestion-control-05): coupled growth, and a term
//! that moves window from the paths with most of it to better ones.

use super::coupled::{CoupledIncrease, Flow};

/// The growth of the draft's section 3. Its least ssthresh of one datagram where there are several
/// paths is left out: RFC 9002 section 7.2 has no window below two.
#[derive(Debug)]
pub(super) struct Olia;

/// What tells good paths from bad ones. With one loss in l bytes, a lone flow carries sqrt(l) / rtt
/// but for a constant: the larger l / rtt^2, the better. The authors' Linux code ranks by that, too.
fn merit(flow: &Flow) -> f64 {
    flow.loss_interval / (flow.rtt * flow.rtt)
}

/// How many of the paths are what; `largest` and `best` are what makes them so.
struct Sets {
    paths: f64,
    max_w_paths: f64,
    collected_paths: f64,
    largest: f64,
    best: f64,
}

impl Sets {
    fn of(all: impl Iterator<Item = Flow> + Clone) -> Self {
        let (mut largest, mut best) = (0.0_f64, 0.0_f64);
        for flow in all.clone() {
            largest = largest.max(flow.window);
            best = best.max(merit(&flow));
        }
        let mut sets = Self {
            paths: 0.0,
            max_w_paths: 0.0,
            collected_paths: 0.0,
            largest,
            best,
        };
        for flow in all {
            sets.paths += 1.0;
            if sets.has_largest_window(&flow) {
                sets.max_w_paths += 1.0;
            } else if sets.is_best(&flow) {
                sets.collected_paths += 1.0;
            }
        }
        sets
    }

    /// In whole datagrams, as windows move: less than one apart is equal.
    fn has_largest_window(&self, flow: &Flow) -> bool {
        flow.window + flow.mss > self.largest
    }

    fn is_best(&self, flow: &Flow) -> bool {
        merit(flow) >= self.best
    }

    /// alpha_r: positive for the best paths that have not the largest window, at the expense of
    /// those that have; nothing for all if there are none of the former.
    fn alpha(&self, flow: &Flow) -> f64 {
        if self.collected_paths == 0.0 {
            0.0
        } else if self.has_largest_window(flow) {
            -1.0 / self.paths / self.max_w_paths
        } else if self.is_best(flow) {
            1.0 / self.paths / self.collected_paths
        } else {
            0.0
        }
    }
}

impl CoupledIncrease for Olia {
    /// (w_r / rtt_r^2) / (sum w_p / rtt_p)^2 + alpha_r / w_r.
    fn increase(own: &Flow, all: impl Iterator<Item = Flow> + Clone) -> f64 {
        let rate: f64 = all.clone().map(|flow| flow.rate()).sum();
        own.rate() / own.rtt / (rate * rate) + Sets::of(all).alpha(own) / own.window
    }
}

#[cfg(test)]
mod tests {
    use super::super::coupled::tests_support::{close, flow};
    use super::*;

    fn flows<const N: usize>(of: [(u64, u64, u64); N]) -> [Flow; N] {
        of.map(|(window, rtt_ms, loss_interval)| Flow {
            loss_interval: loss_interval as f64,
            ..flow(window, rtt_ms)
        })
    }

    fn alpha<const N: usize>(flows: [Flow; N]) -> [f64; N] {
        flows.map(|own| Sets::of(flows.into_iter()).alpha(&own))
    }

    /// Windows of 20 and 10 datagrams, both RTTs 100 ms, the second path with fewer losses: it is
    /// collected, the first has the largest window. alpha = -1/2 and 1/2;
    /// (w / rtt^2) / (sum w / rtt)^2 = 2 * 10^6 / (9 * 10^10) = 2.2222 * 10^-5 and 1.1111 * 10^-5;
    /// alpha / w = -2.5 * 10^-5 and 5 * 10^-5. The first one's window shrinks.
    #[test]
    fn window_moves_to_the_better_path() {
        let flows = flows([(20_000, 100, 50_000), (10_000, 100, 200_000)]);
        assert_eq!(alpha(flows), [-0.5, 0.5]);
        let increase = |own: usize| Olia::increase(&flows[own], flows.into_iter());
        close(increase(0), 2e6 / 9e10 - 2.5e-5);
        close(increase(1), 1e6 / 9e10 + 5e-5);
        assert!(increase(0) < 0.0);
    }

    /// The best path has the largest window already: nothing to move.
    #[test]
    fn no_alpha_where_the_best_path_has_most() {
        let flows = flows([(20_000, 100, 200_000), (10_000, 100, 50_000)]);
        assert_eq!(alpha(flows), [0.0, 0.0]);
        close(Olia::increase(&flows[0], flows.into_iter()), 2e6 / 9e10);
    }

    /// 200,000 / 0.1^2 = 2 * 10^7, 800,000 / 0.4^2 = 5 * 10^6: four times the distance between
    /// losses does not make up for four times the RTT.
    #[test]
    fn the_rtt_counts_twice() {
        assert_eq!(
            alpha(flows([(30_000, 400, 800_000), (10_000, 100, 200_000)])),
            [-0.5, 0.5]
        );
    }

    /// Four paths: two with the largest window (less than a datagram apart), one collected, one
    /// neither. alpha = -1/4/2 twice, 1/4/1, 0: in sum nothing.
    #[test]
    fn alphas_of_four_paths() {
        let flows = flows([
            (20_000, 100, 10_000),
            (19_500, 100, 10_000),
            (10_000, 100, 90_000),
            (10_000, 100, 50_000),
        ]);
        assert_eq!(alpha(flows), [-0.125, -0.125, 0.25, 0.0]);
    }
}
