//! Which targets a server connects to: nothing without a rule, and nothing inside by a rule for names.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::wire::Target;
use crate::{interfaces, special};

/// One rule: `HOST:PORT`. The host is a name, `*.suffix`, `*` for all, an address or a network (`10.0.0.0/8`,
/// `[2001:db8::]/32`); the port a number or `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    host: Host,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Any,
    Suffix(String),
    Name(String),
    Network(IpNet),
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "{text:?} is no rule: HOST:PORT is expected, such as *:443, *.example.com:*, 10.0.0.0/8:22"
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wanted)?;
        let port = match port {
            "*" => None,
            number => Some(number.parse().map_err(|_| wanted())?),
        };
        let bare = host.replace(['[', ']'], "");
        let host = if host == "*" {
            Host::Any
        } else if let Some(suffix) = host.strip_prefix("*.") {
            Host::Suffix(format!(".{}", suffix.to_ascii_lowercase()))
        } else if let Ok(network) = bare.parse::<IpNet>() {
            Host::Network(network)
        } else if let Ok(ip) = bare.parse::<IpAddr>() {
            Host::Network(ip.into())
        } else if host.is_empty() || host.contains(['/', '*', '[', ' ']) {
            return Err(wanted());
        } else {
            Host::Name(host.to_ascii_lowercase())
        };
        Ok(Self { host, port })
    }
}

/// What a server connects to. The empty list, which is the default, allows nothing.
#[derive(Debug, Clone, Default)]
pub struct AllowList(Vec<Rule>);

impl AllowList {
    /// A list with these rules.
    pub const fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// Whether a target that was asked for may be reached at `ip`, the address it has or one that its name was resolved
    /// to. A rule for names, or for all, allows public addresses only: what is inside of the server's network, or is the server itself, must
    /// be named by address.
    pub(crate) fn allows(&self, target: &Target, ip: IpAddr) -> bool {
        self.allows_if(target, ip, |ip| {
            special::is_public(ip) && !interfaces::is_own(ip)
        })
    }

    /// Whether packets to this address that have no port may pass: there is a rule for all of its ports.
    #[cfg(target_os = "linux")]
    pub(crate) fn allows_all_ports(&self, ip: IpAddr) -> bool {
        let all = self.0.iter().filter(|rule| rule.port.is_none());
        let all = Self(all.cloned().collect());
        all.allows(&Target::Address((ip, 0).into()), ip)
    }

    /// `is_public`: whether it is an address of a host for all the world, which is not this machine.
    fn allows_if(&self, target: &Target, ip: IpAddr, is_public: impl Fn(IpAddr) -> bool) -> bool {
        let ip = ip.to_canonical();
        self.0.iter().any(|rule| {
            let by_host = match (&rule.host, target) {
                (Host::Network(network), _) => network.contains(&ip),
                (Host::Any, _) => is_public(ip),
                (Host::Name(name), Target::Name(asked, _)) => {
                    is_public(ip) && asked.eq_ignore_ascii_case(name)
                }
                (Host::Suffix(suffix), Target::Name(asked, _)) => {
                    is_public(ip) && asked.to_ascii_lowercase().ends_with(suffix)
                }
                (Host::Name(_) | Host::Suffix(_), Target::Address(_)) => false,
            };
            by_host && rule.port.is_none_or(|port| port == target.port())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rules: &[&str]) -> AllowList {
        AllowList::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    fn name(name: &str, port: u16) -> Target {
        Target::Name(name.into(), port)
    }

    fn allows(list: &AllowList, target: &Target, ip: &str) -> bool {
        list.allows(target, ip.parse().unwrap())
    }

    #[test]
    fn nothing_without_a_rule() {
        assert!(!allows(
            &AllowList::default(),
            &name("example.com", 443),
            "93.184.216.34"
        ));
    }

    #[test]
    fn names_reach_public_addresses_only() {
        let all = list(&["*:443", "intern.example:*"]);
        assert!(allows(&all, &name("example.com", 443), "93.184.216.34"));
        assert!(allows(
            &all,
            &name("example.com", 443),
            "2606:2800:220:1::1"
        ));
        assert!(!allows(&all, &name("example.com", 80), "93.184.216.34"));
        assert!(allows(&all, &name("INTERN.example", 80), "93.184.216.34"));
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "172.16.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "2001:db8::1",
        ] {
            assert!(!allows(&all, &name("example.com", 443), inside), "{inside}");
            assert!(
                !allows(&all, &name("intern.example", 443), inside),
                "{inside}"
            );
        }
    }

    #[test]
    fn the_server_itself_must_be_named_by_address() {
        let ip: IpAddr = "93.184.216.34".parse().unwrap();
        let reaches = |rule: &str, target: &Target| list(&[rule]).allows_if(target, ip, |_| false);
        let (by_name, by_address) = (name("a.example.com", 80), Target::Address((ip, 80).into()));
        for rule in ["*:80", "*.example.com:80", "a.example.com:*"] {
            assert!(!reaches(rule, &by_name), "{rule}");
            assert!(!reaches(rule, &by_address), "{rule}");
        }
        for rule in ["93.184.216.34:80", "93.184.216.0/24:*"] {
            assert!(reaches(rule, &by_name), "{rule}");
            assert!(reaches(rule, &by_address), "{rule}");
        }
    }

    #[test]
    fn metadata_of_clouds_must_be_named_by_address() {
        let all = list(&["*:80"]);
        let named = list(&["*:80", "169.254.169.254:80", "[fd00:ec2::254]:80"]);
        for (ip, is_named) in [
            ("169.254.169.254", true),
            ("fd00:ec2::254", true),
            ("168.63.129.16", false),
            ("100.100.100.200", false),
            ("192.0.0.192", false),
        ] {
            let target = Target::Address((ip.parse::<IpAddr>().unwrap(), 80).into());
            assert!(!allows(&all, &target, ip), "{ip}");
            assert_eq!(allows(&named, &target, ip), is_named, "{ip}");
        }
    }

    #[test]
    fn networks_reach_what_they_name() {
        let inside = list(&["10.0.0.0/8:22", "[fd00::]/8:*", "127.0.0.1:8080"]);
        assert!(allows(&inside, &name("server.intern", 22), "10.9.9.9"));
        assert!(!allows(&inside, &name("server.intern", 23), "10.9.9.9"));
        assert!(allows(&inside, &name("server.intern", 1), "fd00::1"));
        let local = Target::Address("127.0.0.1:8080".parse().unwrap());
        assert!(allows(&inside, &local, "127.0.0.1"));
        assert!(allows(&inside, &local, "::ffff:127.0.0.1"));
        assert!(!allows(&inside, &local, "127.0.0.2"));
    }

    #[test]
    fn suffixes_are_whole_labels() {
        let suffix = list(&["*.example.com:*"]);
        assert!(allows(&suffix, &name("a.Example.com", 1), "93.184.216.34"));
        assert!(!allows(
            &suffix,
            &name("badexample.com", 1),
            "93.184.216.34"
        ));
        assert!(!allows(&suffix, &name("example.com", 1), "93.184.216.34"));
        // An address was asked for, not a name.
        let address = Target::Address("93.184.216.34:1".parse().unwrap());
        assert!(!allows(&suffix, &address, "93.184.216.34"));
    }

    #[test]
    fn what_is_no_rule_says_what_one_looks_like() {
        for text in [
            "",
            "example.com",
            "example.com:x",
            ":443",
            "a b:1",
            "10.0.0.0/99:1",
            "a*b:1",
        ] {
            let refused = text.parse::<Rule>().unwrap_err();
            assert!(
                refused.contains("HOST:PORT is expected"),
                "{text}: {refused}"
            );
        }
    }
}
