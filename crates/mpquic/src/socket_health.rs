//! How a socket that fails to receive is treated, and how the application hears of it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

/// Errors in a row after which a socket rests. One by one they are harmless: some systems report here
/// that a peer was unreachable.
const MAX_ERRORS: u32 = 64;

/// The first rest; each further one is twice as long, up to the longest.
const FIRST_REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Events that a slow reader may fall behind before it misses some.
pub(crate) const SOCKET_EVENTS: usize = 64;

/// What happened to a socket of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketEvent {
    /// Receiving failed many times in a row, most recently with this error. The endpoint keeps the socket and
    /// tries again, at intervals that grow to a second.
    Failing {
        /// The address that the socket is bound to.
        local: SocketAddr,
        /// The kind of the last error.
        error: io::ErrorKind,
    },
    /// It receives again.
    Recovered {
        /// The address that the socket is bound to.
        local: SocketAddr,
    },
}

/// Events of an endpoint's sockets, from [`Endpoint::socket_events`](crate::Endpoint::socket_events).
///
/// ```no_run
/// # // no_run: waits for events as long as there is an endpoint
/// # async fn run(endpoint: mpquic::Endpoint) {
/// let mut events = endpoint.socket_events();
/// while let Some(event) = events.recv().await {
///     eprintln!("{event:?}");
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct SocketEvents(broadcast::Receiver<SocketEvent>);

impl SocketEvents {
    pub(crate) const fn new(receiver: broadcast::Receiver<SocketEvent>) -> Self {
        Self(receiver)
    }

    /// The next event; `None` once the endpoint is gone. Cancel-safe. Who falls far behind misses the oldest.
    pub async fn recv(&mut self) -> Option<SocketEvent> {
        loop {
            match self.0.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Closed) => return None,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
            }
        }
    }
}

/// Errors of a socket in a row, and whether it rests.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Health {
    errors: u32,
    rests: u32,
    until: Option<Instant>,
}

impl Health {
    /// Whether it rests, or did so until a moment ago: [`rests_until`](Self::rests_until) says it.
    pub(crate) const fn may_rest(&self) -> bool {
        self.until.is_some()
    }

    /// Receiving failed. True if the application is to hear that the socket fails.
    pub(crate) fn on_error(&mut self, now: Instant) -> bool {
        self.errors += 1;
        if self.errors < MAX_ERRORS {
            return false;
        }
        // After a rest, a single error is enough for the next one.
        self.errors = MAX_ERRORS - 1;
        let rest = FIRST_REST * (1 << self.rests.min(10));
        self.until = Some(now + rest.min(LONGEST_REST));
        self.rests = self.rests.saturating_add(1);
        self.rests == 1
    }

    /// It received. True if the application has heard that it fails.
    pub(crate) fn on_received(&mut self) -> bool {
        std::mem::take(self).rests > 0
    }

    /// Until when it rests.
    pub(crate) fn rests_until(&mut self, now: Instant) -> Option<Instant> {
        self.until = self.until.filter(|until| now < *until);
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_make_a_socket_rest_and_nothing_gives_it_up() {
        let mut health = Health::default();
        let mut now = Instant::now();
        let mut told = 0;
        for _ in 0..MAX_ERRORS - 1 {
            told += u32::from(health.on_error(now));
        }
        assert_eq!((told, health.rests_until(now)), (0, None));
        let mut rests = Vec::new();
        for _ in 0..100 {
            told += u32::from(health.on_error(now));
            let until = health.rests_until(now).unwrap();
            rests.push((until - now).as_millis());
            now = until;
            assert_eq!(health.rests_until(now), None);
        }
        assert_eq!(told, 1);
        assert_eq!(rests[..8], [10, 20, 40, 80, 160, 320, 640, 1000]);
        assert!(rests[8..].iter().all(|rest| *rest == 1000));
        // It comes back, and what it needs to fail again is as before.
        assert!(health.on_received());
        assert!(!health.on_received());
        for _ in 0..MAX_ERRORS - 1 {
            assert!(!health.on_error(now));
        }
        assert!(health.on_error(now));
    }

    #[test]
    fn single_errors_are_harmless() {
        let mut health = Health::default();
        let now = Instant::now();
        for _ in 0..10_000 {
            assert!(!health.on_error(now));
            assert_eq!(health.rests_until(now), None);
            assert!(!health.on_received());
        }
    }
}
