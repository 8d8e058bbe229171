//! The program: its command line, a server, and a client with its local port.

pub(crate) mod arguments;
pub(crate) mod connect;
pub(crate) mod invite;
pub(crate) mod serve;
pub(crate) mod tun;

use std::pin::Pin;

use mpquic_peer::Stop;

/// The name of the program, for its identity.
pub(crate) const NAME: &str = "mpquic-bond";
/// With what its tickets begin.
pub(crate) const TICKET: &str = "mpbond";
/// The server's port without one.
pub(crate) const PORT: u16 = 4433;

/// From here on, signals are heard. One that came already is returned.
pub(crate) async fn heard(stop: Pin<&mut impl Future<Output = Stop>>) -> Option<Stop> {
    tokio::select! {
        biased;
        stop = stop => Some(stop),
        () = std::future::ready(()) => None,
    }
}
