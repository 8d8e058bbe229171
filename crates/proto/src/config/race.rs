//! How a client connects over several addresses.

use std::time::Duration;

/// The least delay between attempts: RFC 8305 section 5.
const MIN_ATTEMPT_DELAY: Duration = Duration::from_millis(10);

/// The most: nobody waits longer for a link that is dead.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// How a client connects over several addresses: its own, and the server's.
///
/// From several addresses of its own, it sends the same first packets at once, and the first answer decides which of
/// them the connection begins on. For the server, that is one connection attempt. A first link that is slow or dead
/// costs nothing.
///
/// Several addresses of the server are tried one after another, as RFC 8305 says: the next one when nothing was heard
/// for the delay between attempts, or when the one before has failed. The first handshake that completes is the
/// connection.
///
/// If no answer comes within that delay, or the server falls silent before the handshake is complete, the client makes
/// one more attempt from each of its other addresses: the server may answer to a link that does not bring its packets
/// back.
///
/// ```
/// use std::time::Duration;
/// use mpquic_proto::RaceConfig;
///
/// let mut race = RaceConfig::default();
/// // The second link costs money: it is asked only if the first one takes its time.
/// race.stagger(Duration::from_millis(30)).attempt_delay(Duration::from_millis(200));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaceConfig {
    pub(crate) stagger: Duration,
    pub(crate) attempt_delay: Duration,
}

impl Default for RaceConfig {
    fn default() -> Self {
        Self {
            stagger: Duration::ZERO,
            attempt_delay: Duration::from_millis(250),
        }
    }
}

impl RaceConfig {
    /// How much later the first packets leave from each further address of the client. Default 0: from all at once. At
    /// most a minute.
    pub fn stagger(&mut self, delay: Duration) -> &mut Self {
        self.stagger = delay.min(MAX_DELAY);
        self
    }

    /// How long nothing may be heard before the next attempt is made: the Connection Attempt Delay of RFC 8305 section
    /// 5. Default 250 ms, as that RFC recommends; 10 ms to a minute.
    pub fn attempt_delay(&mut self, delay: Duration) -> &mut Self {
        self.attempt_delay = delay.clamp(MIN_ATTEMPT_DELAY, MAX_DELAY);
        self
    }
}
