//! The addresses of a client's race (RFC 8305): in which order they are tried, which were not, and what is said if all have
//! failed.

use std::collections::VecDeque;

use crate::{AttemptError, ConnectionError, FailedAttempt, FourTuple};

/// The addresses of all attempts to begin a connection.
#[derive(Debug)]
pub(crate) struct Tries {
    /// Addresses of the server that were not tried yet, each with ours.
    waiting: VecDeque<Vec<FourTuple>>,
    failed: Vec<FailedAttempt>,
    /// All pairs of addresses, in the order in which they were given.
    order: Vec<FourTuple>,
}

impl Tries {
    /// Of these pairs, in their order.
    pub(crate) fn new(tuples: &[FourTuple]) -> Self {
        Self {
            waiting: by_server(tuples),
            failed: Vec::new(),
            order: tuples.to_vec(),
        }
    }

    /// Takes the pairs of the next address of the server.
    pub(crate) fn take(&mut self) -> Option<Vec<FourTuple>> {
        self.waiting.pop_front()
    }

    /// There is no place for another attempt now.
    pub(crate) fn put_back(&mut self, tuples: Vec<FourTuple>) {
        self.waiting.push_front(tuples);
    }

    /// Whether an address of the server was not tried yet.
    pub(crate) fn any_left(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// An attempt has failed.
    pub(crate) fn on_failed(&mut self, failed: Vec<FailedAttempt>) {
        self.failed.extend(failed);
    }

    /// The time is over: the others are not tried any more.
    pub(crate) fn end(&mut self) {
        let waiting = self.waiting.drain(..).flatten();
        self.failed
            .extend(waiting.map(|network_path| FailedAttempt {
                network_path,
                reason: AttemptError::NotTried,
            }));
    }

    /// What is said of attempts that have all failed. `None`: what the last one said.
    pub(crate) fn reason(&self) -> Option<ConnectionError> {
        let mut failed = Vec::new();
        for tuple in &self.order {
            let all = self.failed.iter();
            // An address may have been in several attempts: the one that tells the most counts.
            let most = all
                .filter(|one| one.network_path == *tuple)
                .max_by_key(|one| match one.reason {
                    AttemptError::NotTried => 0,
                    AttemptError::NoAnswer => 1,
                    AttemptError::NotSent(_) => 2,
                    AttemptError::FellSilent => 3,
                    AttemptError::Ended(_) => 4,
                });
            failed.extend(most.cloned());
        }
        let ended = failed.iter().find_map(|one| match &one.reason {
            AttemptError::Ended(reason) => Some(&**reason),
            _ => None,
        });
        let servers = by_server(&self.order).len();
        match ended {
            // The one server there is has spoken.
            Some(reason) if servers == 1 => Some(reason.clone()),
            _ if failed.is_empty() => None,
            _ => Some(ConnectionError::Unreachable(failed.into())),
        }
    }
}

/// The pairs of addresses by the server's, in the order in which each comes first.
fn by_server(tuples: &[FourTuple]) -> VecDeque<Vec<FourTuple>> {
    let mut servers: VecDeque<Vec<FourTuple>> = VecDeque::new();
    for tuple in tuples {
        let known = servers
            .iter_mut()
            .find(|server| server[0].remote == tuple.remote);
        match known {
            Some(server) if server.contains(tuple) => {}
            Some(server) => server.push(*tuple),
            None => servers.push_back(vec![*tuple]),
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(local: u8, server: u8) -> FourTuple {
        FourTuple {
            local: ([10, 0, local, 1], 5000).into(),
            remote: ([192, 0, 2, server], 443).into(),
        }
    }

    fn failed(network_path: FourTuple, reason: AttemptError) -> FailedAttempt {
        FailedAttempt {
            network_path,
            reason,
        }
    }

    #[test]
    fn servers_have_their_turn_in_the_order_in_which_they_are_named_each_pair_once() {
        let pairs = [tuple(0, 1), tuple(0, 2), tuple(1, 1), tuple(0, 1)];
        let mut tries = Tries::new(&pairs);
        let first = tries.take().unwrap();
        assert_eq!(first, [tuple(0, 1), tuple(1, 1)]);
        tries.put_back(first.clone());
        assert_eq!(tries.take(), Some(first));
        assert!(tries.any_left());
        assert_eq!(tries.take().unwrap(), [tuple(0, 2)]);
        assert!(!tries.any_left() && tries.take().is_none());
    }

    #[test]
    fn of_each_pair_the_attempt_counts_that_tells_the_most() {
        let mut tries = Tries::new(&[tuple(0, 1), tuple(0, 2), tuple(0, 3)]);
        assert_eq!(tries.reason(), None);
        let first = tries.take().unwrap()[0];
        tries.on_failed(vec![failed(first, AttemptError::FellSilent)]);
        tries.on_failed(vec![failed(first, AttemptError::NoAnswer)]);
        let second = tries.take().unwrap()[0];
        let reset = AttemptError::Ended(Box::new(ConnectionError::Reset));
        tries.on_failed(vec![failed(second, reset.clone())]);
        tries.end();
        assert!(!tries.any_left());
        let expected = [
            failed(first, AttemptError::FellSilent),
            failed(second, reset),
            failed(tuple(0, 3), AttemptError::NotTried),
        ];
        let reason = tries.reason();
        assert_eq!(reason, Some(ConnectionError::Unreachable(expected.into())));
    }

    #[test]
    fn the_only_server_there_is_has_the_last_word() {
        let mut tries = Tries::new(&[tuple(0, 1), tuple(1, 1)]);
        let reset = AttemptError::Ended(Box::new(ConnectionError::Reset));
        tries.on_failed(vec![failed(tuple(0, 1), AttemptError::NoAnswer)]);
        tries.on_failed(vec![failed(tuple(1, 1), reset)]);
        assert_eq!(tries.reason(), Some(ConnectionError::Reset));
    }
}
