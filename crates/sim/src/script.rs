//! What can be made to happen at a given virtual time; the network does it.

use std::net::SocketAddr;
use std::time::Duration;

use mpquic_proto::{PathErrorCode, PathId, PathStatus, Side};

use crate::Network;
use crate::chain::SharedLink;
use crate::link::{Link, LinkConfigError};

/// Something to be done at a time: see [`Network::at`].
pub enum Action {
    /// The client opens a path between these addresses, by number.
    OpenPath {
        /// The client's address.
        client: usize,
        /// The server's address.
        server: usize,
    },
    /// A side abandons a path.
    ClosePath {
        /// Who.
        side: Side,
        /// Which.
        id: PathId,
        /// The code sent.
        code: PathErrorCode,
    },
    /// A side declares a path available or backup.
    SetPathStatus {
        /// Who.
        side: Side,
        /// Which.
        id: PathId,
        /// As what.
        status: PathStatus,
    },
    /// Both directions of a path's link, or one, go dark or light up.
    ///
    /// Where a direction leads through several links, this and the next three actions change the
    /// first that it shares with nothing, or the first of all if it shares them all.
    SetLinkUp {
        /// The path, by number.
        path: usize,
        /// Only the direction in which this side sends.
        from: Option<Side>,
        /// Light or dark.
        up: bool,
    },
    /// The rate of both directions of a path's link, or of one, changes.
    SetLinkRate {
        /// The path, by number.
        path: usize,
        /// Only the direction in which this side sends.
        from: Option<Side>,
        /// Bit/s; `None` serialises in no time.
        rate: Option<u64>,
    },
    /// The propagation delay of both directions of a path's link, or of one, changes.
    SetLinkDelay {
        /// The path, by number.
        path: usize,
        /// Only the direction in which this side sends.
        from: Option<Side>,
        /// The new delay.
        delay: Duration,
    },
    /// The probability of loss of both directions of a path's link, or of one, changes.
    SetLinkLoss {
        /// The path, by number.
        path: usize,
        /// Only the direction in which this side sends.
        from: Option<Side>,
        /// The new probability.
        loss: f64,
    },
    /// A shared link changes.
    ChangeSharedLink {
        /// The link.
        link: SharedLink,
        /// How.
        change: LinkAction,
    },
    /// A NAT gives a client's address another outside: the server sees datagrams from it, and what
    /// it sends to the old one leads nowhere.
    Rebind {
        /// The client's address.
        client: usize,
        /// Its new outside.
        outside: SocketAddr,
    },
    /// A side closes the connection, with this application code.
    Close {
        /// Who.
        side: Side,
        /// The code.
        code: u32,
    },
    /// Anything else.
    Call(Box<dyn FnOnce(&mut Network)>),
}

/// A change of one link.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum LinkAction {
    /// It lights up (`true`) or goes dark.
    Up(bool),
    /// Its rate, bit/s; `None` serialises in no time.
    Rate(Option<u64>),
    /// Its propagation delay.
    Delay(Duration),
    /// Its probability of loss.
    Loss(f64),
}

impl LinkAction {
    pub(crate) fn apply<T: Clone>(
        self,
        at: Duration,
        link: &mut Link<T>,
    ) -> Result<(), LinkConfigError> {
        match self {
            Self::Up(up) => {
                link.set_up(at, up);
                Ok(())
            }
            Self::Rate(rate) => link.set_rate(at, rate),
            Self::Delay(delay) => link.set_delay(at, delay),
            Self::Loss(loss) => link.set_loss(at, loss),
        }
    }
}

impl Action {
    /// Anything else.
    pub fn call(f: impl FnOnce(&mut Network) + 'static) -> Self {
        Self::Call(Box::new(f))
    }
}
