//! What the connection asks its driver of the links that paths leave by, and what it is told; the search for the path MTU goes by
//! it.

use std::net::IpAddr;
use std::time::Instant;

use super::Connection;
use crate::{FourTuple, PathId};

/// Bytes of the headers of IP and UDP.
const fn headers(remote: IpAddr) -> u32 {
    match remote.to_canonical() {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

impl Connection {
    /// A path that has carried enough for datagrams beyond the configured size to pay, if its link takes such: answer with
    /// [`set_link_mtu`](Self::set_link_mtu). A driver that never asks leaves it at that size.
    pub fn link_mtu_wanted(&self, now: Instant) -> Option<(PathId, FourTuple)> {
        let mut paths = self.paths.iter();
        let path = paths.find(|path| path.wants_link_mtu(now))?;
        Some((path.id, path.tuple()))
    }

    /// The link by which datagrams with these addresses leave takes IP packets of `mtu` bytes; `None` if the system does not
    /// tell. The search for the path MTU goes on up to it. Nothing happens if the path has other addresses by now, or
    /// [`TransportConfig::max_mtu`](crate::TransportConfig::max_mtu) was set.
    pub fn set_link_mtu(
        &mut self,
        now: Instant,
        id: PathId,
        network_path: &FourTuple,
        mtu: Option<u32>,
    ) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if path.tuple() == *network_path {
            let payload = mtu
                .unwrap_or(0)
                .saturating_sub(headers(network_path.remote.ip()));
            path.set_link_mtu(now, u16::try_from(payload).unwrap_or(u16::MAX));
        }
    }
}
