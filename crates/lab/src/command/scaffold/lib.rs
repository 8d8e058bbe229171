//! The scheduler `my_scheduler`.

use mpquic_sched::support::{Advice, Waiting, backlog, nanos};
use mpquic_sched::{
    Context, Decision, InvalidConfig, PathView, Registry, RegistryError, Scheduler,
};
use serde::Deserialize;

/// Sends on the fastest path with room, but waits for a faster one if that is through sooner.
///
/// **Rule.** If the fast path is full and a slower one is not: wait, if all that is left is through over the fast path, times
/// `margin`, before one packet is through over the slow one. Otherwise send on the slow one.
///
/// This is where your own rule goes. `Waiting` finds the fast and the slow path, asks the rule only if there is a choice, lets lost
/// data pass, and ends every wait. A scheduler that wants none of that implements `decide` alone:
/// `cx.sendable()` has the paths with room.
#[derive(Debug)]
pub struct MyScheduler {
    margin: f64,
    waiting: Waiting,
}

/// The settings, as an experiment file has them: `{ name = "my_scheduler", config = { margin = 1.5 } }`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Above 1, it waits less; below 1, more. Default: 1.
    pub margin: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { margin: 1.0 }
    }
}

impl Config {
    fn check(&self) -> Result<(), InvalidConfig> {
        if self.margin.is_finite() && self.margin > 0.0 {
            return Ok(());
        }
        let fault = format!("expected a number above 0, got {}", self.margin);
        Err(InvalidConfig::field("margin", fault))
    }
}

impl MyScheduler {
    /// A scheduler for one connection.
    pub fn new(config: &Config) -> Self {
        Self {
            margin: config.margin,
            waiting: Waiting::default(),
        }
    }
}

impl Scheduler for MyScheduler {
    /// Called for every packet: no allocation, no lock, no clock but `cx.now`.
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let margin = self.margin;
        self.waiting.decide(cx, |fast, slow| {
            // Until all is sent on the fast path alone, and the last of it has arrived.
            let rounds = |path: &PathView| backlog(cx) as f64 / path.capacity() as f64;
            let over_fast = (1.0 + rounds(fast)) * nanos(fast.smoothed_rtt);
            Advice::wait_if(margin * over_fast < nanos(slow.smoothed_rtt))
        })
    }
}

/// Registers the scheduler by its name, beside the built-in ones.
///
/// # Errors
///
/// If there is a scheduler of this name already.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register_checked("my_scheduler", Config::check, MyScheduler::new)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use mpquic_sched::QueueView;
    use mpquic_sched::serde_json::json;

    use super::*;

    /// Two paths, 40 and 200 ms; the fast one is full.
    fn decide(scheduler: &mut dyn Scheduler, unsent: u64) -> Decision {
        let view = |slot, rtt_ms| {
            let mut view = PathView::of(slot, Duration::from_millis(rtt_ms));
            view.cwnd = 60_000;
            view.pto = Duration::from_millis(rtt_ms + 25);
            view
        };
        let mut paths = [view(0, 40), view(1, 200)];
        (paths[0].can_send, paths[0].in_flight) = (false, 60_000);
        let mut queue = QueueView::default();
        (queue.window_left, queue.flow_control_window) = (1 << 20, 1 << 20);
        queue.unsent = unsent;
        scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1))
    }

    #[test]
    fn it_waits_if_the_fast_path_is_done_sooner() {
        let mut scheduler = MyScheduler::new(&Config::default());
        // (1 + 1) * 40 ms is less than 200 ms, (1 + 10) * 40 ms is more.
        assert!(matches!(
            decide(&mut scheduler, 60_000),
            Decision::Wait { .. }
        ));
        assert!(matches!(
            decide(&mut scheduler, 600_000),
            Decision::Send { .. }
        ));
    }

    #[test]
    fn it_is_made_by_name_and_its_settings_are_checked() {
        let mut registry = Registry::new();
        register(&mut registry).unwrap();
        let mut eager = registry
            .build("my_scheduler", &json!({ "margin": 9.0 }))
            .unwrap();
        assert!(matches!(decide(&mut *eager, 60_000), Decision::Send { .. }));
        assert!(
            registry
                .build("my_scheduler", &json!({ "margin": -1 }))
                .is_err()
        );
    }
}
