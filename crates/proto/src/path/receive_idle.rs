//! Whether a path on which data is expected has fallen silent, so that it is to be asked with a PING.

use std::time::{Duration, Instant};

/// Questions that may follow each other without regard to the idle timeout. Each waits twice as long as the one before:
/// the last comes 32 PTOs after the peer was last heard.
const PROMPT_QUESTIONS: u8 = 6;

/// The most doublings of the wait: no silence is long enough for more.
const MAX_DOUBLINGS: u8 = 24;

/// After so many packets of data, or acknowledgements of ours, without a question between them, silence is worth as many
/// questions as ever.
const RUN: u8 = 32;

/// Datagrams that come less often than that are not expected. It is far below what NATs forget a client after: who waits
/// longer has `keep_alive_interval`.
const LONGEST_GAP: Duration = Duration::from_secs(5);

/// Follows one path. A receiver owes no more than acknowledgements, so that it has nothing to send once nothing comes.
/// If the address that a NAT had for it is gone, nothing will: the sender goes on sending to the old one. So who expects
/// data and hears nothing asks with a PING, by which the peer learns the new address.
///
/// Data is expected on streams that are open, and missed after a PTO. Nobody says whether datagrams are to come: they are
/// expected where they came at some pace, and missed when the usual time between two of them is over, but no earlier than
/// after a PTO.
///
/// Whoever has more to send than the peer's limits let go waits for credit, and may have nothing in flight either. What
/// raises a limit may have gone to the old address.
///
/// A connection that merely waits costs little: each question comes twice as late as the one before it, and only a run of
/// data without a question makes the next one prompt again. So there are at most six prompt questions for each 32 packets
/// of data, and beyond them one for each doubling of the idle: a peer that moves late in it is noticed, too. Those
/// beyond the sixth spare the idle timeout: none waits longer than half of it, so that they put it off by no more than it
/// is. Datagrams alone are worth six questions, as they may be over.
#[derive(Debug)]
pub(crate) struct ReceiveIdle {
    /// Something came, or was delivered: an answer may be expected.
    began: bool,
    /// Doublings of the wait before the next question.
    asked: u8,
    /// Where `asked` begins when something comes.
    patience: u8,
    /// Packets of data, and acknowledgements of ours, since the last question.
    heard: u8,
    /// When it was last looked, no data was to come on any stream.
    no_streams: bool,
    datagrams: Gaps,
}

/// What a path's peer may owe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Data may be to come on a stream.
    pub(crate) streams: bool,
    /// Data or streams wait for the peer's limits.
    pub(crate) credit: bool,
    /// The connection ends after so long a idle.
    pub(crate) idle_timeout: Option<Duration>,
}

/// How far apart datagrams come: estimated as RFC 9002 section 5.3 does it for the round trip time.
#[derive(Debug, Default)]
struct Gaps {
    last: Option<Instant>,
    mean: Duration,
    var: Duration,
}

impl Gaps {
    fn on_datagram(&mut self, now: Instant) {
        let Some(last) = self.last.replace(now) else {
            return;
        };
        let gap = now.saturating_duration_since(last).min(LONGEST_GAP);
        if gap.is_zero() {
            // Of one packet, or of one burst.
            return;
        }
        if self.mean.is_zero() {
            (self.mean, self.var) = (gap, gap / 2);
            return;
        }
        self.var = (3 * self.var + self.mean.abs_diff(gap)) / 4;
        self.mean = (7 * self.mean + gap) / 8;
    }

    /// The time after which the next one is missed; `None` if none is expected.
    fn usual(&self) -> Option<Duration> {
        let usual = self.mean + 4 * self.var;
        (!self.mean.is_zero() && usual < LONGEST_GAP).then_some(usual)
    }
}

impl Default for ReceiveIdle {
    /// Nothing is expected on a path until something came.
    fn default() -> Self {
        Self {
            began: false,
            asked: 0,
            patience: 0,
            heard: 0,
            no_streams: false,
            datagrams: Gaps::default(),
        }
    }
}

impl ReceiveIdle {
    /// Data of a stream came.
    pub(super) const fn on_data(&mut self) {
        self.no_streams = false;
        self.on_heard();
    }

    /// A datagram came.
    pub(super) fn on_datagram(&mut self, now: Instant) {
        self.datagrams.on_datagram(now);
        self.on_heard();
    }

    const fn on_heard(&mut self) {
        self.began = true;
        self.heard = self.heard.saturating_add(1);
        if self.heard >= RUN {
            self.patience = 0;
        }
        self.asked = self.patience;
    }

    /// The peer has what we sent: its answer is expected, or credit for more.
    pub(super) const fn on_delivered(&mut self) {
        self.no_streams = false;
        self.on_heard();
    }

    /// When to ask, if nothing is heard until then.
    pub(super) fn deadline(
        &self,
        heard: Instant,
        pto: Duration,
        expected: Expected,
    ) -> Option<Instant> {
        if !self.began {
            return None;
        }
        let wait = pto.saturating_mul(1 << self.asked);
        let spared = expected.idle_timeout.is_some_and(|idle| wait > idle / 2);
        if self.asked >= PROMPT_QUESTIONS && spared {
            return None;
        }
        if expected.credit || (expected.streams && !self.no_streams) {
            return heard.checked_add(wait);
        }
        let usual = self.datagrams.usual();
        let usual = usual.filter(|_| self.asked < PROMPT_QUESTIONS)?;
        heard.checked_add(wait.max(usual))
    }

    /// The question is asked.
    pub(super) fn on_asked(&mut self) {
        self.asked = (self.asked + 1).min(MAX_DOUBLINGS);
        self.patience = (self.patience + 1).min(PROMPT_QUESTIONS);
        self.heard = 0;
    }

    /// No data is to come on any stream after all.
    pub(super) const fn on_no_streams(&mut self) {
        self.no_streams = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTO: Duration = Duration::from_millis(100);

    const DATAGRAMS: Expected = Expected {
        streams: false,
        credit: false,
        idle_timeout: None,
    };

    const STREAMS: Expected = Expected {
        streams: true,
        ..DATAGRAMS
    };

    const CREDIT: Expected = Expected {
        credit: true,
        ..DATAGRAMS
    };

    /// Asks whenever it is time to, up to `most` times, without any data; each question is answered at once. Returns how
    /// many PTOs each waited.
    fn questions(idle: &mut ReceiveIdle, expected: Expected, most: usize) -> Vec<u32> {
        let now = Instant::now();
        let ask = || {
            let at = idle.deadline(now, PTO, expected)?;
            idle.on_asked();
            Some(((at - now).as_millis() / PTO.as_millis()) as u32)
        };
        std::iter::from_fn(ask).take(most).collect()
    }

    #[test]
    fn questions_wait_twice_as_long_each_time() {
        for expected in [STREAMS, CREDIT] {
            let mut idle = ReceiveIdle::default();
            assert_eq!(questions(&mut idle, expected, 8), []);
            idle.on_delivered();
            let asked = questions(&mut idle, expected, 8);
            assert_eq!(asked, [1, 2, 4, 8, 16, 32, 64, 128]);
            // However long the silence, there is one more.
            assert_eq!(questions(&mut idle, expected, 100).len(), 100);
        }
    }

    /// The idle timeout of a connection that merely waits is put off by no more than it is, or by six questions.
    #[test]
    fn the_idle_timeout_ends_the_questions() {
        for (timeout, most) in [(1, 6), (200, 7), (1000, 9), (10_000, 13)] {
            let mut idle = ReceiveIdle::default();
            idle.on_data();
            let expected = Expected {
                idle_timeout: Some(timeout * PTO),
                ..STREAMS
            };
            let asked = questions(&mut idle, expected, 100);
            assert_eq!(asked.len(), most, "{timeout}: {asked:?}");
            assert!(most == 6 || asked.iter().sum::<u32>() <= timeout);
        }
    }

    #[test]
    fn data_now_and_then_costs_six_prompt_questions_for_each_run() {
        let mut idle = ReceiveIdle::default();
        let mut asked = 0;
        for _ in 0..10 * (u32::from(RUN) + 6) {
            idle.on_data();
            let now = Instant::now();
            let at = idle.deadline(now, PTO, STREAMS).unwrap();
            if at < now + 64 * PTO {
                idle.on_asked();
                asked += 1;
            }
        }
        assert!((60..=66).contains(&asked), "{asked}");
        for _ in 0..u32::from(RUN) {
            idle.on_data();
        }
        assert_eq!(
            questions(&mut idle, STREAMS, 6),
            [1, 2, 4, 8, 16, 32],
            "after a run"
        );
        // However long it asked in vain, it asks 64 PTOs after whatever comes next, at the latest.
        questions(&mut idle, STREAMS, 100);
        idle.on_data();
        assert_eq!(questions(&mut idle, STREAMS, 2), [64, 128]);
    }

    #[test]
    fn nothing_expected_nothing_asked() {
        let mut idle = ReceiveIdle::default();
        idle.on_data();
        idle.on_no_streams();
        assert_eq!(questions(&mut idle, STREAMS, 1), []);
        // Credit is expected whatever the streams that we receive on are to bring.
        assert_eq!(questions(&mut idle, CREDIT, 1), [1]);
        idle.on_data();
        assert_eq!(questions(&mut idle, STREAMS, 1), [2]);
    }

    #[test]
    fn datagrams_that_stay_away_cost_six_questions() {
        let mut idle = ReceiveIdle::default();
        let mut now = Instant::now();
        for _ in 0..40 {
            now += PTO / 10;
            idle.on_datagram(now);
        }
        assert_eq!(questions(&mut idle, DATAGRAMS, 100).len(), 6);
        assert_eq!(questions(&mut idle, CREDIT, 1), [64]);
    }

    /// When the first question comes after datagrams with these gaps, in PTOs.
    fn first_question(gaps: impl IntoIterator<Item = Duration>) -> Option<f64> {
        let mut idle = ReceiveIdle::default();
        let mut now = Instant::now();
        idle.on_datagram(now);
        for gap in gaps {
            now += gap;
            idle.on_datagram(now);
        }
        let at = idle.deadline(now, PTO, DATAGRAMS)?;
        Some((at - now).as_secs_f64() / PTO.as_secs_f64())
    }

    #[test]
    fn datagrams_are_missed_when_their_usual_gap_is_over() {
        let steady = |ms| std::iter::repeat_n(Duration::from_millis(ms), 40);
        assert_eq!(first_question([]), None, "one is no pace");
        assert_eq!(first_question(steady(0)), None, "a burst is one");
        assert_eq!(first_question(steady(20)), Some(1.0), "not before a PTO");
        let second = first_question(steady(1000)).unwrap();
        assert!((10.0..11.0).contains(&second), "{second}");
        assert_eq!(first_question(steady(5000)), None, "too seldom");
        // One long pause does not end the expectation for long.
        let pause = std::iter::once(Duration::from_secs(3600));
        assert_eq!(first_question(pause.clone()), None);
        let resumed = first_question(pause.chain(steady(20))).unwrap();
        assert!(resumed < 3.0, "{resumed}");
        // Irregular ones are waited for longer than they ever took.
        let irregular = (0..40).map(|number| Duration::from_millis([100, 700][number % 2]));
        let wait = first_question(irregular).unwrap();
        assert!((7.0..20.0).contains(&wait), "{wait}");
    }
}
