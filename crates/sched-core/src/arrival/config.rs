//! The settings of `Arrival`.

/// Settings of [`Arrival`](super::Arrival). The defaults are what it is meant to be used with; the switches take single parts
/// of the rule out, to measure what each is worth.
///
/// ```
/// use mpquic_sched_core::{Arrival, ArrivalConfig};
///
/// let config = ArrivalConfig {
///     wait: false,
///     ..ArrivalConfig::default()
/// };
/// let never_waits = Arrival::new(&config);
/// # drop(never_waits);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, default)
)]
pub struct ArrivalConfig {
    /// Whether a path with room may be left unused because the others deliver all that waits before it would. Default true.
    pub wait: bool,
    /// Whether a slower path carries what lies ahead of what the others deliver meanwhile. Default true.
    pub ahead: bool,
    /// Whether, in a path's first slow start, a queue must show in its round-trip times to be believed. Default true.
    pub fresh: bool,
    /// Whether what is in flight on a path for longer than was predicted counts as late: new data avoids the path, and once
    /// nothing waits, what the path has in flight is copied. Default true.
    pub late: bool,
    /// Whether the round trip without a queue is the smallest one of the last seconds, and not of all. Default true.
    pub base: bool,
    /// By how many of its path's mean errors a prediction may be off before what was predicted counts as late, 0 to 100.
    /// Default 1.5.
    pub margin: f64,
    /// Whether the sender's own bytes count as a queue as soon as the rate of the path's bottleneck is known, and not only once they are
    /// more than a round trip's worth, and a path is waited for at that rate. Default true.
    pub bottleneck: bool,
    /// Whether the queues of others on a path count, as its round trips show them. Default true.
    pub others: bool,
    /// Whether what is believed of the queues of others is tried again with copies of the packets that go elsewhere, now and
    /// then, and the least data always goes on several paths. Default true.
    pub probes: bool,
    /// Whether data with a deadline goes where it misses that the least often, and on two paths at once if it may miss it there.
    /// Default true.
    pub deadlines: bool,
}

impl Default for ArrivalConfig {
    fn default() -> Self {
        Self {
            wait: true,
            ahead: true,
            fresh: true,
            late: true,
            base: true,
            margin: 1.5,
            bottleneck: true,
            others: true,
            probes: true,
            deadlines: true,
        }
    }
}
