//! What the link between two addresses takes, as the operating system knows it.

use proto::FourTuple;
use socket2::SockRef;

/// The largest IP packet that leaves from the one address to the other, bytes: what the link takes, or the path, if the system
/// has heard of less (RFC 8899 section 5.1.2). `None` if the system does not say.
///
/// It asks the routes of the system, as a socket that is bound like `socket` and connected has them. That takes some
/// microseconds, once for a path.
#[cfg(target_os = "linux")]
pub(crate) fn link_mtu(socket: SockRef<'_>, path: &FourTuple) -> Option<u32> {
    let asked = ask(socket, path);
    if let Err(error) = &asked {
        tracing::debug!(%path, %error, "the system does not tell what the link takes");
    }
    asked.ok()
}

#[cfg(target_os = "linux")]
fn ask(socket: SockRef<'_>, path: &FourTuple) -> std::io::Result<u32> {
    use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
    use socket2::{Domain, Socket, Type};

    let [local, remote] = [path.local, path.remote].map(canonical);
    let asking = Socket::new(Domain::for_address(remote), Type::DGRAM, None)?;
    if let Some(device) = socket.device()? {
        asking.bind_device(Some(&device))?;
    }
    if !local.ip().is_unspecified() {
        let mut any_port = local;
        any_port.set_port(0);
        asking.bind(&any_port.into())?;
    }
    asking.connect(&remote.into())?;
    Ok(if remote.is_ipv4() {
        ip_mtu(&asking)?
    } else {
        ipv6_mtu(&asking)?
    })
}

/// An IPv4 address that is written as one of IPv6 as what it is.
#[cfg(target_os = "linux")]
fn canonical(address: std::net::SocketAddr) -> std::net::SocketAddr {
    match address.ip().to_canonical() {
        ip @ std::net::IpAddr::V4(_) => (ip, address.port()).into(),
        std::net::IpAddr::V6(_) => address,
    }
}

/// Elsewhere, nobody is asked.
#[cfg(not(target_os = "linux"))]
pub(crate) fn link_mtu(_: SockRef<'_>, _: &FourTuple) -> Option<u32> {
    None
}
