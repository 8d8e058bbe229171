//! A server's and a client's namespace with three links between them, and what can happen to them.

use std::process::{Child, Command, Stdio};

use crate::Error;

/// On the server's loopback, so that all links lead to it by their gateways.
pub(crate) const SERVER: [u8; 4] = [10, 78, 0, 1];

/// How many links there are.
pub(crate) const LINKS: u8 = 3;

/// The namespaces.
#[derive(Debug)]
pub(crate) struct Place {
    far: String,
    near: String,
    /// The last number of the client's address on each link.
    hosts: [u8; LINKS as usize],
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in [&self.far, &self.near] {
            // What was not made cannot be removed.
            let _ = run(&format!("ip netns del {name}"));
        }
    }
}

fn run(line: &str) -> Result<(), Error> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{line}: {}", stderr.trim()).into())
}

impl Place {
    pub(crate) fn new() -> Result<Self, Error> {
        let id = std::process::id();
        let place = Self {
            far: format!("chaosfar{id}"),
            near: format!("chaosnear{id}"),
            hosts: [2; LINKS as usize],
        };
        let (far, near) = (&place.far, &place.near);
        for name in [far, near] {
            run(&format!("ip netns add {name}"))?;
            run(&format!("ip -n {name} link set lo up"))?;
            // What comes in by one link is answered by it, whatever the best route is.
            for which in ["all", "default"] {
                run(&format!(
                    "ip netns exec {name} sysctl -qw net.ipv4.conf.{which}.rp_filter=0"
                ))?;
            }
        }
        let [a, b, c, d] = SERVER;
        run(&format!("ip -n {far} addr add {a}.{b}.{c}.{d}/32 dev lo"))?;
        for link in 1..=LINKS {
            place.plug(link)?;
        }
        Ok(place)
    }

    /// A link comes, as a new interface at both ends.
    pub(crate) fn plug(&self, link: u8) -> Result<(), Error> {
        let (far, near) = (&self.far, &self.near);
        run(&format!(
            "ip -n {far} link add s{link} type veth peer name c{link} netns {near}"
        ))?;
        run(&format!(
            "ip -n {far} addr add 10.78.{link}.1/24 dev s{link}"
        ))?;
        run(&format!("ip -n {far} link set s{link} up"))?;
        run(&format!("ip -n {near} link set c{link} up"))?;
        // The queue is long enough that a small send buffer is full first.
        let shape = "root tbf rate 20mbit burst 32kb latency 60ms";
        run(&format!("tc -n {far} qdisc add dev s{link} {shape}"))?;
        run(&format!("tc -n {near} qdisc add dev c{link} {shape}"))?;
        self.address(link)
    }

    /// It goes, interfaces and all.
    pub(crate) fn unplug(&self, link: u8) -> Result<(), Error> {
        run(&format!("ip -n {} link del c{link}", self.near))
    }

    /// The client's address on it, and its default route, as DHCP makes one.
    fn address(&self, link: u8) -> Result<(), Error> {
        let (near, host) = (&self.near, self.hosts[usize::from(link) - 1]);
        run(&format!(
            "ip -n {near} addr replace 10.78.{link}.{host}/24 dev c{link}"
        ))?;
        self.route(link)
    }

    fn route(&self, link: u8) -> Result<(), Error> {
        run(&format!(
            "ip -n {} route replace default via 10.78.{link}.1 dev c{link} metric {link}",
            self.near
        ))
    }

    /// Another address in place of the one that it has.
    pub(crate) fn readdress(&mut self, link: u8) -> Result<(), Error> {
        run(&format!("ip -n {} addr flush dev c{link}", self.near))?;
        let host = &mut self.hosts[usize::from(link) - 1];
        *host = 2 + (*host - 1) % 250;
        self.address(link)
    }

    pub(crate) fn up(&self, link: u8) -> Result<(), Error> {
        run(&format!("ip -n {} link set c{link} up", self.near))?;
        // Its routes went with it.
        self.route(link)
    }

    pub(crate) fn down(&self, link: u8) -> Result<(), Error> {
        run(&format!("ip -n {} link set c{link} down", self.near))
    }

    /// The server's end: the client's loses its carrier.
    pub(crate) fn set_far(&self, link: u8, state: &str) -> Result<(), Error> {
        run(&format!("ip -n {} link set s{link} {state}", self.far))
    }

    pub(crate) fn mtu(&self, link: u8, bytes: u32) -> Result<(), Error> {
        run(&format!("ip -n {} link set s{link} mtu {bytes}", self.far))?;
        run(&format!("ip -n {} link set c{link} mtu {bytes}", self.near))
    }

    /// What the client sends on a link is refused by its own system: `prohibit` (EACCES), `unreachable` (EHOSTUNREACH), `blackhole` (EINVAL).
    pub(crate) fn refuse(&self, link: u8, action: &str, how: &str) -> Result<(), Error> {
        let near = &self.near;
        run(&format!(
            "ip -n {near} rule {action} oif c{link} {how} priority {}",
            100 + u32::from(link)
        ))
    }

    /// What comes by a link is dropped without a word, at the server or at the client.
    pub(crate) fn swallow(&self, link: u8, action: &str, at_server: bool) -> Result<(), Error> {
        let (name, device) = match at_server {
            true => (&self.far, format!("s{link}")),
            false => (&self.near, format!("c{link}")),
        };
        run(&format!(
            "ip -n {name} rule {action} iif {device} blackhole priority {}",
            200 + u32::from(link)
        ))
    }

    /// Starts this program in one of the namespaces.
    pub(crate) fn start(&self, at_server: bool, arguments: &[&str]) -> Result<Child, Error> {
        let name = if at_server { &self.far } else { &self.near };
        // `ip` becomes the program: signals reach it.
        let child = Command::new("ip")
            .args(["netns", "exec", name])
            .arg(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(child)
    }
}
