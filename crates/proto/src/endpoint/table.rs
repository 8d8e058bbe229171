//! How many connections an endpoint has, and the memory of their table.

use super::Endpoint;
use crate::ConnectionCount;

/// Places of connections that an endpoint keeps though they are free.
const KEPT_CONNECTIONS: usize = 256;

impl Endpoint {
    /// How many connections of the server are complete, and how many were refused, since there were
    /// [too many](crate::ServerConfig::max_connections). Of all shards, if this is one.
    pub fn connection_count(&self) -> ConnectionCount {
        self.census.count()
    }

    /// The table of connections does not keep the memory of a crowd for ever: it shrinks, as far as the places in use allow,
    /// when a sixteenth of it is in use, and then each time that half of these are gone.
    pub(super) fn shrink(&mut self) {
        let used = self.connections.len();
        if used <= self.shrink_at && self.connections.capacity() > KEPT_CONNECTIONS {
            self.connections.shrink_to_fit();
            self.shrink_at = used / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Bench;
    use super::*;
    use crate::events::EndpointEvent;

    #[test]
    fn the_table_shrinks_after_a_crowd() {
        let mut bench = Bench::server();
        let crowd: Vec<_> = (0..100_000)
            .map(|_| bench.endpoint.register(None))
            .collect();
        assert!(bench.endpoint.connections.capacity() >= 100_000);
        // The place that was taken first is given back last.
        for handle in crowd[10..].iter().rev() {
            bench.tell(*handle, EndpointEvent::Drained);
        }
        let capacity = bench.endpoint.connections.capacity();
        assert!(capacity <= KEPT_CONNECTIONS, "{capacity}");
        for handle in &crowd[..10] {
            bench.tell(*handle, EndpointEvent::Drained);
        }
        assert_eq!(bench.endpoint.open_connections(), 0);
        let again = bench.endpoint.register(None);
        bench.tell(again, EndpointEvent::Drained);
    }
}
