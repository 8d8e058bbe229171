//! What an endpoint is charged for beside its connections, in bytes: for tests that hold its memory against the charge. Changes nothing.

use super::Endpoint;

/// What is charged for one of each, in bytes. Ours: within a small factor of what it takes.
const ENDPOINT: usize = 32 << 10;
const CONNECTION_ID: usize = 64;
const RESET_TOKEN: usize = 64;
const KNOWN: usize = 128;
const REMAINS: usize = 96;
const ASKED: usize = 256;

impl Endpoint {
    /// Calls `f` with everything that the endpoint holds for clients that are no connection yet, or no connection any more, and for
    /// what finds connections, and for how many bytes.
    pub(crate) fn for_each_charge(&self, f: &mut dyn FnMut(&'static str, u64)) {
        let mut tell = |what, bytes: usize| f(what, bytes as u64);
        tell("an endpoint", ENDPOINT);
        tell("clients that wait", self.waiting.bytes());
        let asked = self.accept_queue.as_ref();
        let asked = asked.map_or(0, super::accept_queue::AcceptQueue::asked);
        tell("clients that are to get a Retry packet", asked * ASKED);
        tell("datagrams before their Initial packet", self.early.bytes());
        tell("clients that were refused", self.refused.bytes());
        let (ids, tokens) = self.routes.sizes();
        tell("routes", ids * CONNECTION_ID + tokens * RESET_TOKEN);
        tell(
            "retired connection IDs",
            self.retired_cids.len() * CONNECTION_ID,
        );
        tell("known connections", self.connections.len() * KNOWN);
        let remains = self
            .connections
            .iter()
            .filter_map(|(_, known)| known.remains.as_ref());
        let remains = remains.map(|remains| REMAINS + remains.close.len());
        tell("what remains of connections", remains.sum());
    }
}
