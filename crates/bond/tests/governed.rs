//! Rules about links by the file of settings, and several servers: the programs, as their pages say.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::process::*;

/// Sends as many bytes as it is asked for, or takes as many and says so.
fn source() -> SocketAddr {
    let listener = TcpListener::bind((LOCAL, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { continue };
            std::thread::spawn(move || {
                let mut asked = [0; 9];
                // Programs of tests go away.
                while socket.read_exact(&mut asked).is_ok() {
                    let len = u64::from_be_bytes(asked[1..].try_into().unwrap());
                    let done = match asked[0] {
                        b'd' => socket.write_all(&vec![1; len as usize]).is_ok(),
                        _ => {
                            let mut taken = (&mut socket).take(len);
                            let all = std::io::copy(&mut taken, &mut std::io::sink());
                            all.is_ok_and(|all| all == len) && socket.write_all(b"k").is_ok()
                        }
                    };
                    if !done {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// How long it takes to bring so many bytes down, or up.
fn took(socket: &mut TcpStream, way: u8, len: usize) -> Duration {
    let begun = Instant::now();
    socket.write_all(&[way]).unwrap();
    socket.write_all(&(len as u64).to_be_bytes()).unwrap();
    let mut back = vec![0; if way == b'd' { len } else { 1 }];
    if way == b'u' {
        socket.write_all(&vec![2; len]).unwrap();
    }
    socket.read_exact(&mut back).unwrap();
    begun.elapsed()
}

/// A client with this file of settings, over two addresses.
fn client(place: &Place, pin: &str, settings: &str) -> (Process, SocketAddr) {
    let file = place.path().join("bond.toml");
    std::fs::write(&file, settings).unwrap();
    let mut command = bond();
    command.env("XDG_DATA_HOME", place.path().join("data"));
    let mut command = place.connect_by(command, pin);
    command.args(["--local", "127.0.0.2", "--json", "--config"]);
    let client = Process::start(command.arg(&file));
    let line = line_with(&client.out, "proxy on ");
    let proxy = line.strip_prefix("proxy on ").unwrap().parse().unwrap();
    (client, proxy)
}

fn get(line: &str, local: &str, key: &str) -> Option<serde_json::Value> {
    let report: serde_json::Value = serde_json::from_str(line).unwrap();
    let mut links = report["links"].as_array().unwrap().iter();
    let link = links.find(|link| link["local"] == local)?;
    Some(link[key].clone())
}

/// Reads reports until one is as wanted.
fn report_with(client: &Process, wanted: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    while begun.elapsed() < DEADLINE {
        let line = line_with(&client.out, "links");
        if wanted(&line) {
            return line;
        }
    }
    panic!("no such report");
}

fn has_both(line: &str) -> bool {
    get(line, "127.0.0.2", "path").is_some() && get(line, "127.0.0.1", "path").is_some()
}

#[test]
fn a_link_keeps_to_its_rate_in_both_directions() {
    let place = Place::new();
    let (_server, pin) = place.server();
    let rules = "[link.\"127.0.0.1\"]\nrate = \"8Mbit\"\n[link.\"127.0.0.2\"]\nrate = \"8Mbit\"\n";
    let (client, proxy) = client(&place, &pin, rules);
    report_with(&client, has_both);
    let (code, mut socket) = socks(proxy, source());
    assert_eq!(code, 0);
    for way in [b'u', b'd'] {
        // Until the server has been told: 2 MB at 2 MB/s, less what may come at once.
        let begun = Instant::now();
        while took(&mut socket, way, 2_000_000) < Duration::from_millis(900) {
            assert!(begun.elapsed() < DEADLINE, "{}", char::from(way));
        }
    }
}

#[test]
fn a_quota_makes_a_backup_and_is_kept_over_restarts() {
    let place = Place::new();
    let (_server, pin) = place.server();
    // By its weight, it is used whatever the scheduler thinks of two paths through one machine.
    let rules =
        "[link.\"127.0.0.1\"]\nweight = 1\n[link.\"127.0.0.2\"]\nweight = 3\nquota = \"300kB\"\n";
    let target = source();
    let (mut first, proxy) = client(&place, &pin, rules);
    line_with(&first.err, "127.0.0.2: 0 B of 300 kB are used");
    let report = report_with(&first, has_both);
    assert_eq!(get(&report, "127.0.0.2", "out"), Some(false.into()));
    let (_, mut socket) = socks(proxy, target);
    let begun = Instant::now();
    let is_out = |line: &str| get(line, "127.0.0.2", "out") == Some(true.into());
    while !is_out(&line_with(&first.out, "links")) {
        took(&mut socket, b'd', 500_000);
        assert!(begun.elapsed() < DEADLINE);
    }
    line_with(
        &first.err,
        "127.0.0.2: 300 kB are used: a backup until the month ends",
    );
    first.signal("-TERM");
    assert!(first.wait().success());
    drop(first);
    let kept = place.path().join("data/mpquic-bond/links.toml");
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(
        kept.contains("127.0.0.2") && kept.contains("bytes = "),
        "{kept}"
    );
    let (second, _) = client(&place, &pin, rules);
    line_with(&second.err, "of 300 kB are used");
    report_with(&second, |line| has_both(line) && is_out(line));
}

#[test]
fn weights_split_what_comes() {
    let place = Place::new();
    let (_server, pin) = place.server();
    let rules = "[link.\"127.0.0.1\"]\nweight = 3\n[link.\"127.0.0.2\"]\nweight = 1\n";
    let (client, proxy) = client(&place, &pin, rules);
    report_with(&client, has_both);
    let (_, mut socket) = socks(proxy, source());
    let received = |line: &str| {
        ["127.0.0.1", "127.0.0.2"].map(|ip| get(line, ip, "received").unwrap().as_u64().unwrap())
    };
    let begun = Instant::now();
    loop {
        let before = received(&line_with(&client.out, "links"));
        took(&mut socket, b'd', 5_000_000);
        let after = received(&report_with(&client, |line| {
            received(line).iter().sum::<u64>() > before.iter().sum::<u64>() + 5_000_000
        }));
        let [first, second] = [0, 1].map(|at| (after[at] - before[at]) as f64);
        if (2.4..3.6).contains(&(first / second)) {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{first} {second}");
    }
}

#[test]
fn the_next_server_is_taken_if_one_is_lost() {
    let (one, two) = (Place::new(), Place::new());
    let (first, pin) = one.server();
    let (_second, other) = two.server();
    let connect = |pins: [&str; 2]| {
        let mut command: Command = bond();
        command
            .args(["connect", &one.server.to_string(), &two.server.to_string()])
            .args(["--local", "127.0.0.1", "--proxy", "127.0.0.1:0"])
            .args(["--pin", pins[0], "--pin", pins[1], "--token-file"])
            .arg(one.path().join("token"));
        command
    };
    let client = Process::start(&mut connect([&pin, &other]));
    let proxy = line_with(&client.out, "proxy on ");
    let proxy = proxy.strip_prefix("proxy on ").unwrap().parse().unwrap();
    let target = echo();
    assert!(works(proxy, target));
    first.signal("-TERM");
    let line = line_with(&client.err, "connected again");
    assert!(line.contains(&two.server.to_string()), "{line}");
    assert!(works(proxy, target));
    drop(first);
    // The first one is gone: a start goes on to the second.
    let late = Process::start(&mut connect([&pin, &other]));
    line_with(&late.err, "is tried");
    let proxy = line_with(&late.out, "proxy on ");
    let proxy = proxy.strip_prefix("proxy on ").unwrap().parse().unwrap();
    assert!(works(proxy, target));
    // Each server has its own pin.
    let mut wrong = connect([&pin, &other]);
    let (code, why) = ended(wrong.args(["--pin", &pin]));
    assert_eq!(code, Some(2), "{why}");
    assert!(why.contains("2 servers have 3 times --pin"), "{why}");
}

#[test]
fn rules_are_checked() {
    let place = Place::new();
    let (_server, pin) = place.server();
    let file = place.path().join("bond.toml");
    let check = |text: &str, flags: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let mut command = bond();
        command.env("XDG_DATA_HOME", place.path().join("data"));
        command.args(["check", "connect", "192.0.2.1", "--pin", &pin]);
        let output = command.args(flags).arg("--config").arg(&file).output();
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, shown) = check(
        "[link.wwan0]\nmetered = true\nrate = \"10Mbit\"\nquota = \"5GB\"\n",
        &[],
    );
    assert_eq!(code, Some(0), "{shown}");
    let rule = "link = [\"wwan0:metered=true,quota=5GB,rate=10Mbit\"]";
    assert!(shown.contains(rule), "{shown}");
    let (code, why) = check("[link.wwan0]\nqouta = \"5GB\"\n", &[]);
    assert!(
        code == Some(2) && why.contains("did you mean `quota`?"),
        "{why}"
    );
    let (code, why) = check("idle = 9\n[link.wwan0]\nrate = \"10\"\n", &[]);
    assert!(code == Some(2) && why.contains("bond.toml:2: "), "{why}");
    let weighed = "[link.wwan0]\nweight = 2\n";
    let (code, why) = check(weighed, &["--scheduler", "minrtt"]);
    assert!(
        code == Some(2) && why.contains("leave --scheduler out"),
        "{why}"
    );
}
