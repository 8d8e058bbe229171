//! How a path begins of which something is remembered (RFC 9959).

use std::time::Duration;

use mpquic_congestion::{MAX_WINDOW, ResumeLimits};

pub use mpquic_congestion::Reconnaissance;

use super::DAY;

/// How a path begins of which a [memory](crate::TransportConfig::path_memory) knows something: careful resume
/// (RFC 9959), for each path on its own.
///
/// A path that is remembered jumps to half of the window that it had, paced over a round trip, once a fresh
/// round-trip time agrees with that which the connection before saw at its begin. One that is longer by more than an
/// eighth (or 2 ms) tells of a queue of others: the jump is half as large then, and beyond a quarter (or 5 ms) there is
/// none. If a jump proves too much, the path retreats to less than a start without memory would have reached.
///
/// ```
/// use std::time::Duration;
/// use mpquic_proto::{CarefulResumeConfig, TransportConfig};
///
/// let mut resume = CarefulResumeConfig::default();
/// resume.lifetime(Duration::from_secs(600));
/// let mut config = TransportConfig::default();
/// config.careful_resume(Some(resume));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarefulResumeConfig {
    pub(crate) lifetime: Duration,
    pub(crate) limits: ResumeLimits,
}

impl CarefulResumeConfig {
    /// How long what is remembered of a path may be used. Default one hour; 0 is not at all, more than a day counts as a day.
    /// RFC 9959 section 4.3.1: minutes where paths change, hours where they are stable.
    pub fn lifetime(&mut self, lifetime: Duration) -> &mut Self {
        self.lifetime = lifetime.min(DAY);
        self
    }

    /// The largest window that a path may jump to, bytes: max_jump. Default 4 MiB; with 0, no path jumps.
    pub fn max_jump(&mut self, bytes: u64) -> &mut Self {
        self.limits.max_jump = bytes.min(MAX_WINDOW);
        self
    }

    /// What a path must have shown before it may jump. Default [`Reconnaissance::FirstFlight`].
    pub fn reconnaissance(&mut self, reconnaissance: Reconnaissance) -> &mut Self {
        self.limits.reconnaissance = reconnaissance;
        self
    }
}

impl Default for CarefulResumeConfig {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(3600),
            limits: ResumeLimits::default(),
        }
    }
}
