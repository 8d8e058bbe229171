//! The links of this machine: the addresses that reach other machines.

use std::io;
use std::net::{IpAddr, SocketAddr};

/// The addresses of all interfaces that are up, without those that lead nowhere else: loopback and link-local ones.
///
/// # Errors
///
/// If the system does not tell.
pub fn usable() -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<_> = if_addrs::get_if_addrs()?
        .into_iter()
        .filter(|interface| !interface.is_loopback() && !interface.is_link_local())
        .map(|interface| interface.ip())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// Which addresses came and which went.
pub(crate) fn changes(before: &[SocketAddr], now: &[IpAddr]) -> (Vec<IpAddr>, Vec<SocketAddr>) {
    let came = now
        .iter()
        .filter(|ip| before.iter().all(|local| local.ip() != **ip));
    let went = before.iter().filter(|local| !now.contains(&local.ip()));
    (came.copied().collect(), went.copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_and_what_went() {
        let before = ["10.0.0.1:5".parse().unwrap(), "10.0.0.2:6".parse().unwrap()];
        let now: [IpAddr; 2] = ["10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap()];
        let (came, went) = changes(&before, &now);
        assert_eq!(came, [now[1]]);
        assert_eq!(went, [before[0]]);
        assert_eq!(
            changes(&before, &before.map(|local| local.ip())),
            (vec![], vec![])
        );
    }

    #[test]
    fn loopback_is_no_link() {
        assert!(usable().unwrap().iter().all(|ip| !ip.is_loopback()));
    }
}
