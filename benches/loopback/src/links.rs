//! The links between the two processes: none, veth with a token bucket, or those of `mpquic-lab shell` where there is delay.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::stack::Result;

/// Bytes that wait for a link with a rate.
const QUEUE: u32 = 125_000;

/// Bytes that leave at once after a pause: what one call with segmentation offload sends to a path of everyday length.
const BURST: u32 = 16 << 10;

/// What lies between the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Network {
    /// Of each path, Mbit/s in either direction; 0 for no limit.
    pub(crate) rates: Vec<u32>,
    /// The round-trip time, milliseconds; 0 for that of the machine.
    pub(crate) rtt: u32,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates: Vec<_> = self.rates.iter().map(u32::to_string).collect();
        match (&*self.rates, self.rates[0]) {
            ([0], _) => f.write_str("unshaped")?,
            (_, 0) => write!(f, "unshaped, {} paths", self.rates.len())?,
            _ => write!(f, "{} Mbit/s", rates.join(" + "))?,
        }
        match self.rtt {
            0 => Ok(()),
            rtt => write!(f, ", RTT {rtt} ms"),
        }
    }
}

/// What this machine can do.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Network namespaces, of root.
    namespaces: bool,
    /// The program with the lab's shell.
    lab: Option<PathBuf>,
}

impl Machine {
    pub(crate) fn look(lab: Option<PathBuf>) -> Self {
        let namespaces = Holder::new().is_ok_and(|holder| {
            holder
                .run("ip link add name s0 type veth peer name c0")
                .is_ok()
        });
        let beside = || Some(std::env::current_exe().ok()?.parent()?.join("mpquic-lab"));
        let lab = lab.or_else(beside).filter(|lab| lab.exists());
        Self { namespaces, lab }
    }

    /// Why it cannot have such a network.
    pub(crate) fn lacks(&self, network: &Network) -> Option<&'static str> {
        let bare = network.rtt == 0 && network.rates == [0];
        match (self.namespaces, &self.lab) {
            (false, _) if !bare => Some("it needs root, `ip`, `unshare` and `nsenter`"),
            (_, None) if network.rtt > 0 => Some(
                "it needs `mpquic-lab` beside this program, or --lab: cargo build --release -p mpquic-lab",
            ),
            _ => None,
        }
    }

    pub(crate) fn set_up(&self, network: &Network) -> Result<Links> {
        if !self.namespaces {
            return Ok(Links::Loopback);
        }
        let server = Holder::new()?;
        if network.rtt > 0 {
            let lab = self.lab.clone().ok_or("no lab")?;
            server.run("ip link set lo up")?;
            let one_way = f64::from(network.rtt) / 2.0;
            let paths = network
                .rates
                .iter()
                .map(|rate| format!("{rate}Mbit {one_way}ms"));
            let paths: Vec<_> = paths.collect();
            return Ok(Links::Lab {
                lab,
                network: paths.join(" | "),
                around: server,
            });
        }
        let client = Holder::new()?;
        for (path, rate) in network.rates.iter().enumerate() {
            add_path(&server, &client, path, *rate)?;
        }
        Ok(Links::Veth {
            server,
            client,
            paths: network.rates.len(),
        })
    }
}

fn add_path(server: &Holder, client: &Holder, path: usize, rate: u32) -> Result<()> {
    let peer = client.0.id();
    server.run(&format!(
        "ip link add name s{path} type veth peer name c{path} netns {peer}"
    ))?;
    for (holder, name, last) in [(server, "s", 1), (client, "c", 2)] {
        holder.run("ip link set lo up")?;
        holder.run(&format!(
            "ip address add 10.77.{path}.{last}/24 dev {name}{path}"
        ))?;
        holder.run(&format!("ip link set {name}{path} up"))?;
        // Answers take the path of what they answer, whatever other routes there are.
        holder.run(&format!("sysctl -q net.ipv4.conf.{name}{path}.rp_filter=0"))?;
        if rate > 0 {
            shape(holder, &format!("{name}{path}"), rate)?;
        }
    }
    for command in [
        format!("ip rule add from 10.77.{path}.2 table {}", 100 + path),
        format!(
            "ip route add default via 10.77.{path}.1 dev c{path} table {}",
            100 + path
        ),
    ] {
        client.run(&command)?;
    }
    Ok(())
}

/// A token bucket. That of htb leaves large what segmentation offload is to cut; tbf cuts what is larger than its bucket.
fn shape(holder: &Holder, device: &str, rate: u32) -> Result<()> {
    let htb = [
        format!("tc qdisc add dev {device} root handle 1: htb default 1"),
        format!(
            "tc class add dev {device} parent 1: classid 1:1 htb rate {rate}mbit burst {BURST} quantum 65535"
        ),
        format!("tc qdisc add dev {device} parent 1:1 bfifo limit {QUEUE}"),
    ];
    if htb
        .iter()
        .try_for_each(|command| holder.run(command))
        .is_ok()
    {
        return Ok(());
    }
    let _ = holder.run(&format!("tc qdisc delete dev {device} root"));
    holder.run(&format!(
        "tc qdisc add dev {device} root tbf rate {rate}mbit burst {BURST} limit {QUEUE}"
    ))
}

/// What is there while a measurement runs.
pub(crate) enum Links {
    Loopback,
    Veth {
        server: Holder,
        client: Holder,
        paths: usize,
    },
    Lab {
        lab: PathBuf,
        network: String,
        around: Holder,
    },
}

impl Links {
    /// The kernel segments what TCP sends before it is handed to the interface, as it does for one that cannot.
    pub(crate) fn without_offload(&self) -> Result<()> {
        if let Self::Veth {
            server,
            client,
            paths,
        } = self
        {
            for path in 0..*paths {
                server.run(&format!("ip link set dev s{path} gso_max_segs 1"))?;
                client.run(&format!("ip link set dev c{path} gso_max_segs 1"))?;
            }
        }
        Ok(())
    }

    /// What the server's command line begins with.
    pub(crate) fn server_front(&self) -> Vec<String> {
        match self {
            Self::Loopback => Vec::new(),
            Self::Veth { server: holder, .. } | Self::Lab { around: holder, .. } => holder.front(),
        }
    }

    /// What the client's begins with, and its addresses and the server's as arguments.
    pub(crate) fn client(&self, told: &str) -> Result<(Vec<String>, Vec<String>)> {
        let port = told.parse::<SocketAddr>()?.port();
        let arguments = |bind: String, server: String| {
            vec![
                "--bind".into(),
                bind,
                "--server".into(),
                format!("{server}:{port}"),
            ]
        };
        Ok(match self {
            Self::Loopback => (
                Vec::new(),
                arguments("127.0.0.1".into(), "127.0.0.1".into()),
            ),
            Self::Veth { client, paths, .. } => {
                let all: Vec<_> = (0..*paths).map(|path| format!("10.77.{path}.2")).collect();
                (client.front(), arguments(all.join(","), "10.77.0.1".into()))
            }
            Self::Lab {
                lab,
                network,
                around,
            } => {
                // What the shell says of its links is nobody's business here, what the client says is.
                let quiet = "exec \"$0\" \"$@\" 3>&2 2>/dev/null";
                let mut front = vec!["sh".into(), "-c".into(), quiet.into()];
                front.extend(around.front());
                front.extend([
                    lab.display().to_string(),
                    "shell".into(),
                    "--network".into(),
                ]);
                front.extend([network.clone(), "--".into(), "sh".into(), "-c".into()]);
                // It says the addresses by the environment.
                front.push(format!(
                    "exec \"$0\" \"$@\" --bind $LAB_ADDRESSES --server $LAB_OUTSIDE:{port} 2>&3"
                ));
                (front, Vec::new())
            }
        })
    }
}

/// A process that keeps a network namespace, and ends with this one.
pub(crate) struct Holder(Child);

impl Holder {
    fn new() -> Result<Self> {
        let mut child = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.as_mut().ok_or("no input")?;
        let output = child.stdout.as_mut().ok_or("no output")?;
        // It answers in its namespace.
        let _ = input.write_all(b"\n");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let holder = Self(child);
        match line.as_str() {
            "\n" => Ok(holder),
            _ => Err("no network namespace can be made".into()),
        }
    }

    fn front(&self) -> Vec<String> {
        let pid = self.0.id().to_string();
        ["nsenter", "--target", &pid, "--net"]
            .map(str::to_owned)
            .to_vec()
    }

    fn run(&self, command: &str) -> Result<()> {
        let front = self.front();
        let output = Command::new(&front[0])
            .args(&front[1..])
            .args(command.split(' '))
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        let reason = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command}: {}", reason.trim()).into())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
