//! The program as users run it: processes, signals, exit codes, and what it writes.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use mpquic_test_support::held::Held;

use crate::common::process::*;

#[test]
fn a_server_that_is_asked_to_stop_tells_its_clients() {
    for signal in ["-TERM", "-INT"] {
        let place = Place::new();
        let (mut server, pin) = place.server();
        let (client, _) = place.client(&pin);
        server.signal(signal);
        let line = line_with(&client.err, "connection lost");
        assert!(line.contains("the server stops"), "{line}");
        assert_eq!(server.wait().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_client_that_is_asked_to_stop_tells_its_server() {
    for signal in ["-TERM", "-INT"] {
        let place = Place::new();
        let (server, pin) = place.server();
        let (mut client, _) = place.client(&pin);
        client.signal(signal);
        let line = line_with(&server.err, "gone");
        assert!(line.contains("the client stops"), "{line}");
        assert_eq!(client.wait().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_client_that_has_no_connection_yet_stops_with_the_code_of_the_signal() {
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        let place = Place::new();
        // Nobody answers there. The key log is opened once signals are heard.
        let _silent = UdpSocket::bind(place.server).unwrap();
        let log = place.path().join("keys");
        let pin = format!("sha256:{}", "ab".repeat(32));
        let mut command = place.connect_by(bond(), &pin);
        let mut client = Process::start(command.arg("--keylog").arg(&log));
        let begun = Instant::now();
        while !log.exists() {
            assert!(begun.elapsed() < DEADLINE, "it opens no key log");
            std::thread::sleep(Duration::from_millis(5));
        }
        client.signal(signal);
        assert_eq!(client.wait().code(), Some(code));
    }
}

#[test]
fn after_a_server_was_killed_its_clients_are_back_at_once() {
    let place = Place::new();
    let (mut server, pin) = place.server();
    let (client, proxy) = place.client(&pin);
    let echo = echo();
    assert!(works(proxy, echo));
    // With a request that comes when the server is back, and with one that came while it was away: each may be lost with the old
    // connection, whose end it shows.
    for while_away in [false, true] {
        server.signal("-KILL");
        server.wait();
        let early = while_away.then(|| {
            let asked = TcpStream::connect(proxy).unwrap();
            std::thread::spawn(move || works_on(asked, echo))
        });
        let (started, again) = place.server();
        assert_eq!(again, pin);
        server = started;
        let begun = Instant::now();
        if let Some(early) = early {
            let _ = early.join().unwrap();
        } else {
            let _ = works(proxy, echo);
        }
        line_with(&client.err, "connected again");
        assert!(works(proxy, echo));
        let took = begun.elapsed();
        println!("back after {took:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_ends_nothing() {
    let place = Place::new();
    let pin = {
        let (_server, pin) = place.server();
        pin
    };
    let echo = echo();
    let full = || {
        Stdio::from(
            std::fs::File::options()
                .write(true)
                .open("/dev/full")
                .unwrap(),
        )
    };
    let port = TcpListener::bind((LOCAL, 0)).unwrap().local_addr().unwrap();
    // What the commands are told by their outputs cannot be read: it is tried until they are there.
    let until_works = || {
        let begun = Instant::now();
        loop {
            if TcpStream::connect(port).is_ok() && works(port, echo) {
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "it does not work");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let begun = |command: &mut Command| {
        let command = command.stdin(Stdio::null()).stdout(full()).stderr(full());
        Held::new(command.spawn().unwrap())
    };
    let serve = || begun(&mut place.serve_by(bond()));
    let server = serve();
    let mut command = place.connect_on(bond(), &pin, &port.to_string());
    let mut client = begun(command.arg("--json"));
    until_works();
    // It tells that the connection was lost, and that it is back.
    drop(server);
    let _server = serve();
    until_works();
    assert_eq!(client.try_wait().unwrap(), None);
}

/// The exit code, and standard error.
#[test]
fn what_is_wrong_is_told_with_what_to_do_and_a_code() {
    let place = Place::new();
    let (server, pin) = place.server();
    let without_token = || place.connect_without_token(bond(), &pin, "127.0.0.1:0");
    let (code, error) = ended(&mut without_token());
    assert_eq!(code, Some(6), "{error}");
    assert!(
        error.contains("this server needs a token: give --token-file"),
        "{error}"
    );
    line_with(&server.err, "needs a token");

    let other = place.path().join("other");
    std::fs::write(&other, "another token for tests").unwrap();
    let (code, error) = ended(without_token().arg("--token-file").arg(&other));
    assert_eq!(code, Some(6), "{error}");
    assert!(error.contains("wrong token"), "{error}");

    let wrong = format!("sha256:{}", "ab".repeat(32));
    let (code, error) = ended(&mut place.connect_by(bond(), &wrong));
    assert_eq!(code, Some(5), "{error}");
    for expected in [&pin, &wrong, &format!("--pin {pin}")] {
        assert!(error.contains(expected), "{expected}: {error}");
    }

    // Without --pin, the system's authorities count, which do not know this server.
    let mut plain = bond();
    plain.args(["connect", &place.server.to_string(), "--local", "127.0.0.1"]);
    let (code, error) = ended(plain.args(["--proxy", "127.0.0.1:0"]));
    assert_eq!(code, Some(5), "{error}");
    assert!(error.contains(&format!("--pin {pin}")), "{error}");

    let mut nowhere = bond();
    nowhere.args(["connect", "no.such.host.invalid", "--metered", "none9"]);
    let (code, error) = ended(nowhere.args(["--proxy", "127.0.0.1:0"]));
    assert_eq!(code, Some(3), "{error}");
    assert!(
        error.contains("cannot resolve no.such.host.invalid:4433"),
        "{error}"
    );
    assert_eq!(
        error.matches("no interface is named none9").count(),
        1,
        "{error}"
    );

    // The server wants certificates of an authority.
    let other = Place::new();
    let mut serve = other.serve_by(bond());
    let authority = place.path().join("identity/cert.pem");
    let server = Process::start(serve.arg("--client-ca").arg(&authority));
    let line = line_with(&server.out, "fingerprint ");
    let pin = line.strip_prefix("fingerprint ").unwrap();
    let (code, error) = ended(&mut other.connect_by(bond(), pin));
    assert_eq!(code, Some(5), "{error}");
    assert!(error.contains("give --cert and --key"), "{error}");

    let (code, error) = ended(bond().arg("serve"));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("anybody could use this server"), "{error}");
}

#[test]
fn the_log_has_targets_and_refusals_with_times() {
    let place = Place::new();
    let (server, pin) = place.server();
    let (client, proxy) = place.client(&pin);
    let echo = echo();
    assert!(works(proxy, echo));
    let line = line_with(&server.err, &format!("TCP to {echo}"));
    let (time, _) = line.split_once(' ').unwrap();
    assert!(
        time.starts_with("20") && time.ends_with('Z') && time.len() == 20,
        "{line}"
    );
    let (code, _, _socket) = socks_to(proxy, 1, &[1, 192, 0, 2, 1], 80);
    assert_eq!(code, 2);
    for log in [&server.err, &client.err] {
        let line = line_with(log, "TCP to 192.0.2.1:80");
        assert!(
            line.contains("allow list") && line.starts_with("20"),
            "{line}"
        );
    }
    // A name with a line break, and a sequence that clears the screen.
    let (code, _, _socket) = socks_to(proxy, 1, &named("x\n2026 forged\x1b[2J"), 80);
    assert_ne!(code, 0);
    let line = line_with(&server.err, "forged");
    assert!(line.contains(r"x\n2026 forged\u{1b}[2J"), "{line}");
}

#[test]
fn one_client_leaves_sockets_for_the_others() {
    let place = Place::new();
    let (server, pin) = place.server_by(shell("ulimit -n 128"));
    let (_greedy, proxy) = place.client(&pin);
    let echo = echo();
    let mut held = Vec::new();
    let refused = loop {
        assert!(held.len() < 128, "it takes all");
        let (code, socket) = socks(proxy, echo);
        if code != 0 {
            break code;
        }
        held.push(socket);
    };
    assert_eq!(refused, 1, "general failure");
    assert!(held.len() > 20, "{}", held.len());
    line_with(&server.err, "as many connections or names at a time");
    let (_other, other) = place.client(&pin);
    for _ in 0..5 {
        assert!(works(other, echo));
    }
    // What was given back can be had again.
    drop(held);
    let begun = Instant::now();
    while !works(proxy, echo) {
        assert!(begun.elapsed() < DEADLINE);
    }
}

#[test]
fn a_client_without_descriptors_goes_on_when_it_has_some() {
    let place = Place::new();
    let (_server, pin) = place.server();
    let (client, proxy) = place.client_by(shell("ulimit -n 32"), &pin);
    let echo = echo();
    // More than it can take: some wait in the queue of its listener.
    let held: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(proxy).unwrap())
        .collect();
    line_with(&client.err, "accepting goes on after an error");
    drop(held);
    assert!(works(proxy, echo));
}

#[test]
fn logs_that_nobody_reads_hold_up_nothing() {
    let place = Place::new();
    let pin = {
        let (_server, pin) = place.server();
        pin
    };
    let port = TcpListener::bind((LOCAL, 0)).unwrap().local_addr().unwrap();
    let unread = |mut command: Command| {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
        let held = (child.stdout.take(), child.stderr.take());
        // Nothing comes of these: its lines wait in pipes.
        let (out, err) = (channel().1, channel().1);
        let child = Held::new(child);
        (Process { child, out, err }, held)
    };
    let (mut server, _server_lines) = unread(place.serve_by(bond()));
    let connect = place.connect_on(bond(), &pin, &port.to_string());
    let (mut client, _client_lines) = unread(connect);
    let begun = Instant::now();
    while TcpStream::connect(port).is_err() {
        assert!(begun.elapsed() < DEADLINE, "it does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let echo = echo();
    // A line of the client for each of them: more than a pipe takes.
    for _ in 0..1000 {
        let (code, _, _socket) = socks_to(port, 1, &[1, 192, 0, 2, 1], 80);
        assert_eq!(code, 2);
    }
    assert!(works(port, echo));
    for process in [&mut client, &mut server] {
        process.signal("-TERM");
        assert_eq!(process.wait().code(), Some(0));
    }
}

#[test]
fn the_end_of_a_terminal_is_a_stop() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    if ignored.is_none_or(|bits| bits & 1 != 0) {
        println!("not run: these tests themselves outlive their terminal");
        return;
    }
    let place = Place::new();
    let (mut server, pin) = place.server();
    let (mut client, _) = place.client(&pin);
    client.signal("-HUP");
    let line = line_with(&server.err, "gone");
    assert!(line.contains("the client stops"), "{line}");
    assert_eq!(client.wait().code(), Some(0));
    server.signal("-HUP");
    assert_eq!(server.wait().code(), Some(0));
}

/// Runs the program with a DNS server that does not answer and a hosts file of its own; `None` where that cannot be done.
fn with_silent_names(place: &Place) -> Option<(Command, UdpSocket)> {
    // Only root may have a mount namespace, and this port.
    let Ok(silent) = UdpSocket::bind("127.0.0.99:53") else {
        println!("not run: port 53 cannot be bound");
        return None;
    };
    let can_mount = Command::new("unshare").args(["-m", "true"]).status();
    if !can_mount.is_ok_and(|status| status.success()) {
        println!("not run: no mount namespace can be made");
        return None;
    }
    let (resolv, hosts) = (place.path().join("resolv.conf"), place.path().join("hosts"));
    std::fs::write(
        &resolv,
        "nameserver 127.0.0.99\noptions timeout:5 attempts:2\n",
    )
    .unwrap();
    std::fs::write(&hosts, "127.0.0.1 near.example\n").unwrap();
    let mut command = Command::new("unshare");
    let script = format!(
        "mount --bind {} /etc/resolv.conf && mount --bind {} /etc/hosts && exec \"$0\" \"$@\"",
        resolv.display(),
        hosts.display()
    );
    command.args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_mpquic-bond")]);
    Some((command, silent))
}

#[test]
#[cfg(target_os = "linux")]
fn names_that_nobody_resolves_hold_up_nothing_else() {
    let place = Place::new();
    let Some((command, _silent)) = with_silent_names(&place) else {
        return;
    };
    let (_server, pin) = place.server_by(command);
    let (_client, proxy) = place.client(&pin);
    let (_second, other) = place.client(&pin);
    let target = echo();

    // A datagram to such a name, before one to an address.
    let server = UdpSocket::bind((LOCAL, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((len, from)) = server.recv_from(&mut buffer) {
            let _ = server.send_to(&buffer[..len], from);
        }
    });
    let (code, relay, _control) = socks_to(proxy, 3, &[1, 0, 0, 0, 0], 0);
    assert_eq!(code, 0);
    let program = UdpSocket::bind((LOCAL, 0)).unwrap();
    program.set_read_timeout(Some(DEADLINE)).unwrap();
    let datagram = |to: &[u8], payload: &[u8]| {
        let head = [&[0, 0, 0], to, &port.to_be_bytes()].concat();
        program.send_to(&[&head, payload].concat(), relay).unwrap();
    };
    let mut buffer = [0; 2000];
    let begun = Instant::now();
    // As many as are looked up at a time, and more.
    for number in 0..20 {
        datagram(&named(&format!("silent{number}.example")), b"lost");
    }
    datagram(&[1, 127, 0, 0, 1], b"after");
    let len = program.recv(&mut buffer).unwrap();
    assert!(buffer[..len].ends_with(b"after"));
    datagram(&named("near.example"), b"named");
    let len = program.recv(&mut buffer).unwrap();
    assert!(buffer[..len].ends_with(b"named"));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");

    // Hundreds of them, of one client; then another client.
    let mut waiting = Vec::new();
    for number in 0..300 {
        let mut socket = TcpStream::connect(proxy).unwrap();
        socket.write_all(&[5, 1, 0, 5, 1, 0]).unwrap();
        socket
            .write_all(&named(&format!("n{number}.example")))
            .unwrap();
        socket.write_all(&80_u16.to_be_bytes()).unwrap();
        waiting.push(socket);
    }
    let begun = Instant::now();
    // The same client by address, as such and as text, and by a name that nobody is asked for; the other one by name.
    assert!(works(proxy, target));
    for known in ["127.0.0.1", "near.example"] {
        let (code, _, _socket) = socks_to(proxy, 1, &named(known), target.port());
        assert_eq!(code, 0, "{known}");
    }
    let (code, _, _socket) = socks_to(other, 1, &named("near.example"), target.port());
    assert_eq!(code, 0);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// Becomes the program in a network of its own, with a link-local address on `d0`; `None` where that cannot be done.
fn in_own_network() -> Option<Command> {
    let before = "ip link set lo up && ip link add d0 type veth peer name d1 && ip link set d1 up && ip link set d0 up && \
                  ip addr add fe80::1/64 dev d0 nodad";
    let can = Command::new("unshare")
        .args(["-n", "sh", "-c", before])
        .status();
    if !can.is_ok_and(|status| status.success()) {
        println!("not run: no network namespace can be made");
        return None;
    }
    let mut command = Command::new("unshare");
    let script = format!("{before} && exec \"$0\" \"$@\"");
    command.args(["-n", "sh", "-c", &script, env!("CARGO_BIN_EXE_mpquic-bond")]);
    Some(command)
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_listens_by_both_families_and_is_reached_by_a_link_local_address() {
    let Some(mut command) = in_own_network() else {
        return;
    };
    let place = Place::new();
    let token = place.path().join("token");
    command.args(["serve", "--allow", "127.0.0.0/8:*", "--token-file"]);
    command.arg(&token).env("XDG_DATA_HOME", place.path());
    let server = Process::start(&mut command);
    let listening = [
        line_with(&server.out, "listening on"),
        line_with(&server.out, "listening on"),
    ];
    assert_eq!(
        listening,
        ["listening on 0.0.0.0:4433", "listening on [::]:4433"]
    );
    let line = line_with(&server.out, "fingerprint ");
    let pin = line.strip_prefix("fingerprint ").unwrap();
    assert!(place.path().join("mpquic-bond/cert.pem").exists());

    for (locals, proxy) in [
        (&[][..], "127.0.0.1:0"),
        (&["--local", "fe80::1%d0"], "[fe80::1%d0]:0"),
    ] {
        for name in ["[fe80::1%d0]:4433", "fe80::1%d0"] {
            let mut command = Command::new("nsenter");
            command.args(["-t", &server.child.id().to_string(), "-n"]);
            command.args([env!("CARGO_BIN_EXE_mpquic-bond"), "connect", name]);
            command.args(["--pin", pin, "--proxy", proxy]).args(locals);
            let client = Process::start(command.arg("--token-file").arg(&token));
            let (host, _) = proxy.split_at(proxy.find(['.', '%']).unwrap());
            line_with(&client.out, &format!("proxy on {host}"));
        }
    }
}
