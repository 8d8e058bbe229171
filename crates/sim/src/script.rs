//! Actions that a network performs at a given virtual time.

use std::net::SocketAddr;
use std::time::Duration;

use mpquic_proto::{PathErrorCode, PathId, PathStatus, Side};

use crate::Network;
use crate::chain::SharedLink;
use crate::link::{Link, LinkConfigError};

/// An action for [`Network::at`].
#[non_exhaustive]
pub enum Action {
    /// The client opens a path between the addresses with these numbers.
    OpenPath {
        /// The client's address.
        client: usize,
        /// The server's address.
        server: usize,
    },
    /// A side abandons a path.
    ClosePath {
        /// The side.
        side: Side,
        /// The path.
        id: PathId,
        /// The error code to send.
        code: PathErrorCode,
    },
    /// A side sets the status of a path to available or backup.
    SetPathStatus {
        /// The side.
        side: Side,
        /// The path.
        id: PathId,
        /// The status.
        status: PathStatus,
    },
    /// Takes both directions of a path's link, or one of them, down or up.
    ///
    /// If a direction has several links, this and the next three actions change the first link that
    /// no other path uses, or the first one if all are shared.
    SetLinkUp {
        /// The number of the path.
        path: usize,
        /// Only the direction in which this side sends.
        from: Option<Side>,
        /// `false` takes the link down.
        up: bool,
    },
    /// Changes the rate of both directions of a path's link, or of one.
    SetLinkRate {
        /// The number of the path.
        path: usize,
        /// Only the direction in which this side sends.
        from: Option<Side>,
        /// Bit/s. With `None`, serialisation takes no time.
        rate: Option<u64>,
    },
    /// Changes the propagation delay of both directions of a path's link, or of one.
    SetLinkDelay {
        /// The number of the path.
        path: usize,
        /// Only the direction in which this side sends.
        from: Option<Side>,
        /// The new delay.
        delay: Duration,
    },
    /// Changes the probability of loss of both directions of a path's link, or of one.
    SetLinkLoss {
        /// The number of the path.
        path: usize,
        /// Only the direction in which this side sends.
        from: Option<Side>,
        /// The new probability.
        loss: f64,
    },
    /// Changes a shared link.
    ChangeSharedLink {
        /// The link.
        link: SharedLink,
        /// The change.
        change: LinkAction,
    },
    /// A NAT rebinding: a client's address gets a new outside address. The server receives
    /// datagrams from the new one, and datagrams to the old one are lost.
    Rebind {
        /// The number of the client's address.
        client: usize,
        /// The new outside address.
        outside: SocketAddr,
    },
    /// A client's address gives way to another one on the same links, as when its network numbers it anew. Datagrams
    /// from and to the old one are lost. The client's connection does not move by itself: see
    /// [`PathMut::migrate`](mpquic_proto::PathMut::migrate).
    Renumber {
        /// The number of the client's address.
        client: usize,
        /// The new address, inside and outside.
        address: SocketAddr,
    },
    /// A side closes the connection with this application error code.
    Close {
        /// The side.
        side: Side,
        /// The code.
        code: u32,
    },
    /// The host of a side runs nothing for a while: no timer, no application. What arrives meanwhile waits in its
    /// sockets, however much it is.
    Stop {
        /// The side.
        side: Side,
        /// How long.
        time: Duration,
        /// What it does first when it runs again.
        resume: Resume,
    },
    /// Any other action.
    Call(Box<dyn FnOnce(&mut Network)>),
}

/// What a host does first when it runs again after an [`Action::Stop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// It reads its sockets. The protocol learns that the datagrams came when they are read.
    Datagrams,
    /// It looks at its timers, and reads its sockets so much later.
    Timers {
        /// How much later.
        reads_after: Duration,
    },
    /// Only the connection stood still: the endpoint has read the sockets all the while, and the connection learns
    /// when each datagram came.
    Inbox,
}

/// A change of one link.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum LinkAction {
    /// Takes the link up (`true`) or down.
    Up(bool),
    /// The rate in bit/s. With `None`, serialisation takes no time.
    Rate(Option<u64>),
    /// The propagation delay.
    Delay(Duration),
    /// The probability of loss.
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
    /// An action that calls this function.
    pub fn call(f: impl FnOnce(&mut Network) + 'static) -> Self {
        Self::Call(Box::new(f))
    }
}
