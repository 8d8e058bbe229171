//! Lets through only answers that can be followed, counts the others, and decides in their stead.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::Unanswered;
use crate::{Context, Decision, Fallbacks, LearnedPolicy, MinRtt, Scheduler};

/// Stands between a policy's answers and what is done.
///
/// ```
/// use mpquic_sched::neural::{Guard, Unanswered};
///
/// let mut guard = Guard::default();
/// assert_eq!(guard.check(Ok(&[0.5]), -1.0..=1.0), Some(&[0.5][..]));
/// assert_eq!(guard.check(Ok(&[f32::NAN]), -1.0..=1.0), None);
/// assert_eq!(guard.check(Err(Unanswered), -1.0..=1.0), None);
/// assert_eq!(guard.report("mine".into()).fallbacks.total(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Guard {
    fallbacks: Fallbacks,
    decisions: u64,
    instead: MinRtt,
}

impl Guard {
    /// The answer, if it is finite numbers within `range`; otherwise it is counted as a fallback. That there are as many of
    /// them as there have to be, the [`Decider`](super::Decider) sees to.
    pub fn check<'a>(
        &mut self,
        answer: Result<&'a [f32], Unanswered>,
        range: RangeInclusive<f32>,
    ) -> Option<&'a [f32]> {
        self.decisions += 1;
        let Ok(outputs) = answer else {
            self.fallbacks.unanswered += 1;
            return None;
        };
        if !outputs.iter().all(|output| output.is_finite()) {
            self.fallbacks.not_finite += 1;
            return None;
        }
        if !outputs.iter().all(|output| range.contains(output)) {
            self.fallbacks.out_of_range += 1;
            return None;
        }
        Some(outputs)
    }

    /// The answer named a path that cannot be used.
    pub const fn unusable(&mut self) {
        self.fallbacks.unusable += 1;
    }

    /// What minRTT does now.
    #[inline]
    pub fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.instead.decide(cx)
    }

    /// What [`Learned`](crate::Learned) tells of the policy.
    pub const fn report(&self, engine: Cow<'static, str>) -> LearnedPolicy {
        LearnedPolicy::new(engine, self.decisions, self.fallbacks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lets_through_what_can_be_followed_and_counts_the_rest() {
        let mut guard = Guard::default();
        assert_eq!(
            guard.check(Ok(&[1.0, -1.0]), -1.0..=1.0),
            Some(&[1.0, -1.0][..])
        );
        assert_eq!(guard.check(Err(Unanswered), -1.0..=1.0), None);
        assert_eq!(guard.check(Ok(&[1.1, 0.0]), -1.0..=1.0), None);
        assert_eq!(guard.check(Ok(&[f32::NAN, 0.0]), f32::MIN..=f32::MAX), None);
        assert_eq!(
            guard.check(Ok(&[0.0, f32::INFINITY]), f32::MIN..=f32::MAX),
            None
        );
        guard.unusable();
        let report = guard.report("test".into());
        let Fallbacks {
            unanswered,
            not_finite,
            out_of_range,
            unusable,
            ..
        } = report.fallbacks;
        assert_eq!(
            (unanswered, not_finite, out_of_range, unusable),
            (1, 2, 1, 1)
        );
        assert_eq!((report.decisions, report.fallbacks.total()), (5, 5));
    }
}
