//! All links of a machine, in namespaces of their own: two default routes, a link that goes down in the middle of a transfer and comes up
//! again. Needs root and Linux; elsewhere it says why it does nothing.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mpquic_test_support::held::Held;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mpquic-cp");
/// On the server's loopback, so that both links lead to it by their gateways.
const SERVER: &str = "10.77.0.1";
const SIZE: usize = 40_000_000;

/// A server's and a client's namespace with two links between them, at 20 Mbit/s each.
struct Place {
    far: String,
    near: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in [&self.far, &self.near] {
            // What was not made cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn run(line: &str) -> Result<(), String> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{line}: {}", stderr.trim()))
}

impl Place {
    fn new() -> Result<Self, String> {
        let id = std::process::id();
        let place = Self {
            far: format!("cpfar{id}"),
            near: format!("cpnear{id}"),
        };
        let (far, near) = (&place.far, &place.near);
        run(&format!("ip netns add {far}"))?;
        run(&format!("ip netns add {near}"))?;
        run(&format!("ip -n {far} link set lo up"))?;
        run(&format!("ip -n {near} link set lo up"))?;
        run(&format!("ip -n {far} addr add {SERVER}/32 dev lo"))?;
        for link in 1..=2 {
            run(&format!(
                "ip -n {far} link add s{link} type veth peer name c{link} netns {near}"
            ))?;
            run(&format!(
                "ip -n {far} addr add 10.77.{link}.1/24 dev s{link}"
            ))?;
            run(&format!(
                "ip -n {near} addr add 10.77.{link}.2/24 dev c{link}"
            ))?;
            run(&format!("ip -n {far} link set s{link} up"))?;
            run(&format!("ip -n {near} link set c{link} up"))?;
            let shape = "root tbf rate 20mbit burst 32kb latency 50ms";
            run(&format!("tc -n {far} qdisc add dev s{link} {shape}"))?;
            // What comes in by the second link is answered by it, whatever the best route is.
            let filter = format!("net.ipv4.conf.c{link}.rp_filter=0");
            run(&format!("ip netns exec {near} sysctl -qw {filter}"))?;
            place.route(link)?;
        }
        run(&format!(
            "ip netns exec {near} sysctl -qw net.ipv4.conf.all.rp_filter=0"
        ))?;
        Ok(place)
    }

    /// A default route by this link, as DHCP makes one: routes alone send all by the first.
    fn route(&self, link: u8) -> Result<(), String> {
        let near = &self.near;
        run(&format!(
            "ip -n {near} route replace default via 10.77.{link}.1 dev c{link} metric {link}"
        ))
    }

    fn set(&self, link: u8, state: &str) {
        run(&format!("ip -n {} link set c{link} {state}", self.near)).unwrap();
        if state == "up" {
            // Its routes went with it.
            self.route(link).unwrap();
        }
    }

    fn program(&self, namespace: &str, arguments: &[&str]) -> Held {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, PROGRAM]);
        let piped = command.args(arguments).stdout(Stdio::piped());
        Held::new(piped.stderr(Stdio::piped()).spawn().unwrap())
    }
}

/// How much there is of the one file of a folder, complete or not.
fn size(folder: &Path) -> u64 {
    let entry = std::fs::read_dir(folder).unwrap().next();
    entry.map_or(0, |entry| {
        entry.unwrap().metadata().map_or(0, |found| found.len())
    })
}

/// Waits until there is so much of it.
fn grown(folder: &Path, len: u64, until: Instant) {
    while size(folder) < len {
        assert!(Instant::now() < until, "no progress to {len} bytes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a line, past others.
fn told(lines: &mpsc::Receiver<String>, line: &str) {
    loop {
        let next = lines.recv_timeout(Duration::from_secs(20));
        if next.unwrap_or_else(|_| panic!("not told: {line}")) == line {
            return;
        }
    }
}

#[test]
fn a_link_goes_down_and_up_in_the_middle_of_a_transfer() {
    let place = match Place::new() {
        Ok(place) => place,
        Err(why) => return eprintln!("not tested, since there can be no network for it: {why}"),
    };
    let until = Instant::now() + Duration::from_secs(90);
    let folder = tempfile::tempdir().unwrap();
    for name in ["root", "out"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let data: Vec<u8> = (0..SIZE)
        .map(|at| ((at * 7 + at / 253) % 251) as u8)
        .collect();
    std::fs::write(folder.path().join("root/big"), &data).unwrap();
    let text = |name: &str| folder.path().join(name).display().to_string();
    let (root, identity, out) = (text("root"), text("identity"), text("out"));
    // As the guide has it: without a word on where to listen.
    let serve = ["serve", "--root", &root, "--identity", &identity];
    let mut server = place.program(&place.far, &serve);
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    let mut listening = [line(), line()];
    listening.sort();
    assert_eq!(
        listening,
        ["listening on 0.0.0.0:4433", "listening on [::]:4433"]
    );
    let pin = line();
    let pin = pin.strip_prefix("fingerprint ").unwrap();

    let get = ["get", SERVER, "big", &out, "--pin", pin, "--json"];
    let mut client = place.program(&place.near, &get);
    let stderr = BufReader::new(client.stderr.take().unwrap());
    let (tell, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    let out = folder.path().join("out");
    grown(&out, 2_000_000, until);
    place.set(1, "down");
    told(&lines, "link 10.77.1.2 (c1) is gone");
    grown(&out, size(&out) + 2_000_000, until);
    place.set(1, "up");
    told(&lines, "link 10.77.1.2 (c1) is up");
    grown(&out, size(&out) + 2_000_000, until);
    // All of them, and one of them again.
    place.set(1, "down");
    place.set(2, "down");
    told(&lines, "no link works: waiting for one to come back");
    place.set(1, "up");
    place.set(2, "up");
    told(&lines, "a link works again");

    let mut printed = String::new();
    client
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    assert!(client.wait().unwrap().success(), "{printed}");
    assert!(std::fs::read(folder.path().join("out/big")).unwrap() == data);
    // The first link has a path again, and both have carried data.
    let summary = crate::program::last(&printed);
    let progress = r#""event":"progress""#;
    assert!(printed.contains(progress), "a line each second: {printed}");
    let mut carried: Vec<_> = summary["paths"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|path| path["received"].as_u64().unwrap() > 500_000)
        .map(|path| path["local"].as_str().unwrap().rsplit_once(':').unwrap().0)
        .collect();
    carried.sort_unstable();
    assert_eq!(carried, ["10.77.1.2", "10.77.2.2"], "{summary}");
}
