//! Whether a path carries ECN marks (RFC 9000 section 13.4.2 and appendix A.4).

use mpquic_sched_core::EcnCodepoint;

use mpquic_wire::frame::EcnCounts;

/// Marked packets sent on a new path before the result is awaited (RFC 9000 section 13.4.2).
const TEST_PACKETS: u32 = 10;

/// What an ACK frame says about the marks of newly acknowledged packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EcnReport {
    /// Nothing: no marked packet was newly acknowledged and no count given, or the frame is reordered.
    Silent,
    /// The counts fit. So many marked packets were newly acknowledged, so many CE marks are new.
    Valid { marked: u64, ce: u64 },
    /// The counts are missing or impossible.
    Invalid,
}

/// The sender's view of the counts of one packet number space, for which the peer keeps them.
#[derive(Debug, Default)]
pub(crate) struct EcnCounter {
    /// Packets sent with ECT(0).
    sent_ect0: u64,
    /// The counts of the last successfully processed ACK frame.
    seen: EcnCounts,
    /// Packets with numbers below this one went to other addresses: what became of their marks says nothing of these.
    since: u64,
    /// No count since then is known, so that none can be compared with.
    unknown: bool,
}

impl EcnCounter {
    pub(crate) const fn on_sent_marked(&mut self) {
        self.sent_ect0 += 1;
    }

    /// Packets from number `next` on take another network path, whose marks are tested by themselves.
    pub(crate) const fn restart(&mut self, next: u64) {
        self.since = next;
        self.unknown = true;
    }

    /// Whether the packet with this number took the network path of today.
    pub(crate) const fn concerns(&self, number: u64) -> bool {
        number >= self.since
    }

    /// RFC 9000 section 13.4.2.1. Only for an ACK frame that increases the largest acknowledged
    /// packet number; `marked` packets newly acknowledged by it were sent with ECT(0), the first of
    /// them with the number `first`.
    pub(crate) fn on_ack(
        &mut self,
        marked: u64,
        first: u64,
        counts: Option<EcnCounts>,
    ) -> EcnReport {
        // The peer counts per packet number space, and the space outlives its network path. An ACK frame
        // that is about the old one too, or the first one, sets the counts from which those of the new
        // one are told.
        if marked > 0 && (self.unknown || first < self.since) {
            return self.begin(first, counts);
        }
        let Some(new) = counts else {
            //= specs/rfc9000.txt#section-13.4.2.1
            //# If an ACK frame newly acknowledges a packet that the endpoint sent with either the
            //# ECT(0) or ECT(1) codepoint set, ECN validation fails if the corresponding ECN counts
            //# are not present in the ACK frame.
            return if marked > 0 {
                EcnReport::Invalid
            } else {
                EcnReport::Silent
            };
        };
        let (Some(ect0), Some(ect1), Some(ce)) = (
            new.ect0.checked_sub(self.seen.ect0),
            new.ect1.checked_sub(self.seen.ect1),
            new.ce.checked_sub(self.seen.ce),
        ) else {
            return EcnReport::Invalid;
        };
        //= specs/rfc9000.txt#section-13.4.2.1
        //# ECN validation also fails if the sum of the increase in ECT(0) and ECN- CE counts is less
        //# than the number of newly acknowledged packets that were originally sent with an ECT(0)
        //# marking.
        // We never send ECT(1): any count of it is a remarking.
        if ect0.saturating_add(ce) < marked || ect1 > 0 || new.ect0 > self.sent_ect0 {
            return EcnReport::Invalid;
        }
        self.seen = new;
        EcnReport::Valid { marked, ce }
    }

    #[cold]
    fn begin(&mut self, first: u64, counts: Option<EcnCounts>) -> EcnReport {
        self.unknown = first < self.since;
        self.seen = counts.unwrap_or(self.seen);
        EcnReport::Silent
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Testing,
    Unknown,
    Capable,
    Failed,
}

/// The state machine of one network path (RFC 9000 appendix A.4).
#[derive(Debug)]
pub(crate) struct EcnValidator {
    enabled: bool,
    state: State,
    /// Until the state is settled: marked packets sent, of these declared lost, and CE reported.
    sent: u32,
    lost: u32,
    acked: u64,
    ce: u64,
}

impl EcnValidator {
    /// A new path; `enabled` false never marks.
    pub(crate) const fn new(enabled: bool) -> Self {
        Self {
            enabled,
            state: if enabled {
                State::Testing
            } else {
                State::Failed
            },
            sent: 0,
            lost: 0,
            acked: 0,
            ce: 0,
        }
    }

    /// The network path is another one: its marks are tested anew, whatever became of those before.
    pub(crate) const fn restart(&mut self) {
        *self = Self::new(self.enabled);
    }

    /// The mark of the next packet. It must not change within a batch for segmentation offload.
    pub(crate) const fn outgoing(&self) -> Option<EcnCodepoint> {
        match self.state {
            State::Testing | State::Capable => Some(EcnCodepoint::Ect0),
            State::Unknown | State::Failed => None,
        }
    }

    /// A marked packet left.
    pub(crate) const fn on_sent_marked(&mut self) {
        if matches!(self.state, State::Testing) {
            self.sent += 1;
            if self.sent >= TEST_PACKETS {
                self.state = State::Unknown;
            }
        }
    }

    /// A marked packet was declared lost. All of them lost: the marks are held to be the cause.
    pub(crate) const fn on_lost_marked(&mut self) {
        if matches!(self.state, State::Testing | State::Unknown) {
            self.lost += 1;
            if matches!(self.state, State::Unknown) && self.lost >= self.sent {
                self.state = State::Failed;
            }
        }
    }

    /// Takes in the verdict on one ACK frame. The number of new CE marks: if not zero, that is a
    /// congestion event (RFC 9002 section 7.1).
    pub(crate) const fn on_ack(&mut self, report: EcnReport) -> u64 {
        if matches!(self.state, State::Failed) {
            return 0;
        }
        match report {
            EcnReport::Silent => 0,
            EcnReport::Invalid => {
                //= specs/rfc9000.txt#section-13.4.2.2
                //# If validation fails, then the endpoint MUST disable ECN.
                //= specs/rfc9000.txt#section-13.4.2.2
                //# Network routing and path elements can change mid-connection; an endpoint MUST
                //# disable ECN if validation later fails.
                self.state = State::Failed;
                0
            }
            EcnReport::Valid { marked, ce } => {
                if !matches!(self.state, State::Capable) {
                    self.judge(marked, ce);
                }
                ce
            }
        }
    }

    #[cold]
    const fn judge(&mut self, marked: u64, ce: u64) {
        self.acked += marked;
        self.ce = self.ce.saturating_add(ce);
        // Appendix A.4: all CE is no signal, but a network that overwrites the field.
        if self.acked >= TEST_PACKETS as u64 && self.ce >= self.acked {
            self.state = State::Failed;
        } else if self.acked > self.ce {
            self.state = State::Capable;
        }
    }

    /// Whether validation succeeded.
    #[cfg(test)]
    pub(crate) fn is_capable(&self) -> bool {
        self.state == State::Capable
    }

    /// Whether marking was given up.
    #[cfg(test)]
    pub(crate) fn has_failed(&self) -> bool {
        self.state == State::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn totals(ect0: u64, ect1: u64, ce: u64) -> Option<EcnCounts> {
        Some(EcnCounts { ect0, ect1, ce })
    }

    fn counter(sent: u64) -> EcnCounter {
        let mut counter = EcnCounter::default();
        (0..sent).for_each(|_| counter.on_sent_marked());
        counter
    }

    #[test]
    fn counts_that_fit() {
        let mut c = counter(10);
        assert_eq!(
            c.on_ack(2, 0, totals(2, 0, 0)),
            EcnReport::Valid { marked: 2, ce: 0 }
        );
        // An ACK frame was lost: more than is newly acknowledged.
        assert_eq!(
            c.on_ack(2, 0, totals(5, 0, 1)),
            EcnReport::Valid { marked: 2, ce: 1 }
        );
        assert_eq!(c.on_ack(0, 0, None), EcnReport::Silent);
    }

    //= specs/rfc9000.txt#section-13.4.2.1
    //= type=test
    //# If an ACK frame newly acknowledges a packet that the endpoint sent with either the ECT(0) or
    //# ECT(1) codepoint set, ECN validation fails if the corresponding ECN counts are not present in
    //# the ACK frame.
    //= specs/rfc9000.txt#section-13.4.2.1
    //= type=test
    //# ECN validation also fails if the sum of the increase in ECT(0) and ECN- CE counts is less than
    //# the number of newly acknowledged packets that were originally sent with an ECT(0) marking.
    #[test]
    fn counts_that_lie() {
        assert_eq!(counter(9).on_ack(1, 0, None), EcnReport::Invalid, "missing");
        assert_eq!(
            counter(9).on_ack(3, 0, totals(1, 0, 1)),
            EcnReport::Invalid,
            "too few"
        );
        assert_eq!(
            counter(9).on_ack(1, 0, totals(1, 1, 0)),
            EcnReport::Invalid,
            "ECT(1)"
        );
        assert_eq!(
            counter(9).on_ack(1, 0, totals(10, 0, 0)),
            EcnReport::Invalid,
            "more than sent"
        );
        let mut c = counter(9);
        c.on_ack(2, 0, totals(2, 0, 1));
        assert_eq!(
            c.on_ack(1, 0, totals(3, 0, 0)),
            EcnReport::Invalid,
            "CE falls"
        );
        assert_eq!(
            counter(1).on_ack(1, 0, totals(0, 0, u64::MAX)),
            EcnReport::Valid {
                marked: 1,
                ce: u64::MAX
            }
        );
    }

    #[test]
    fn another_network_path_is_judged_by_its_own_marks() {
        // The path before remarked, counted down, or lost all marks.
        for before in [totals(0, 4, 0), totals(9, 9, 9), totals(0, 0, 0), None] {
            let mut c = counter(4);
            c.on_ack(1, 0, before);
            c.restart(4);
            (0..20).for_each(|_| c.on_sent_marked());
            let base = before.unwrap_or_default();
            let counts = |ect0, ect1, ce| totals(base.ect0 + ect0, base.ect1 + ect1, base.ce + ce);
            assert_eq!(c.on_ack(3, 2, before), EcnReport::Silent, "of both paths");
            assert_eq!(
                c.on_ack(2, 5, counts(2, 0, 0)),
                EcnReport::Silent,
                "the first"
            );
            assert_eq!(
                c.on_ack(2, 7, counts(3, 0, 1)),
                EcnReport::Valid { marked: 2, ce: 1 },
                "after {before:?}"
            );
            assert_eq!(c.on_ack(1, 3, counts(3, 0, 1)), EcnReport::Silent, "late");
            c.on_ack(1, 9, counts(4, 0, 1));
            assert_eq!(
                c.on_ack(1, 10, counts(4, 0, 1)),
                EcnReport::Invalid,
                "bleached"
            );
            assert_eq!(
                c.on_ack(1, 11, counts(4, 1, 1)),
                EcnReport::Invalid,
                "remarked"
            );
            assert_eq!(c.on_ack(1, 12, None), EcnReport::Invalid, "gone");
        }
        for enabled in [true, false] {
            let mut v = EcnValidator::new(enabled);
            (0..10).for_each(|_| v.on_sent_marked());
            v.on_ack(EcnReport::Invalid);
            assert_eq!(v.outgoing(), None);
            v.restart();
            assert_eq!(v.outgoing(), enabled.then_some(EcnCodepoint::Ect0));
        }
    }

    #[test]
    fn tests_ten_packets_then_waits_for_the_result() {
        let mut v = EcnValidator::new(true);
        for _ in 0..10 {
            assert_eq!(v.outgoing(), Some(EcnCodepoint::Ect0));
            v.on_sent_marked();
        }
        assert_eq!(v.outgoing(), None);
        assert_eq!(v.on_ack(EcnReport::Valid { marked: 0, ce: 0 }), 0);
        assert!(!v.is_capable());
        assert_eq!(v.on_ack(EcnReport::Valid { marked: 2, ce: 1 }), 1);
        assert!(v.is_capable());
        assert_eq!(v.outgoing(), Some(EcnCodepoint::Ect0));
        v.on_ack(EcnReport::Invalid);
        assert!(v.has_failed());
        assert_eq!(v.outgoing(), None);
    }

    //= specs/rfc9000.txt#section-13.4.2.2
    //= type=test
    //# If validation fails, then the endpoint MUST disable ECN.
    #[test]
    fn all_lost_or_all_ce_fails() {
        let mut v = EcnValidator::new(true);
        (0..10).for_each(|_| v.on_sent_marked());
        (0..9).for_each(|_| v.on_lost_marked());
        assert!(!v.has_failed());
        v.on_lost_marked();
        assert!(v.has_failed());
        let mut v = EcnValidator::new(true);
        (0..10).for_each(|_| v.on_sent_marked());
        (0..10).for_each(|_| {
            v.on_ack(EcnReport::Valid { marked: 1, ce: 1 });
        });
        assert!(v.has_failed());
        assert_eq!(EcnValidator::new(false).outgoing(), None);
    }
}
