//! Replays a page's dependencies: says which object to request when, and when the page is complete.

use std::time::Duration;

use super::page_graph::{After, PageGraph, Work};

/// The times of an activity.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    started: Option<Duration>,
    /// Downloads only.
    first_bytes: Option<Duration>,
    completed: Option<Duration>,
}

/// A page in progress. An activity starts when everything that it waits for has happened.
/// Computations take their time and run in parallel.
#[derive(Debug)]
pub(crate) struct Replay {
    page: &'static PageGraph,
    states: Vec<State>,
}

impl Replay {
    pub(crate) fn new(page: &'static PageGraph) -> Self {
        Self {
            page,
            states: vec![State::default(); page.activities.len()],
        }
    }

    /// When an activity may start, if this is known.
    fn ready(&self, activity: usize) -> Option<Duration> {
        let after = &self.page.activities[activity].after;
        after.iter().try_fold(Duration::ZERO, |latest, after| {
            let state = |other: &usize| &self.states[*other];
            let at = match after {
                After::Completion(other) => state(other).completed?,
                After::FirstBytes(other) => state(other).first_bytes?,
                After::Start(other, delay) => state(other).started? + *delay,
            };
            Some(latest.max(at))
        })
    }

    /// Advances to `now`, without downloads. Returns the objects to request.
    pub(crate) fn advance(&mut self, now: Duration) -> Vec<usize> {
        let mut asked = Vec::new();
        // An activity that starts may allow others to start.
        let mut again = true;
        while again {
            again = false;
            for activity in 0..self.states.len() {
                if self.states[activity].started.is_some() {
                    continue;
                }
                let Some(at) = self.ready(activity).filter(|at| *at <= now) else {
                    continue;
                };
                again = true;
                match self.page.activities[activity].work {
                    Work::Download(object) => {
                        self.states[activity].started = Some(now);
                        asked.push(object);
                    }
                    Work::Compute(time) => {
                        self.states[activity].started = Some(at);
                        self.states[activity].completed = Some(at + time);
                    }
                }
            }
        }
        asked
    }

    /// The next time at which an activity starts that does not wait for a download.
    pub(crate) fn next_start(&self) -> Option<Duration> {
        let waiting = (0..self.states.len()).filter(|i| self.states[*i].started.is_none());
        waiting.filter_map(|activity| self.ready(activity)).min()
    }

    /// The first bytes of an object have arrived.
    pub(crate) fn on_first_bytes(&mut self, object: usize, now: Duration) {
        // Downloads come first, in the order of the objects.
        self.states[object].first_bytes = Some(now);
    }

    /// An object is complete.
    pub(crate) fn on_object(&mut self, object: usize, now: Duration) {
        let state = &mut self.states[object];
        state.first_bytes.get_or_insert(now);
        state.completed = Some(now);
    }

    /// The last completion, if everything is complete or its completion time is known.
    pub(crate) fn end(&self) -> Option<Duration> {
        self.states
            .iter()
            .try_fold(Duration::ZERO, |end, state| Some(end.max(state.completed?)))
    }

    /// The end of the page if the object with this index and size takes these times after its
    /// request: (first bytes, complete).
    pub(crate) fn end_with(
        page: &'static PageGraph,
        mut download: impl FnMut(usize) -> (Duration, Duration),
    ) -> Option<Duration> {
        let mut replay = Self::new(page);
        let mut coming: Vec<(Duration, usize, bool)> = Vec::new();
        let mut now = Duration::ZERO;
        loop {
            for object in replay.advance(now) {
                let (first, complete) = download(object);
                coming.push((now + first, object, false));
                coming.push((now + complete, object, true));
            }
            if let Some(end) = replay.end() {
                return Some(end);
            }
            coming.sort_unstable();
            let next = coming.first().map(|(at, ..)| *at);
            now = [next, replay.next_start()].into_iter().flatten().min()?;
            while coming.first().is_some_and(|(at, ..)| *at <= now) {
                let (at, object, complete) = coming.remove(0);
                if complete {
                    replay.on_object(object, at);
                } else {
                    replay.on_first_bytes(object, at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::page_graph::page;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn google_by_hand() {
        let google = page("google").unwrap();
        let mut replay = Replay::new(google);
        assert_eq!(replay.advance(micros(0)), [0]);
        assert_eq!(replay.next_start(), None);
        // The root's computation starts with its first bytes at 100 ms. The picture is requested
        // 150.9 ms later, the first script after 151.5 ms, ...
        replay.on_first_bytes(0, micros(100_000));
        assert_eq!(replay.advance(micros(100_000)).len(), 0);
        assert_eq!(replay.next_start(), Some(micros(250_900)));
        assert_eq!(replay.advance(micros(250_900)), [2]);
        assert_eq!(replay.next_start(), Some(micros(251_500)));
        assert_eq!(replay.advance(micros(251_500)), [1]);
        // ... another picture after 487.6 ms, the second script after 498 ms.
        assert_eq!(replay.next_start(), Some(micros(587_600)));
        assert_eq!(replay.advance(micros(587_600)), [4]);
        assert_eq!(replay.next_start(), Some(micros(598_000)));
        assert_eq!(replay.advance(micros(598_000)), [3]);
        assert_eq!(replay.end(), None);
    }

    #[test]
    fn every_page_comes_to_its_end() {
        for name in ["google", "twitter", "facebook", "youtube", "renren"] {
            let page = page(name).unwrap();
            let instant = Replay::end_with(page, |_| (micros(0), micros(0))).unwrap();
            let slow = Replay::end_with(page, |_| (micros(50_000), micros(200_000))).unwrap();
            // What remains without a network is computation and waiting.
            assert!(instant > Duration::ZERO, "{name}");
            assert!(slow >= instant + micros(50_000), "{name}");
        }
        for name in ["dropbox", "alipay", "aws.amazon"] {
            let page = page(name).unwrap();
            assert!(
                Replay::end_with(page, |_| (micros(0), micros(0))).is_some(),
                "{name}"
            );
        }
    }
}
