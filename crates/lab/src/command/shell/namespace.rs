//! A network namespace whose interfaces lead through TUN devices to this one.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thiserror::Error;
use tun_rs::{DeviceBuilder, SyncDevice};

/// The MTU of every device, bytes.
const MTU: u16 = 1500;
/// The network for measurements (RFC 2544, appendix C.2.2), of which each path takes a /24.
const NET: [u8; 2] = [198, 18];

/// Why there is no such namespace on this machine.
#[derive(Debug, Error)]
pub(super) enum NamespaceError {
    /// A program of iproute2 is missing, or refuses.
    #[error("{command}: {reason}")]
    Command { command: String, reason: String },
    /// A namespace or a TUN device could not be opened.
    #[error("{0}: {1}")]
    Device(String, io::Error),
    /// All networks are taken.
    #[error("198.18.0.0/16 has no room for {0} paths: `ip address` tells what has addresses there")]
    NoRoom(usize),
}

/// The namespace. It has no name, and its devices are open files of this process: however that ends, they are gone when nothing
/// runs inside any more. Dropping it removes the devices.
pub(super) struct Namespace {
    file: File,
    first: u8,
    /// By path: what the programs inside and those outside send comes out here.
    pub(super) inside: Vec<Arc<SyncDevice>>,
    pub(super) outside: Vec<Arc<SyncDevice>>,
}

fn run(command: &str) -> Result<String, NamespaceError> {
    let failed = |reason: String| NamespaceError::Command {
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

impl Namespace {
    /// A namespace with this many interfaces.
    pub(super) fn new(paths: usize) -> Result<Self, NamespaceError> {
        let first =
            free_networks(&run("ip -4 -o address")?, paths).ok_or(NamespaceError::NoRoom(paths))?;
        let name = format!("mpquic-lab-{}", std::process::id());
        run(&format!("ip netns add {name}"))?;
        let file = File::open(format!("/var/run/netns/{name}"));
        // The open file keeps it. Without a name, nothing stays behind however this process ends.
        run(&format!("ip netns delete {name}"))?;
        let file = file.map_err(|error| NamespaceError::Device(name, error))?;
        let mut this = Self {
            file,
            first,
            inside: Vec::new(),
            outside: Vec::new(),
        };
        // Answers take the path of what they answer, whatever other routes there are.
        this.enter(|| {
            for which in ["all", "default"] {
                let file = format!("/proc/sys/net/ipv4/conf/{which}/rp_filter");
                fs::write(&file, "0").map_err(|error| NamespaceError::Device(file, error))?;
            }
            Ok(())
        })??;
        for path in 0..paths {
            this.add_path(path)?;
        }
        this.run_inside("ip link set lo up")?;
        // A kernel without MPTCP, or an iproute2 that does not know it, has none.
        let _ = this.allow_mptcp();
        Ok(this)
    }

    /// The address outside that a path leads to first, and that of the interface inside.
    pub(super) fn addresses(&self, path: usize) -> [Ipv4Addr; 2] {
        [1, 2].map(|last| Ipv4Addr::new(NET[0], NET[1], self.first + path as u8, last))
    }

    /// Of the device outside: its network is free, and so is this.
    fn outside_name(&self, path: usize) -> String {
        format!("lab-link{}", usize::from(self.first) + path)
    }

    fn add_path(&mut self, path: usize) -> Result<(), NamespaceError> {
        let [there, here] = self.addresses(path);
        let name = self.outside_name(path);
        let device = tun(&name)?;
        self.outside.push(device);
        run(&format!("ip address add {there}/24 dev {name}"))?;
        run(&format!("ip link set {name} up"))?;

        let name = inside_name(path);
        let device = self.enter(|| tun(&name))??;
        self.inside.push(device);
        self.run_inside(&format!("ip address add {here}/24 dev {name}"))?;
        self.run_inside(&format!("ip link set {name} up"))?;
        let table = 100 + path;
        for command in [
            format!("ip route add default via {there} dev {name} metric {table}"),
            // What has an address of a path takes this path.
            format!("ip route add default via {there} dev {name} table {table}"),
            format!("ip rule add from {here} table {table}"),
        ] {
            self.run_inside(&command)?;
        }
        Ok(())
    }

    /// Programs inside open a subflow of each TCP connection that is MPTCP on each further path.
    fn allow_mptcp(&self) -> Result<(), NamespaceError> {
        self.run_inside("ip mptcp limits set subflows 8 add_addr_accepted 8")?;
        for path in 1..self.inside.len() {
            let [_, here] = self.addresses(path);
            self.run_inside(&format!(
                "ip mptcp endpoint add {here} dev {} subflow",
                inside_name(path)
            ))?;
        }
        Ok(())
    }

    fn run_inside(&self, command: &str) -> Result<String, NamespaceError> {
        self.enter(|| run(command))?
    }

    /// Runs something on a thread in the namespace. Sockets that are opened there, and programs that are started there, stay
    /// there.
    pub(super) fn enter<R: Send>(
        &self,
        what: impl FnOnce() -> R + Send,
    ) -> Result<R, NamespaceError> {
        let ran = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(what())
            });
            match thread.join() {
                Ok(ran) => ran,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        ran.map_err(|error: rustix::io::Errno| {
            NamespaceError::Device("the namespace".into(), error.into())
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Whoever reads from a device that is gone gets an error, and ends.
        for path in 0..self.inside.len() {
            let _ = self.run_inside(&format!("ip link delete {}", inside_name(path)));
        }
        for path in 0..self.outside.len() {
            let _ = run(&format!("ip link delete {}", self.outside_name(path)));
        }
    }
}

pub(super) fn inside_name(path: usize) -> String {
    format!("link{path}")
}

fn tun(name: &str) -> Result<Arc<SyncDevice>, NamespaceError> {
    let device = DeviceBuilder::new().name(name).mtu(MTU).build_sync();
    device
        .map(Arc::new)
        .map_err(|error| NamespaceError::Device(name.to_owned(), error))
}

/// The third number of the first of so many networks in a row of which none has an address yet. `listed` is what
/// `ip -4 -o address` prints.
fn free_networks(listed: &str, paths: usize) -> Option<u8> {
    let prefix = format!("{}.{}.", NET[0], NET[1]);
    let taken: Vec<usize> = listed
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(&prefix)?.split('.').next()?.parse().ok())
        .collect();
    let mut first = 0;
    while first + paths <= 256 {
        match taken
            .iter()
            .filter(|net| (first..first + paths).contains(*net))
            .max()
        {
            Some(net) => first = net + 1,
            None => return u8::try_from(first).ok(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_beside_each_other_take_other_networks() {
        assert_eq!(free_networks("", 2), Some(0));
        let listed = "1: lo inet 127.0.0.1/8 scope host lo\n\
                      2: lab7-0 inet 198.18.0.1/24 scope global lab7-0\n\
                      3: lab7-1 inet 198.18.1.1/24 scope global lab7-1\n\
                      4: other inet 198.18.4.9/24 scope global other\n";
        assert_eq!(free_networks(listed, 2), Some(2));
        assert_eq!(free_networks(listed, 3), Some(5));
        assert_eq!(free_networks(listed, 252), None);
    }
}
