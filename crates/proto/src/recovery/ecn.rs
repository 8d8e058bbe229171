//! Whether a path carries ECN marks (RFC 9000 section 13.4.2 and appendix A.4); marks no packet itself.

use mpquic_sched_core::EcnCodepoint;

use crate::frame::EcnCounts;

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
}

impl EcnCounter {
    pub(crate) const fn on_sent_marked(&mut self) {
        self.sent_ect0 += 1;
    }

    /// RFC 9000 section 13.4.2.1. Only for an ACK frame that increases the largest acknowledged
    /// packet number; `marked` packets newly acknowledged by it were sent with ECT(0).
    pub(crate) fn on_ack(&mut self, marked: u64, counts: Option<EcnCounts>) -> EcnReport {
        let Some(new) = counts else {
            return if marked > 0 {
                EcnReport::Invalid
            } else {
                EcnReport::Silent
            };
        };
        let (Some(ect0), Some(ce)) = (
            new.ect0.checked_sub(self.seen.ect0),
            new.ce.checked_sub(self.seen.ce),
        ) else {
            return EcnReport::Invalid;
        };
        // We never send ECT(1): any count of it is a remarking.
        if ect0.saturating_add(ce) < marked || new.ect1 > 0 || new.ect0 > self.sent_ect0 {
            return EcnReport::Invalid;
        }
        self.seen = new;
        EcnReport::Valid { marked, ce }
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
                    self.acked += marked;
                    self.ce = self.ce.saturating_add(ce);
                    // Appendix A.4: all CE is no signal, but a network that overwrites the field.
                    if self.acked >= TEST_PACKETS as u64 && self.ce >= self.acked {
                        self.state = State::Failed;
                    } else if self.acked > self.ce {
                        self.state = State::Capable;
                    }
                }
                ce
            }
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
            c.on_ack(2, totals(2, 0, 0)),
            EcnReport::Valid { marked: 2, ce: 0 }
        );
        // An ACK frame was lost: more than is newly acknowledged.
        assert_eq!(
            c.on_ack(2, totals(5, 0, 1)),
            EcnReport::Valid { marked: 2, ce: 1 }
        );
        assert_eq!(c.on_ack(0, None), EcnReport::Silent);
    }

    #[test]
    fn counts_that_lie() {
        assert_eq!(counter(9).on_ack(1, None), EcnReport::Invalid, "missing");
        assert_eq!(
            counter(9).on_ack(3, totals(1, 0, 1)),
            EcnReport::Invalid,
            "too few"
        );
        assert_eq!(
            counter(9).on_ack(1, totals(1, 1, 0)),
            EcnReport::Invalid,
            "ECT(1)"
        );
        assert_eq!(
            counter(9).on_ack(1, totals(10, 0, 0)),
            EcnReport::Invalid,
            "more than sent"
        );
        let mut c = counter(9);
        c.on_ack(2, totals(2, 0, 1));
        assert_eq!(c.on_ack(1, totals(3, 0, 0)), EcnReport::Invalid, "CE falls");
        assert_eq!(
            counter(1).on_ack(1, totals(0, 0, u64::MAX)),
            EcnReport::Valid {
                marked: 1,
                ce: u64::MAX
            }
        );
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
