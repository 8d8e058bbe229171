//! The tunnel as its page says, in namespaces: a client with two links, a server, and a machine behind it. Needs root, Linux and a TUN device; elsewhere
//! it says why it does nothing.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::common::process::*;

/// The machine behind the server, by both families.
const BEHIND: [&str; 2] = ["10.88.0.2", "fd88::2"];
pub(crate) const SERVER: &str = "10.77.0.1";

fn run(line: &str) -> Result<String, String> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{line}: {}", stderr.trim()))
}

/// Three namespaces: `near` has two links to `far`, and `far` one to `tail`.
pub(crate) struct Net {
    name: String,
    place: Place,
}

impl Drop for Net {
    fn drop(&mut self) {
        for part in ["near", "far", "tail"] {
            // What was not made cannot be removed.
            let _ = run(&format!("ip netns del {}{part}", self.name));
        }
        let _ = std::fs::remove_dir_all(format!("/etc/netns/{}near", self.name));
    }
}

impl Net {
    pub(crate) fn new(name: &str) -> Option<Self> {
        let net = Self {
            name: format!("{name}{}", std::process::id()),
            place: Place::new(),
        };
        match net.make() {
            Ok(()) => Some(net),
            Err(why) => {
                println!("left out: {why}");
                None
            }
        }
    }

    fn make(&self) -> Result<(), String> {
        if !std::path::Path::new("/dev/net/tun").exists() {
            return Err("no /dev/net/tun".to_owned());
        }
        let [near, far, tail] = ["near", "far", "tail"].map(|part| format!("{}{part}", self.name));
        for one in [&near, &far, &tail] {
            run(&format!("ip netns add {one}"))?;
            run(&format!("ip -n {one} link set lo up"))?;
        }
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
            run(&format!(
                "ip -n {near} route add default via 10.77.{link}.1 dev c{link} metric {link}"
            ))?;
        }
        run(&format!("ip -n {far} addr add {SERVER}/32 dev lo"))?;
        run(&format!(
            "ip -n {far} link add t0 type veth peer name t1 netns {tail}"
        ))?;
        for (at, dev, v4, v6) in [
            (&far, "t0", "10.88.0.1", "fd88::1"),
            (&tail, "t1", BEHIND[0], BEHIND[1]),
        ] {
            run(&format!("ip -n {at} addr add {v4}/24 dev {dev}"))?;
            run(&format!("ip -n {at} addr add {v6}/64 dev {dev} nodad"))?;
            run(&format!("ip -n {at} link set {dev} up"))?;
        }
        run(&format!("ip -n {tail} route add default via 10.88.0.1"))?;
        run(&format!("ip -n {tail} -6 route add default via fd88::1"))?;
        run(&format!(
            "ip netns exec {far} sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
        ))?;
        let etc = format!("/etc/netns/{near}");
        std::fs::create_dir_all(&etc).map_err(|error| error.to_string())?;
        let resolv = format!("{etc}/resolv.conf");
        std::fs::write(resolv, "nameserver 192.0.2.53\n").map_err(|error| error.to_string())
    }

    fn resolv(&self) -> String {
        std::fs::read_to_string(format!("/etc/netns/{}near/resolv.conf", self.name)).unwrap()
    }

    /// What runs in one of the namespaces.
    fn within(&self, part: &str) -> Command {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &format!("{}{part}", self.name),
            env!("CARGO_BIN_EXE_mpquic-bond"),
        ]);
        command.env("XDG_DATA_HOME", self.place.path().join(part));
        command
    }

    pub(crate) fn server(&self, rules: &[&str]) -> (Process, String) {
        self.server_with(rules, &[])
    }

    fn server_with(&self, rules: &[&str], more: &[&str]) -> (Process, String) {
        let mut command = self.within("far");
        command.args(["serve", "--tun", "10.66.0.0/24", "--tun", "fd66::/64"]);
        command.args(["--tun-dns", "10.88.0.2", "--token-file"]);
        command.arg(self.place.path().join("token"));
        for rule in rules {
            command.args(["--allow", rule]);
        }
        command.args(more);
        let server = Process::start(&mut command);
        let line = line_with(&server.out, "fingerprint ");
        let pin = line.strip_prefix("fingerprint ").unwrap().to_owned();
        (server, pin)
    }

    fn connect(&self, pin: &str) -> Command {
        let mut command = self.within("near");
        command.args(["connect", SERVER, "--tun", "--pin", pin, "--token-file"]);
        command.arg(self.place.path().join("token"));
        command
    }

    fn client(&self, pin: &str, more: &[&str]) -> Process {
        let client = Process::start(self.connect(pin).args(more));
        line_with(&client.out, "tunnel mpbond0 with 10.66.0.2/24, fd66::2/64");
        client
    }

    /// Does something in a namespace.
    pub(crate) fn at<T: Send>(&self, part: &str, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}{part}", self.name);
        std::thread::scope(|scope| {
            let within = scope.spawn(|| {
                let file = std::fs::File::open(path).unwrap();
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), network).unwrap();
                work()
            });
            within.join().unwrap()
        })
    }

    /// Takes TCP connections behind the server and sends back what comes, after who it came from.
    fn echo(&self) {
        for ip in BEHIND {
            let address = SocketAddr::new(ip.parse().unwrap(), 7);
            let listener = self.at("tail", || TcpListener::bind(address).unwrap());
            std::thread::spawn(move || {
                loop {
                    // A connection that failed before it was taken says nothing of the next one.
                    let Ok((mut socket, from)) = listener.accept() else {
                        continue;
                    };
                    std::thread::spawn(move || {
                        let told = format!("{}\n", from.ip());
                        let mut reader = socket.try_clone().unwrap();
                        // Clients go away.
                        let _ = socket.write_all(told.as_bytes());
                        let _ = std::io::copy(&mut reader, &mut socket);
                    });
                }
            });
        }
    }

    /// Connects from the client's machine: the connection, and from where it is seen.
    fn reach(&self, ip: &str) -> Result<(TcpStream, String), String> {
        let address = SocketAddr::new(ip.parse().unwrap(), 7);
        // What must not get out is refused at once; what gets out may lose a SYN and the next.
        let patience = Duration::from_secs(10);
        let connected = self.at("near", || TcpStream::connect_timeout(&address, patience));
        let mut socket = connected.map_err(|error| error.to_string())?;
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut seen = String::new();
        loop {
            let mut byte = [0];
            socket
                .read_exact(&mut byte)
                .map_err(|error| error.to_string())?;
            if byte == *b"\n" {
                return Ok((socket, seen));
            }
            seen.push(byte[0].into());
        }
    }

    fn seen_as(&self, ip: &str) -> String {
        self.reach(ip).map_or_else(|why| why, |(_, seen)| seen)
    }

    /// What the client's machine sends does not go through the tunnel.
    fn assert_seen_outside(&self) {
        let seen = self.seen_as(BEHIND[0]);
        assert!(seen.starts_with("10.77."), "{seen}");
    }

    /// Runs a command in a namespace; what it writes.
    pub(crate) fn exec(&self, part: &str, line: &str) -> String {
        run(&format!("ip netns exec {}{part} {line}", self.name)).unwrap()
    }

    fn rules(&self) -> String {
        let of = |family| run(&format!("ip -n {}near {family} rule", self.name)).unwrap();
        of("-4") + &of("-6")
    }
}

/// Sends it there and back.
fn back(socket: &mut TcpStream, len: usize, during: impl FnOnce()) {
    let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let mut reader = socket.try_clone().unwrap();
    let mut writer = socket.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&data).unwrap());
        let (mut first, mut rest) = (vec![0; len / 4], vec![0; len - len / 4]);
        reader.read_exact(&mut first).unwrap();
        during();
        reader.read_exact(&mut rest).unwrap();
        assert!([first, rest].concat() == data);
    });
}

#[test]
fn all_packets_go_through_and_then_as_before() {
    let Some(net) = Net::new("tunall") else {
        return;
    };
    let before = net.rules();
    net.echo();
    net.assert_seen_outside();
    let (mut server, pin) = net.server(&["10.88.0.0/24:*", "[fd88::]/64:*"]);
    let mut client = net.client(&pin, &[]);
    assert_eq!(net.resolv().lines().last(), Some("nameserver 10.88.0.2"));
    assert_eq!(net.seen_as(BEHIND[1]), "fd66::2");
    let (mut kept, seen) = net.reach(BEHIND[0]).unwrap();
    assert_eq!(seen, "10.66.0.2");
    // A link goes in the middle of it.
    let link = |state: &str| run(&format!("ip -n {}near link set c1 {state}", net.name)).unwrap();
    back(&mut kept, 20_000_000, || drop(link("down")));
    link("up");
    // Datagrams: small ones, those that fill the device, and fragments of larger ones.
    let target = net.at("tail", || UdpSocket::bind((BEHIND[0], 9)).unwrap());
    target.set_read_timeout(Some(DEADLINE)).unwrap();
    let source = net.at("near", || UdpSocket::bind("0.0.0.0:0").unwrap());
    let mut taken = [0; 5000];
    for len in [1, 100, 1372, 4000] {
        source.send_to(&vec![7; len], (BEHIND[0], 9)).unwrap();
        let (came, from) = target.recv_from(&mut taken).unwrap();
        assert_eq!((came, from.ip()), (len, IpAddr::from([10, 66, 0, 2])));
    }
    // The connection within survives a server that is started again.
    server.signal("-TERM");
    assert!(server.wait().success());
    let (_server, _) = net.server(&["10.88.0.0/24:*", "[fd88::]/64:*"]);
    line_with(&client.err, "connected again");
    back(&mut kept, 1000, || ());
    client.signal("-TERM");
    assert!(client.wait().success());
    assert_eq!(net.rules(), before);
    assert_eq!(net.resolv(), "nameserver 192.0.2.53\n");
    net.assert_seen_outside();
}

/// A packet that fits no datagram of the paths, nor its halves, comes through in parts by `mpquic-live`, and only with it at both ends.
#[test]
fn packets_of_udp_go_in_time() {
    for both in [true, false] {
        let Some(net) = Net::new("tunlive") else {
            return;
        };
        // No link of the way behind the server makes fragments of it, which would fit.
        for (part, link) in [("far", "t0"), ("tail", "t1")] {
            run(&format!(
                "ip -n {}{part} link set {link} mtu 9000",
                net.name
            ))
            .unwrap();
        }
        let (_server, pin) = net.server_with(
            &["10.88.0.0/24:*"],
            &["--live", "--live-deadline", "2000", "--tun-mtu", "9000"],
        );
        let live: &[&str] = match both {
            true => &["--live", "--live-deadline", "2000"],
            false => &[],
        };
        let client = net.client(&pin, live);
        let target = net.at("tail", || UdpSocket::bind((BEHIND[0], 9)).unwrap());
        let source = net.at("near", || UdpSocket::bind("0.0.0.0:0").unwrap());
        for socket in [&target, &source] {
            let patience = Duration::from_millis(200);
            socket.set_read_timeout(Some(patience)).unwrap();
        }
        let mut taken = [0; 9000];
        let begun = Instant::now();
        // What was sent before both had agreed is lost.
        let mut heard = 0;
        while heard < 20 {
            assert!(begun.elapsed() < DEADLINE, "{heard}");
            for len in [8_000, 100] {
                source.send_to(&vec![7; len], (BEHIND[0], 9)).unwrap();
            }
            while let Ok((len, from)) = target.recv_from(&mut taken) {
                assert_eq!(from.ip(), IpAddr::from([10, 66, 0, 2]));
                // Back again, so that the server sends such packets, too.
                target.send_to(&taken[..len], from).unwrap();
                let Ok((len, _)) = source.recv_from(&mut taken) else {
                    continue;
                };
                assert!(both || len == 100, "{len}");
                heard += usize::from(!both || len == 8_000);
            }
        }
        drop(client);
    }
}

#[test]
fn a_client_sends_from_its_address_to_what_is_allowed() {
    let Some(net) = Net::new("tunbad") else {
        return;
    };
    let (_server, pin) = net.server(&["10.88.0.2:9", "*:*"]);
    let _client = net.client(&pin, &["--tun-no-routes"]);
    let device = |line: &str| run(&format!("ip -n {}near {line}", net.name)).unwrap();
    device("addr add 10.66.0.99/32 dev mpbond0");
    for to in ["10.88.0.0/24", SERVER, "10.66.0.1"] {
        device(&format!("route replace {to} dev mpbond0 src 10.66.0.2"));
    }
    let bind = |part, address: &str| {
        let socket = net.at(part, || UdpSocket::bind(address).unwrap());
        socket
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        socket
    };
    let allowed = bind("tail", "10.88.0.2:9");
    let heard = [
        bind("tail", "10.88.0.2:10"),
        bind("far", "10.66.0.1:9"),
        bind("far", "10.77.0.1:9"),
        bind("far", "10.88.0.1:9"),
    ];
    let own = bind("near", "10.66.0.2:0");
    let spoofed = bind("near", "10.66.0.99:0");
    let other = bind("near", "10.77.1.2:0");
    let mut taken = [0; 5000];
    let begun = Instant::now();
    loop {
        for socket in [&spoofed, &other] {
            socket.send_to(b"spoofed", "10.88.0.2:9").unwrap();
        }
        // Another port, and the server's own addresses.
        for to in ["10.88.0.2:10", "10.66.0.1:9", "10.77.0.1:9", "10.88.0.1:9"] {
            own.send_to(b"denied", to).unwrap();
        }
        // Of fragments, only the first one has a port.
        own.send_to(&[1; 4000], "10.88.0.2:9").unwrap();
        own.send_to(b"allowed", "10.88.0.2:9").unwrap();
        let (len, from) = allowed.recv_from(&mut taken).unwrap();
        assert_eq!(&taken[..len], b"allowed");
        assert_eq!(from.ip(), IpAddr::from([10, 66, 0, 2]));
        for socket in &heard {
            assert!(socket.recv_from(&mut taken).is_err());
        }
        if begun.elapsed() > Duration::from_secs(3) {
            break;
        }
    }
}

#[test]
fn nothing_leaks_with_the_kill_switch() {
    let Some(net) = Net::new("tunkill") else {
        return;
    };
    net.echo();
    let before = net.rules();
    // One that is closed with a reset leaves no port in TIME-WAIT: asked again and again, the machine would run out of them, and seem shut.
    let is_out = || match net.reach(BEHIND[0]) {
        Ok((socket, _)) => {
            let socket = socket2::SockRef::from(&socket);
            socket.set_linger(Some(Duration::ZERO)).unwrap();
            true
        }
        Err(why) => {
            assert!(!why.contains("os error 99"), "no port is left: {why}");
            false
        }
    };
    assert!(is_out());
    // There is no server yet: what the client needs for itself is all that gets out.
    let (mut server, pin) = net.server(&["10.88.0.0/24:*"]);
    server.signal("-KILL");
    server.wait();
    drop(server);
    let early = Process::start(net.connect(&pin).arg("--kill-switch"));
    let begun = Instant::now();
    while is_out() {
        assert!(begun.elapsed() < DEADLINE);
    }
    drop(early);
    // It was killed, too: nothing but its end changes.
    assert!(!is_out());
    let (_server, _) = net.server(&["10.88.0.0/24:*"]);
    let mut client = net.client(&pin, &["--kill-switch"]);
    assert_eq!(net.seen_as(BEHIND[0]), "10.66.0.2");
    // A route to half of the Internet, as a hostile DHCP server hands one out, leads nothing past it, whoever has it.
    let near = format!("{}near", net.name);
    run(&format!(
        "ip -n {near} route add 0.0.0.0/1 via 10.77.1.1 dev c1"
    ))
    .unwrap();
    assert_eq!(net.seen_as(BEHIND[0]), "10.66.0.2");
    client.signal("-KILL");
    client.wait();
    assert!(!is_out());
    assert!(net.resolv().contains("10.88.0.2"));
    let (code, why) = ended(net.within("near").arg("restore"));
    assert_eq!(code, Some(0), "{why}");
    assert_eq!(net.rules(), before);
    assert_eq!(net.resolv(), "nameserver 192.0.2.53\n");
    net.assert_seen_outside();
}
