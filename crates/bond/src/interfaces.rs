//! The addresses of this machine and the names of its interfaces, as they are now.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For so long, what the system said holds: each connection asks.
const FRESH: Duration = Duration::from_secs(1);

static KNOWN: Mutex<Option<(Instant, HashMap<IpAddr, String>)>> = Mutex::new(None);

/// The name of the interface that has this address; `None` if none of this machine does.
pub(crate) fn name_of(ip: IpAddr) -> Option<String> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known
        .as_ref()
        .is_none_or(|(read, _)| read.elapsed() > FRESH)
    {
        // While the system does not tell them, those of before hold.
        let read = if_addrs::get_if_addrs().map(|interfaces| {
            let named =
                |interface: if_addrs::Interface| (interface.ip().to_canonical(), interface.name);
            interfaces.into_iter().map(named).collect()
        });
        let before = known.take().map(|(_, names)| names);
        let names = read.ok().or(before).unwrap_or_default();
        *known = Some((Instant::now(), names));
    }
    let (_, names) = known.as_ref()?;
    names.get(&ip.to_canonical()).cloned()
}

/// Whether it is an address of this machine.
pub(crate) fn is_own(ip: IpAddr) -> bool {
    name_of(ip).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn loopback_is_own_and_the_world_is_not() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(is_own(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into()));
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
        assert!(!is_own(Ipv6Addr::UNSPECIFIED.into()));
    }
}
