//! Network namespaces with two or more paths between a server and a client, shaped by the kernel's `tc tbf`.
//!
//! Each path is: server, veth, router, TUN device, [`Wire`], TUN device, router, veth, client. The routers' TUN devices have a token
//! bucket filter, which is rate and queue; the wire is the delay. A TUN device has no link layer, so what the filter counts is
//! the IP packet. The filter is not on the hosts, because a sender notices what waits in its own devices.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use mpquic_sim::{LinkConfig, QueueLimit};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thiserror::Error;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::wire::Wire;

/// An IP packet that fills a UDP payload of 1452 bytes.
const PACKET: u64 = 1480;
/// The MTU of every device, bytes.
const MTU: u16 = 1500;

/// Why there is no such network on this machine.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// A program of iproute2 or procps is missing or refused.
    #[error("{command}: {reason}")]
    Command {
        /// The command line.
        command: String,
        /// What it said.
        reason: String,
    },
    /// A namespace or a TUN device could not be opened.
    #[error("{0}: {1}")]
    Device(String, std::io::Error),
    /// A link has a setting that the kernel does not get here.
    #[error("a link has other settings than a rate, a delay, and a queue in bytes: {0}")]
    Unsupported(String),
}

/// One direction of a path: what `tbf` and the wire are set to.
#[derive(Debug, Clone, Copy)]
struct Shape {
    rate: u64,
    limit: u64,
    delay: Duration,
}

impl Shape {
    fn of(link: &LinkConfig) -> Result<Self, PlaceError> {
        let unsupported = || PlaceError::Unsupported(format!("{link:?}"));
        let (Some(rate), QueueLimit::Bytes(queue)) = (link.rate, link.queue) else {
            return Err(unsupported());
        };
        let plain = LinkConfig::new(rate, link.delay).with_queue(link.queue);
        if *link != plain {
            return Err(unsupported());
        }
        Ok(Self {
            rate,
            // The packet that waits for its tokens is in the filter's queue. The simulator's queue is behind the packet that is
            // being serialised.
            limit: queue + PACKET,
            delay: link.delay,
        })
    }

    /// The size of the bucket, bytes: room for this time, since tokens beyond it are lost if the kernel's timer is late, and for
    /// two packets.
    fn burst(self, time: Duration) -> u64 {
        let bytes = u128::from(self.rate) * time.as_micros() / 8_000_000;
        u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .max(2 * u64::from(MTU))
    }
}

/// The four namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Where the server runs.
    Server,
    /// The router that queues what the server sends.
    Near,
    /// The router that queues what the client sends.
    Far,
    /// Where the client runs.
    Client,
}

const HOSTS: [Host; 4] = [Host::Server, Host::Near, Host::Far, Host::Client];

/// A network of namespaces. Dropping it removes it.
#[derive(Debug)]
pub struct Place {
    id: u32,
    paths: usize,
    wires: Vec<Wire>,
    mptcp: Option<PlaceError>,
}

fn run(command: &str) -> Result<String, PlaceError> {
    let failed = |reason: String| PlaceError::Command {
        command: command.to_owned(),
        reason,
    };
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    Err(failed(reason.trim().to_owned()))
}

impl Place {
    /// A network with these paths, from client to server and from server to client. `id` tells it from others on the machine,
    /// `bucket` is the time at the rate that the filters' buckets hold.
    ///
    /// # Errors
    ///
    /// If a link has a setting that this cannot do, if `ip` or `tc` are not there, or if the caller is not root.
    pub fn new(
        id: u32,
        bucket: Duration,
        paths: &[(LinkConfig, LinkConfig)],
    ) -> Result<Self, PlaceError> {
        let shapes: Vec<_> = paths
            .iter()
            .map(|(up, down)| Ok((Shape::of(up)?, Shape::of(down)?)))
            .collect::<Result<_, PlaceError>>()?;
        // From here on, dropping it removes what was made.
        let mut place = Self {
            id,
            paths: paths.len(),
            wires: Vec::new(),
            mptcp: None,
        };
        for host in HOSTS {
            run(&format!("ip netns add {}", place.name(host)))?;
            place.ip(host, "link set lo up")?;
            // Answers take the path of what they answer, whatever other routes there are.
            for which in ["all", "default"] {
                place.sysctl(host, &format!("net.ipv4.conf.{which}.rp_filter=0"))?;
            }
            // Else, a TCP connection begins with what the one before it has learned.
            place.sysctl(host, "net.ipv4.tcp_no_metrics_save=1")?;
        }
        for router in [Host::Near, Host::Far] {
            place.sysctl(router, "net.ipv4.ip_forward=1")?;
        }
        for (number, (up, down)) in shapes.into_iter().enumerate() {
            place.path(number, bucket, up, down)?;
        }
        place.mptcp = place.allow_mptcp().err();
        Ok(place)
    }

    fn name(&self, host: Host) -> String {
        let host = match host {
            Host::Server => "server",
            Host::Near => "near",
            Host::Far => "far",
            Host::Client => "client",
        };
        format!("agree{}{host}", self.id)
    }

    fn ip(&self, host: Host, command: &str) -> Result<String, PlaceError> {
        run(&format!("ip -n {} {command}", self.name(host)))
    }

    fn sysctl(&self, host: Host, setting: &str) -> Result<(), PlaceError> {
        let name = self.name(host);
        run(&format!("ip netns exec {name} sysctl -qw {setting}")).map(|_| ())
    }

    fn path(
        &mut self,
        number: usize,
        bucket: Duration,
        up: Shape,
        down: Shape,
    ) -> Result<(), PlaceError> {
        for (host, router, net) in [
            (Host::Server, Host::Near, 78),
            (Host::Client, Host::Far, 79),
        ] {
            let (here, there) = (self.name(host), self.name(router));
            run(&format!(
                "ip -n {here} link add path{number} type veth peer name path{number} netns {there}"
            ))?;
            for (host, last) in [(host, 1), (router, 2)] {
                let address = format!("10.{net}.{number}.{last}/24");
                self.ip(host, &format!("addr add {address} dev path{number}"))?;
                self.ip(host, &format!("link set path{number} up"))?;
            }
            let other = 78 + 79 - net;
            self.ip(
                host,
                &format!("route add 10.{other}.{number}.0/24 via 10.{net}.{number}.2"),
            )?;
        }
        let near = self.tun(Host::Near, number)?;
        let far = self.tun(Host::Far, number)?;
        for (router, net, shape) in [(Host::Near, 79, down), (Host::Far, 78, up)] {
            self.ip(router, &format!("link set wire{number} up"))?;
            self.ip(
                router,
                &format!("route add 10.{net}.{number}.0/24 dev wire{number}"),
            )?;
            let Shape { rate, limit, .. } = shape;
            let burst = shape.burst(bucket);
            run(&format!(
                "tc -n {} qdisc add dev wire{number} root tbf rate {rate}bit burst {burst} limit {limit}",
                self.name(router)
            ))?;
        }
        let wire = Wire::new(near, far, down.delay, up.delay);
        self.wires
            .push(wire.map_err(|error| PlaceError::Device("a thread".into(), error))?);
        Ok(())
    }

    fn tun(&self, host: Host, number: usize) -> Result<SyncDevice, PlaceError> {
        let name = format!("wire{number}");
        let made = self.inside(host, || {
            DeviceBuilder::new().name(&*name).mtu(MTU).build_sync()
        })?;
        made.map_err(|error| PlaceError::Device(name, error))
    }

    /// Lets the client open a subflow to the server's address on each further path.
    fn allow_mptcp(&self) -> Result<(), PlaceError> {
        for host in [Host::Server, Host::Client] {
            self.ip(host, "mptcp limits set subflows 8 add_addr_accepted 8")?;
        }
        for number in 1..self.paths {
            let address = self.server_ip(number);
            self.ip(
                Host::Server,
                &format!("mptcp endpoint add {address} dev path{number} signal"),
            )?;
        }
        Ok(())
    }

    /// Why there is no MPTCP, if there is none.
    pub const fn no_mptcp(&self) -> Option<&PlaceError> {
        self.mptcp.as_ref()
    }

    /// The server's address on a path, from 0.
    pub fn server_ip(&self, path: usize) -> std::net::Ipv4Addr {
        std::net::Ipv4Addr::new(10, 78, path as u8, 1)
    }

    /// The client's address on a path, from 0.
    pub fn client_ip(&self, path: usize) -> std::net::Ipv4Addr {
        std::net::Ipv4Addr::new(10, 79, path as u8, 1)
    }

    /// The number of paths.
    pub const fn paths(&self) -> usize {
        self.paths
    }

    /// Runs something on a thread in a namespace. Sockets that are opened there stay there.
    ///
    /// # Errors
    ///
    /// If the namespace cannot be entered.
    pub fn inside<R: Send>(
        &self,
        host: Host,
        what: impl FnOnce() -> R + Send,
    ) -> Result<R, PlaceError> {
        let name = self.name(host);
        let failed = |error: std::io::Error| PlaceError::Device(name.clone(), error);
        let file = File::open(format!("/var/run/netns/{name}")).map_err(failed)?;
        let ran = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(what())
            });
            match thread.join() {
                Ok(ran) => ran,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        ran.map_err(|error: rustix::io::Errno| failed(error.into()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Reading from a device that is gone fails, which ends the wires. What was not made cannot be removed.
        for number in 0..self.paths {
            for router in [Host::Near, Host::Far] {
                let _ = self.ip(router, &format!("link del wire{number}"));
            }
        }
        self.wires.clear();
        for host in HOSTS {
            let _ = run(&format!("ip netns del {}", self.name(host)));
        }
    }
}
