//! Opens the sockets of an endpoint: for each address, one per shard or one for all. Knows which addresses go together.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto::Steering;
use tokio::runtime::Handle;

use crate::async_socket::AsyncUdpSocket;
use crate::socket::{BufferSizes, Socket};
use crate::steer;

/// An address that an endpoint was to be bound to and is not: a wildcard address (`0.0.0.0`, `[::]`) of an address family that
/// this host does not have. The endpoint works with its other addresses: see
/// [`Endpoint::missing_addrs`](crate::Endpoint::missing_addrs).
#[derive(Debug)]
#[non_exhaustive]
pub struct MissingAddr {
    /// The address.
    pub local: SocketAddr,
    /// What the system said.
    pub error: io::Error,
}

impl fmt::Display for MissingAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, error } = self;
        let family = if is_ipv4(*local) { "IPv4" } else { "IPv6" };
        write!(
            f,
            "no socket on {local}: this host has no {family} ({error})"
        )
    }
}

/// The sockets for one address: of each shard.
type Group = Vec<Arc<Socket>>;

/// How the sockets of an endpoint are made.
#[derive(Debug)]
pub(crate) struct Binder {
    sizes: BufferSizes,
    /// If there are several shards.
    steering: Option<Steering>,
    /// Of each shard: a socket belongs to the runtime whose tasks wait for it.
    runtimes: Vec<Handle>,
    /// The shards take turns to read sockets that all of them have.
    readers: AtomicUsize,
}

impl Binder {
    pub(crate) const fn new(
        sizes: BufferSizes,
        steering: Option<Steering>,
        runtimes: Vec<Handle>,
    ) -> Self {
        Self {
            sizes,
            steering,
            runtimes,
            readers: AtomicUsize::new(0),
        }
    }

    /// The sockets of a new endpoint for these addresses, which has others on the addresses `beside` them; and the addresses
    /// that this host cannot give.
    pub(crate) fn bind_all(
        &self,
        locals: &[SocketAddr],
        beside: &[SocketAddr],
    ) -> io::Result<(Vec<Group>, Vec<MissingAddr>)> {
        bind_each(locals, beside, |local, only_v6| {
            self.bind_as(local, only_v6, &[])
        })
    }

    /// The socket of each shard for this address, which replaces those with the `former` addresses, in an endpoint that keeps
    /// those `beside` it.
    pub(crate) fn bind(
        &self,
        local: SocketAddr,
        beside: &[SocketAddr],
        former: &[SocketAddr],
    ) -> io::Result<Vec<Arc<Socket>>> {
        let only_v6 = is_only_v6(local, beside.iter().copied());
        self.bind_as(local, only_v6, former).map_err(|error| {
            let own = beside.iter().chain(former).copied();
            match holder(
                local,
                own.filter(|_| error.kind() == io::ErrorKind::AddrInUse),
            ) {
                Some(own) => taken(local, own),
                None => error,
            }
        })
    }

    fn bind_as(
        &self,
        local: SocketAddr,
        only_v6: bool,
        former: &[SocketAddr],
    ) -> io::Result<Vec<Arc<Socket>>> {
        let group = match &self.steering {
            Some(steering) => steer::bind(local, only_v6, steering)?,
            None => None,
        };
        let Some(group) = group else {
            return self.share(open(local, only_v6)?, former);
        };
        let sockets = group.into_iter().zip(&self.runtimes);
        sockets
            .map(|(socket, runtime)| {
                let _context = runtime.enter();
                let socket = Socket::new(socket, self.sizes)?;
                Ok(Arc::new(socket.replacing(former)))
            })
            .collect()
    }

    /// A socket that is bound already. All shards send on it, and one of them receives.
    pub(crate) fn adopt(&self, socket: UdpSocket) -> io::Result<Vec<Arc<Socket>>> {
        self.share(socket, &[])
    }

    /// One that the application brings, in the same way.
    pub(crate) fn adopt_abstract(
        &self,
        socket: Arc<dyn AsyncUdpSocket>,
    ) -> io::Result<Vec<Arc<Socket>>> {
        Ok(self.for_all(Socket::adopt(socket)?, self.next_reader()))
    }

    fn share(&self, socket: UdpSocket, former: &[SocketAddr]) -> io::Result<Vec<Arc<Socket>>> {
        let reader = self.next_reader();
        let _context = self.runtimes[reader].enter();
        let socket = Socket::new(socket, self.sizes)?.replacing(former);
        Ok(self.for_all(socket, reader))
    }

    fn next_reader(&self) -> usize {
        self.readers.fetch_add(1, Ordering::Relaxed) % self.runtimes.len()
    }

    /// The same one for each shard.
    fn for_all(&self, socket: Socket, reader: usize) -> Vec<Arc<Socket>> {
        let shards = self.runtimes.len();
        let socket = Arc::new(match shards {
            1 => socket,
            _ => socket.read_by(reader),
        });
        vec![socket; shards]
    }
}

/// A socket that is bound to this address; of IPv6 only if told so, else as the system has it.
pub(crate) fn open(local: SocketAddr, only_v6: bool) -> io::Result<UdpSocket> {
    let socket = unbound(local, only_v6)?;
    socket.bind(&local.into())?;
    Ok(socket.into())
}

/// One that is to be bound to this address: what IPv6 sockets take can be said only before.
pub(crate) fn unbound(local: SocketAddr, only_v6: bool) -> io::Result<socket2::Socket> {
    let domain = socket2::Domain::for_address(local);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
    if only_v6 {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// An IPv4-mapped address is one of IPv4, whatever its form.
fn is_ipv4(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_ipv4()
}

/// Whether a socket for this address is to leave IPv4 to others: by default, one on `[::]` takes IPv4 too (RFC 3493 section
/// 5.3), and then the system has no IPv4 address left on its port.
fn is_only_v6(local: SocketAddr, mut beside: impl Iterator<Item = SocketAddr>) -> bool {
    local.is_ipv6() && local.ip().is_unspecified() && beside.any(is_ipv4)
}

/// Binds all, apart from wildcard addresses of a family that this host does not have, as long as there is another one: they
/// ask for all addresses of that family, and there are none. `bind` is told whether a socket is to leave IPv4 to others.
fn bind_each<T>(
    locals: &[SocketAddr],
    beside: &[SocketAddr],
    mut bind: impl FnMut(SocketAddr, bool) -> io::Result<T>,
) -> io::Result<(Vec<T>, Vec<MissingAddr>)> {
    let all = || locals.iter().chain(beside).copied();
    let (mut sockets, mut missing) = (Vec::with_capacity(locals.len()), Vec::new());
    for &local in locals {
        match bind(local, is_only_v6(local, all())) {
            Ok(socket) => sockets.push(socket),
            Err(error) if local.ip().is_unspecified() && has_no_family(&error) => {
                missing.push(MissingAddr { local, error });
            }
            Err(error) => {
                // Those that are there already: the order says which.
                let own = locals.iter().take(sockets.len() + missing.len());
                let own = own.chain(beside).copied();
                return Err(match holder(local, own) {
                    Some(own) if error.kind() == io::ErrorKind::AddrInUse => taken(local, own),
                    _ => cannot_bind(local, &error),
                });
            }
        }
    }
    match missing.first() {
        Some(first) if sockets.is_empty() && beside.is_empty() => {
            Err(cannot_bind(first.local, &first.error))
        }
        _ => Ok((sockets, missing)),
    }
}

fn cannot_bind(local: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot bind {local}: {error}"))
}

/// Whether the system has no addresses of a socket's family: its kernel lacks it, or it is forbidden to this process.
fn has_no_family(error: &io::Error) -> bool {
    #[cfg(unix)]
    let codes = [libc::EAFNOSUPPORT, libc::EPFNOSUPPORT];
    // WSAEAFNOSUPPORT and WSAEPFNOSUPPORT.
    #[cfg(not(unix))]
    let codes = [10047, 10046];
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error
            .raw_os_error()
            .is_some_and(|code| codes.contains(&code))
}

/// Which of the endpoint's own addresses keeps it from being bound to this one.
fn holder(local: SocketAddr, mut own: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    own.find(|own| {
        let (ours, theirs) = (own.ip(), local.ip());
        // Each of two families, if one is that of a wildcard that takes both.
        let overlap = |wildcard: std::net::IpAddr, other: SocketAddr| {
            wildcard.is_unspecified() && (wildcard.is_ipv6() || is_ipv4(other))
        };
        own.port() == local.port()
            && local.port() != 0
            && (ours == theirs || overlap(ours, local) || overlap(theirs, *own))
    })
}

fn taken(local: SocketAddr, own: SocketAddr) -> io::Error {
    let mut text = format!(
        "cannot bind {local}: the endpoint's own socket on {own} has this address and port"
    );
    if is_ipv4(local) && own.is_ipv6() {
        text +=
            " (it takes IPv4, too; bind both when the endpoint is built, or the IPv4 one first)";
    }
    io::Error::new(io::ErrorKind::AddrInUse, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// What is bound, `6` of those for IPv6 only, `-` of those that are missing.
    fn bound(locals: &[&str], beside: &[&str], refuse: &[(&str, i32)]) -> Result<String, String> {
        let list = |texts: &[&str]| -> Vec<_> { texts.iter().map(|text| addr(text)).collect() };
        let result = bind_each(&list(locals), &list(beside), |local, only_v6| {
            let refused = refuse.iter().find(|(text, _)| addr(text) == local);
            match refused {
                Some((_, code)) => Err(io::Error::from_raw_os_error(*code)),
                None => Ok(format!("{local}{}", if only_v6 { " 6" } else { "" })),
            }
        });
        let (sockets, missing) = result.map_err(|error| error.to_string())?;
        let missing = missing.iter().map(|one| format!("-{}", one.local));
        Ok(sockets
            .into_iter()
            .chain(missing)
            .collect::<Vec<_>>()
            .join(", "))
    }

    #[test]
    fn an_ipv6_wildcard_leaves_ipv4_to_the_sockets_beside_it() {
        for (locals, beside, expected) in [
            (&["[::]:1"][..], &[][..], "[::]:1"),
            (&["[::]:1", "[::1]:2"], &[], "[::]:1, [::1]:2"),
            (&["0.0.0.0:1", "[::]:1"], &[], "0.0.0.0:1, [::]:1 6"),
            (&["[::]:1", "0.0.0.0:1"], &[], "[::]:1 6, 0.0.0.0:1"),
            (&["[::]:1", "127.0.0.1:1"], &[], "[::]:1 6, 127.0.0.1:1"),
            (
                &["[::]:1", "[::ffff:127.0.0.1]:1"],
                &[],
                "[::]:1 6, [::ffff:127.0.0.1]:1",
            ),
            (&["[::]:1"], &["192.0.2.1:1"], "[::]:1 6"),
            (
                &["0.0.0.0:1", "[2001:db8::1]:1"],
                &[],
                "0.0.0.0:1, [2001:db8::1]:1",
            ),
        ] {
            assert_eq!(bound(locals, beside, &[]).as_deref(), Ok(expected));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_host_without_a_family_goes_on_with_the_other() {
        let none = libc::EAFNOSUPPORT;
        let both = ["0.0.0.0:1", "[::]:1"];
        let reverse = ["[::]:1", "0.0.0.0:1"];
        let (v4, v6) = ("0.0.0.0:1", "[::]:1");
        for code in [none, libc::EADDRNOTAVAIL] {
            let expected = Ok("0.0.0.0:1, -[::]:1");
            assert_eq!(bound(&both, &[], &[(v6, code)]).as_deref(), expected);
            assert_eq!(bound(&reverse, &[], &[(v6, code)]).as_deref(), expected);
            let expected = Ok("[::]:1 6, -0.0.0.0:1");
            assert_eq!(bound(&both, &[], &[(v4, code)]).as_deref(), expected);
        }
        let beside = bound(&["[::]:1"], &["192.0.2.1:1"], &[(v6, none)]);
        assert_eq!(beside.as_deref(), Ok("-[::]:1"));
        // Somebody asked for just this address, it is another error, or nothing is left.
        for (locals, refused) in [
            (&["0.0.0.0:1", "[::1]:1"][..], &[("[::1]:1", none)][..]),
            (
                &["0.0.0.0:1", "[2001:db8::1]:1"],
                &[("[2001:db8::1]:1", libc::EADDRNOTAVAIL)],
            ),
            (&both, &[(v6, libc::EACCES)]),
            (&both, &[(v6, libc::EADDRINUSE)]),
            (&both, &[(v6, none), (v4, none)]),
            (&["[::]:1"], &[(v6, none)]),
        ] {
            let error = bound(locals, &[], refused).unwrap_err();
            assert!(error.starts_with("cannot bind "), "{error}");
        }
    }

    #[test]
    fn a_missing_address_is_told_in_one_line() {
        let missing = MissingAddr {
            local: addr("[::]:4433"),
            error: io::Error::new(io::ErrorKind::AddrNotAvailable, "why"),
        };
        let expected = "no socket on [::]:4433: this host has no IPv6 (why)";
        assert_eq!(missing.to_string(), expected);
    }

    #[test]
    fn the_own_socket_that_has_an_address_is_named() {
        for (local, own, expected) in [
            ("0.0.0.0:1", "[::]:1", true),
            ("127.0.0.1:1", "[::]:1", true),
            ("127.0.0.1:1", "0.0.0.0:1", true),
            ("0.0.0.0:1", "127.0.0.1:1", true),
            ("[::1]:1", "[::]:1", true),
            ("[::1]:1", "0.0.0.0:1", false),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("127.0.0.1:1", "[::]:2", false),
        ] {
            let found = holder(addr(local), std::iter::once(addr(own)));
            assert_eq!(found.is_some(), expected, "{local} {own}");
        }
    }
}
