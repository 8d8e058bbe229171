//! Whether a path on which data is expected has fallen silent, so that it is to be asked with a PING; it sends none.

use std::time::{Duration, Instant};

/// Questions that a silence, or a number of short ones, may cost. Each waits twice as long as the one before: the last
/// comes 32 PTOs after the peer was last heard.
const MAX_QUESTIONS: u8 = 6;

/// After so many packets of data without a question between them, silence is worth as many questions as ever.
const RUN: u8 = 32;

/// Follows one path. A receiver owes no more than acknowledgements, so that it has nothing to send once nothing comes.
/// If the address that a NAT had for it is gone, nothing will: the sender goes on sending to the old one. So who expects
/// data and hears nothing for a PTO asks with a PING, by which the peer learns the new address.
///
/// A connection that merely waits costs little: there are at most six questions for each 32 packets of data. Each comes
/// twice as late as the one before it, and only a run of data without a question makes the next one prompt again.
#[derive(Debug)]
pub(crate) struct Silence {
    /// Doublings of the wait before the next question.
    asked: u8,
    /// Where `asked` begins when something comes.
    patience: u8,
    /// Packets of data since the last question.
    heard: u8,
}

impl Default for Silence {
    /// Nothing is expected on a path until something came.
    fn default() -> Self {
        Self {
            asked: MAX_QUESTIONS,
            patience: 0,
            heard: 0,
        }
    }
}

impl Silence {
    /// A packet of data came.
    pub(super) const fn on_data(&mut self) {
        self.heard = self.heard.saturating_add(1);
        if self.heard >= RUN {
            self.patience = 0;
        }
        self.asked = self.patience;
    }

    /// The peer has what we sent: its answer is expected.
    pub(super) const fn on_delivered(&mut self) {
        self.asked = self.patience;
    }

    /// When to ask, if nothing is heard until then.
    pub(super) fn deadline(&self, heard: Instant, pto: Duration) -> Option<Instant> {
        (self.asked < MAX_QUESTIONS).then(|| heard + pto.saturating_mul(1 << self.asked))
    }

    /// The question is asked.
    pub(super) const fn on_asked(&mut self) {
        self.asked += 1;
        if self.patience < MAX_QUESTIONS {
            self.patience += 1;
        }
        self.heard = 0;
    }

    /// Nothing is expected after all.
    pub(super) const fn end(&mut self) {
        self.asked = MAX_QUESTIONS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTO: Duration = Duration::from_millis(100);

    /// Asks whenever it is time to, without any data, and returns after how many PTOs.
    fn questions(silence: &mut Silence) -> Vec<u32> {
        let now = Instant::now();
        std::iter::from_fn(|| {
            let at = silence.deadline(now, PTO)?;
            silence.on_asked();
            Some(((at - now).as_millis() / PTO.as_millis()) as u32)
        })
        .collect()
    }

    #[test]
    fn a_silence_costs_six_questions() {
        let mut silence = Silence::default();
        assert_eq!(questions(&mut silence), []);
        silence.on_delivered();
        assert_eq!(questions(&mut silence), [1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn data_now_and_then_costs_six_questions_for_each_run() {
        let mut silence = Silence::default();
        let mut asked = 0;
        for _ in 0..10 * (u32::from(RUN) + 6) {
            silence.on_data();
            if silence.deadline(Instant::now(), PTO).is_some() {
                silence.on_asked();
                asked += 1;
            }
        }
        assert!((60..=66).contains(&asked), "{asked}");
        for _ in 0..u32::from(RUN) {
            silence.on_data();
        }
        assert_eq!(questions(&mut silence), [1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn nothing_expected_nothing_asked() {
        let mut silence = Silence::default();
        silence.on_data();
        silence.end();
        assert_eq!(questions(&mut silence), []);
    }
}
