//! How fast the peer takes what is written, period by period.

/// What became of written data since the period began.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Bytes that were acknowledged.
    pub(super) taken: u64,
    /// Data waited when the period began, and at no time since did none wait.
    waited: bool,
    /// Credit came for which a writer waited, and nothing was written since.
    credited: bool,
}

impl Pace {
    /// Nothing waits any more. But who gives credit by the byte, and acknowledges before the writer is back, has not taken all
    /// that there is.
    pub(super) fn on_all_taken(&mut self) {
        self.waited &= self.credited;
    }

    /// The peer gave a stream credit for which its writer waited.
    pub(super) fn on_credit(&mut self) {
        self.credited = true;
    }

    /// Data was written.
    pub(super) fn on_written(&mut self) {
        self.credited = false;
    }

    /// A period is over: how much the peer took, if there was more for it all the time. Begins the next
    /// one, with data that waits or none.
    pub(super) fn next(&mut self, waits: bool) -> Option<u64> {
        let taken = std::mem::take(&mut self.taken);
        let waited = std::mem::replace(&mut self.waited, waits);
        (waited && waits).then_some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_periods_with_more_to_take_count() {
        let mut pace = Pace {
            taken: 5,
            ..Pace::default()
        };
        assert_eq!(pace.next(true), None, "nothing waited when it began");
        pace.taken = 7;
        assert_eq!(pace.next(true), Some(7));
        assert_eq!(pace.next(true), Some(0));
        pace.on_all_taken();
        assert_eq!(pace.next(true), None, "there was a time without");
        assert_eq!(pace.next(false), None);
    }

    #[test]
    fn credit_by_the_byte_is_no_end_of_what_waits() {
        let mut pace = Pace::default();
        assert_eq!(pace.next(true), None);
        pace.on_credit();
        pace.on_all_taken();
        assert_eq!(pace.next(true), Some(0));
        pace.on_written();
        pace.on_all_taken();
        assert_eq!(pace.next(true), None);
    }
}
