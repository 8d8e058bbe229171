//! Which of a machine's addresses are links; no clock and no I/O.

use std::net::IpAddr;

use proto::PathStatus;

use super::Interface;
use crate::path_manager::FullMesh;

/// What is done with links that cost money by the byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Metered {
    /// They are backups: data goes over them only if no other link works.
    #[default]
    Backup,
    /// They are used like all others.
    Use,
    /// They are not used.
    Avoid,
}

/// Interfaces of mobile networks, by how their names begin: modems on Linux (`wwan0`, `wwp0s20u4`, `ppp0`) and Android (`rmnet0`,
/// `ccmni0`), `pdp_ip0` on iOS.
const MOBILE: [&str; 6] = ["wwan", "wwp", "ppp", "rmnet", "ccmni", "pdp_ip"];

/// Which interfaces are links, and how they are used. Loopback and link-local addresses never are: they lead nowhere else.
///
/// ```
/// use mpquic::{FullMesh, LinkPolicy, Metered};
///
/// // At most three paths, one per address; the tethered telephone counts as metered, too.
/// let policy = LinkPolicy::new()
///     .limit(3)
///     .metered("usb0")
///     .use_metered(Metered::Backup)
///     .ignore("docker0");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a policy does nothing by itself"]
pub struct LinkPolicy {
    mesh: FullMesh,
    one_per_interface: bool,
    metered: Vec<String>,
    guess: bool,
    use_metered: Metered,
    ignored: Vec<String>,
    bind_device: bool,
}

impl Default for LinkPolicy {
    fn default() -> Self {
        Self {
            mesh: FullMesh::new(),
            one_per_interface: true,
            metered: Vec::new(),
            guess: true,
            use_metered: Metered::default(),
            ignored: Vec::new(),
            bind_device: true,
        }
    }
}

impl LinkPolicy {
    /// One link per interface and address family; those of mobile networks, by their names, are backups.
    pub fn new() -> Self {
        Self::default()
    }

    /// How paths are opened from the links: further addresses of the server, back-off, limit.
    pub fn full_mesh(mut self, mesh: FullMesh) -> Self {
        self.mesh = mesh;
        self
    }

    /// At most so many paths at a time; links that are no backups come first.
    pub fn limit(mut self, paths: usize) -> Self {
        self.mesh = self.mesh.limit(paths);
        self
    }

    /// Whether an interface with several addresses of a family is one link, by its first address, or one per address.
    pub const fn one_per_interface(mut self, one: bool) -> Self {
        self.one_per_interface = one;
        self
    }

    /// This interface costs money by the byte, whatever its name says.
    pub fn metered(mut self, interface: impl Into<String>) -> Self {
        self.metered.push(interface.into());
        self
    }

    /// Whether those of mobile networks are metered, by how their names begin (`wwan`, `wwp`, `ppp`, `rmnet`, `ccmni`, `pdp_ip`). Default
    /// `true`: the system is not asked for the price.
    pub const fn guess_metered(mut self, guess: bool) -> Self {
        self.guess = guess;
        self
    }

    /// What is done with interfaces that do.
    pub const fn use_metered(mut self, metered: Metered) -> Self {
        self.use_metered = metered;
        self
    }

    /// This interface is no link: a bridge to virtual machines, a tunnel.
    pub fn ignore(mut self, interface: impl Into<String>) -> Self {
        self.ignored.push(interface.into());
        self
    }

    /// Whether sockets are bound to their interface, and not only to its address, where the system can (Linux, Android). Default `true`: what is
    /// sent from the address of an interface then leaves by that interface. A server on this very machine is not reached from such a socket.
    pub const fn bind_device(mut self, bind: bool) -> Self {
        self.bind_device = bind;
        self
    }

    pub(super) const fn binds_device(&self) -> bool {
        self.bind_device
    }

    pub(super) fn mesh(&self) -> FullMesh {
        self.mesh.clone()
    }

    fn is_metered(&self, name: &str) -> bool {
        let mobile = || MOBILE.iter().any(|start| name.starts_with(start));
        self.metered.iter().any(|known| known == name) || (self.guess && mobile())
    }

    /// The links among these interfaces, those that are no backups first.
    pub(super) fn choose(&self, interfaces: &[Interface]) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        for interface in interfaces {
            let metered = self.is_metered(&interface.name);
            let avoided = metered && self.use_metered == Metered::Avoid;
            if avoided || self.ignored.contains(&interface.name) {
                continue;
            }
            let status = if metered && self.use_metered == Metered::Backup {
                PathStatus::Backup
            } else {
                PathStatus::Available
            };
            let mut families = [false; 2];
            for ip in interface.addresses.iter().copied().filter(leads_on) {
                let had = std::mem::replace(&mut families[usize::from(ip.is_ipv6())], true);
                let twice = links.iter().any(|link| link.ip == ip);
                if twice || (had && self.one_per_interface) {
                    continue;
                }
                links.push(Link {
                    interface: interface.name.clone(),
                    index: interface.index,
                    ip,
                    status,
                });
            }
        }
        // Stable: the order of the interfaces stays.
        links.sort_by_key(|link| link.status == PathStatus::Backup);
        links
    }
}

/// Whether other machines can be reached from an address.
fn leads_on(ip: &IpAddr) -> bool {
    match ip {
        // A link-local address needs its interface beside it, and no router passes it on (RFC 3927, RFC 4291 section 2.5.6).
        IpAddr::V4(ip) => !ip.is_link_local() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local() && !ip.is_unspecified(),
    }
}

/// An address of an interface from which paths may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) interface: String,
    pub(super) index: Option<u32>,
    pub(super) ip: IpAddr,
    pub(super) status: PathStatus,
}

impl Link {
    /// Whether it is the same one, however it is used. An adapter that was plugged in again is another one: a socket that is bound
    /// to the old one stays mute.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.ip == other.ip && self.interface == other.interface && self.index == other.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, addresses: &[&str]) -> Interface {
        Interface {
            name: name.to_owned(),
            index: Some(1),
            addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
        }
    }

    fn machine() -> [Interface; 4] {
        [
            interface("wwan0", &["10.64.3.9"]),
            interface("eth0", &["192.168.1.23", "192.168.1.24", "2001:db8::1"]),
            interface("wlan0", &["169.254.1.1", "fe80::1"]),
            interface("docker0", &["172.17.0.1"]),
        ]
    }

    fn chosen(policy: &LinkPolicy) -> Vec<(String, bool)> {
        let links = policy.choose(&machine()).into_iter();
        links
            .map(|link| (link.ip.to_string(), link.status == PathStatus::Backup))
            .collect()
    }

    fn list(expected: &[(&str, bool)]) -> Vec<(String, bool)> {
        let expected = expected.iter();
        expected
            .map(|(ip, backup)| ((*ip).to_owned(), *backup))
            .collect()
    }

    #[test]
    fn one_link_per_interface_and_family_with_metered_ones_as_backups() {
        let policy = LinkPolicy::new().ignore("docker0");
        let expected = [
            ("192.168.1.23", false),
            ("2001:db8::1", false),
            ("10.64.3.9", true),
        ];
        assert_eq!(chosen(&policy), list(&expected));
    }

    #[test]
    fn each_address_can_be_a_link() {
        let policy = LinkPolicy::new()
            .one_per_interface(false)
            .metered("docker0")
            .guess_metered(false);
        let expected = [
            ("10.64.3.9", false),
            ("192.168.1.23", false),
            ("192.168.1.24", false),
            ("2001:db8::1", false),
            ("172.17.0.1", true),
        ];
        assert_eq!(chosen(&policy), list(&expected));
    }

    #[test]
    fn metered_links_are_used_or_avoided_as_told() {
        let policy = LinkPolicy::new().ignore("docker0").ignore("eth0");
        assert_eq!(chosen(&policy.clone().use_metered(Metered::Avoid)), []);
        let expected = [("10.64.3.9", false)];
        assert_eq!(chosen(&policy.use_metered(Metered::Use)), list(&expected));
    }

    #[test]
    fn an_adapter_that_is_plugged_in_again_is_another_link() {
        let policy = LinkPolicy::new();
        let before = policy.choose(&[interface("usb0", &["10.0.0.1"])]);
        let mut again = interface("usb0", &["10.0.0.1"]);
        assert!(before[0].is(&policy.choose(&[again.clone()])[0]));
        again.index = Some(2);
        assert!(!before[0].is(&policy.choose(&[again])[0]));
    }
}
