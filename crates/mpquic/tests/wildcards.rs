//! Both wildcard addresses, and IPv4 beside IPv6: in any order, from the start or added later, and on a host that has one family.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::common::{Identity, client_config, identity, run, server_config};
use mpquic::{Endpoint, EndpointBuilder, TransportConfig};

const ANY_V4: &str = "0.0.0.0";
const ANY_V6: &str = "[::]";
const V4: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const V6: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 0);

/// Whether there is an IPv6 address to ask; in a container there may be none.
fn has_v6() -> bool {
    let has = UdpSocket::bind(V6).is_ok();
    if !has {
        println!("this host has no ::1: only its IPv4 side is tried");
    }
    has
}

/// Whether the kernel has sockets of IPv6 at all.
fn knows_v6() -> bool {
    let knows = UdpSocket::bind("[::]:0").is_ok();
    if !knows {
        println!("this host has no IPv6");
    }
    knows
}

fn on(ip: &str, port: u16) -> SocketAddr {
    format!("{ip}:{port}").parse().unwrap()
}

/// Builds with a port that is free in both families. Another program may take it in between; then with another one.
fn build<T>(mut build: impl FnMut(u16) -> io::Result<T>) -> io::Result<T> {
    let mut last = None;
    for _ in 0..5 {
        let probe = if has_v6() { "[::]:0" } else { "0.0.0.0:0" };
        let port = UdpSocket::bind(probe)?.local_addr()?.port();
        match build(port) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = Some(error),
            result => return result,
        }
    }
    Err(last.unwrap())
}

fn server(identity: &Identity) -> EndpointBuilder {
    Endpoint::builder().server(server_config(identity, TransportConfig::default()))
}

/// A client gets an answer at this address.
async fn answers(server: &Endpoint, identity: &Identity, at: SocketAddr) {
    let from = if at.is_ipv4() { V4 } else { V6 };
    let client = Endpoint::client(&[from]).unwrap();
    client.set_default_client_config(client_config(identity, TransportConfig::default()));
    let connecting = client.connect(at, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (here, there) = tokio::join!(connecting, accepting);
    let (here, there) = (here.unwrap(), there);
    let mut stream = there.open_uni().await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    stream.finish().unwrap();
    let mut stream = here.accept_uni().await.unwrap();
    assert_eq!(stream.read_to_end(9).await.unwrap(), b"hello");
    let local = there.local_ip().unwrap().to_canonical();
    assert_eq!(local, at.ip(), "answered from another address");
}

async fn answers_on(server: &Endpoint, identity: &Identity, port: u16) {
    answers(server, identity, on("127.0.0.1", port)).await;
    if has_v6() {
        answers(server, identity, on("[::1]", port)).await;
    }
}

#[test]
fn ipv4_beside_an_ipv6_wildcard_in_any_order() {
    run(async {
        let identity = identity();
        for shards in [1, 2] {
            for ips in [
                [ANY_V4, ANY_V6],
                [ANY_V6, ANY_V4],
                ["127.0.0.1", ANY_V6],
                [ANY_V6, "127.0.0.1"],
            ] {
                let mut used = 0;
                let built = build(|port| {
                    used = port;
                    let locals = ips.map(|ip| on(ip, port));
                    server(&identity).bind_all(&locals).shards(shards).build()
                });
                let server = built.unwrap_or_else(|error| panic!("{ips:?}, {shards}: {error}"));
                let (mut bound, missing) = (ips.map(|ip| on(ip, used)).to_vec(), on(ANY_V6, used));
                if knows_v6() {
                    assert!(server.missing_addrs().is_empty());
                } else {
                    assert_eq!(server.missing_addrs()[0].local, missing);
                    bound.retain(|local| *local != missing);
                }
                assert_eq!(server.local_addrs(), bound);
                answers_on(&server, &identity, used).await;
            }
        }
    });
}

#[test]
fn an_ipv6_wildcard_alone_takes_ipv4() {
    if !knows_v6() {
        return;
    }
    run(async {
        let identity = identity();
        for shards in [1, 2] {
            let builder = server(&identity).bind(on(ANY_V6, 0)).shards(shards);
            let server = builder.build().unwrap();
            answers_on(&server, &identity, server.local_addr().unwrap().port()).await;
        }
        // As does one that comes later, or takes the place of another one.
        let server = server(&identity).bind(V4).build().unwrap();
        let new = server.rebind(server.local_addr().unwrap(), on(ANY_V6, 0));
        answers_on(&server, &identity, new.unwrap().port()).await;
    });
}

#[test]
fn an_ipv6_wildcard_that_comes_later_leaves_ipv4_to_the_socket_that_has_it() {
    if !knows_v6() {
        return;
    }
    run(async {
        let identity = identity();
        let both = build(|port| {
            let server = server(&identity).bind(on(ANY_V4, port)).build()?;
            server.add_socket(on(ANY_V6, port))?;
            Ok((server, port))
        });
        let (both, port) = both.unwrap();
        answers_on(&both, &identity, port).await;
        // The place of an IPv6 socket is taken beside an IPv4 one.
        let rebound = build(|port| {
            let locals = [on("127.0.0.1", port), V6];
            let locals = if has_v6() { &locals[..] } else { &locals[..1] };
            let server = server(&identity).bind_all(locals).build()?;
            match server.local_addrs().get(1) {
                Some(old) => server.rebind(*old, on(ANY_V6, port))?,
                None => server.add_socket(on(ANY_V6, port))?,
            };
            Ok((server, port))
        });
        let (rebound, port) = rebound.unwrap();
        answers_on(&rebound, &identity, port).await;
        // Beside a socket of the application's.
        let adopted = build(|port| {
            let socket = UdpSocket::bind(on(ANY_V4, port))?;
            let builder = server(&identity).bind(on(ANY_V6, port)).socket(socket);
            Ok((builder.build()?, port))
        });
        let (adopted, port) = adopted.unwrap();
        answers_on(&adopted, &identity, port).await;
    });
}

#[test]
fn an_address_that_an_own_socket_has_is_refused_with_its_name() {
    if !knows_v6() {
        return;
    }
    run(async {
        let identity = identity();
        let server = server(&identity).bind(on(ANY_V6, 0)).build().unwrap();
        let own = server.local_addr().unwrap();
        for ip in [ANY_V4, "127.0.0.1", ANY_V6] {
            let error = server.add_socket(on(ip, own.port())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            let text = error.to_string();
            assert!(text.contains(&own.to_string()), "{text}");
            assert_eq!(text.contains("takes IPv4"), ip != ANY_V6, "{text}");
        }
        let error = server.rebind(own, on(ANY_V4, own.port())).unwrap_err();
        assert!(error.to_string().contains(&own.to_string()), "{error}");
        // Another port is free.
        server.add_socket(on(ANY_V4, 0)).unwrap();
    });
}

#[test]
fn who_has_no_ipv4_socket_any_more_says_so() {
    if !knows_v6() {
        return;
    }
    run(async {
        let locals = [on(ANY_V6, 0), on("127.0.0.1", 0)];
        let client = Endpoint::client(&locals).unwrap();
        let config = client_config(&identity(), TransportConfig::default());
        client.set_default_client_config(config);
        assert!(client.remove_socket(client.local_addrs()[1]));
        let remote = on("127.0.0.1", 4433);
        let error = client.connect(remote, "localhost").unwrap_err();
        assert_eq!(error, mpquic::ConnectError::NoSocket(remote));
    });
}

/// The tests above, on a host whose interfaces have no IPv6: this program again, in a network of its own.
#[cfg(target_os = "linux")]
#[test]
fn a_host_without_ipv6_serves_ipv4() {
    const INSIDE: &str = "MPQUIC_TEST_WITHOUT_IPV6";
    if std::env::var_os(INSIDE).is_some() {
        assert!(UdpSocket::bind(V6).is_err(), "it has IPv6");
        return;
    }
    let script = "ip link set lo up && sysctl -qw net.ipv6.conf.all.disable_ipv6=1 && exec \"$0\" wildcards::";
    let program = std::env::current_exe().unwrap();
    let run = std::process::Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .arg(program)
        .env(INSIDE, "1")
        .output();
    let Ok(output) = run else {
        return println!("unshare is not here: not tried");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains("running ") {
        let why = String::from_utf8_lossy(&output.stderr);
        return println!("no network of its own (it takes root, ip and sysctl): {why}");
    }
    assert!(output.status.success(), "{text}");
    assert!(text.contains("6 passed"), "{text}");
}
