//! Sockets that follow the links of a machine, as a watcher of the test tells them: paths come, go, come back, and are used as they cost.

use std::io;
use std::net::IpAddr;

use crate::common::{Pair, client_config, identity, loopback, pattern, run, server_config};
use mpquic::{
    Connection, Endpoint, Interface, InterfaceWatcher, LinkEvent, LinkManager, LinkPolicy,
    LinkTask, PathEvent, PathStatus, TransportConfig,
};
use tokio::sync::mpsc;

/// Tells what the test says.
struct Told(mpsc::Receiver<Vec<Interface>>);

impl InterfaceWatcher for Told {
    async fn next(&mut self) -> io::Result<Vec<Interface>> {
        let next = self.0.recv().await;
        next.ok_or_else(|| io::Error::other("the test is over"))
    }
}

fn interface(name: &str, last: u8) -> Interface {
    Interface {
        name: name.to_owned(),
        index: Some(last.into()),
        addresses: vec![loopback(last).ip()],
    }
}

fn wifi() -> Interface {
    interface("wifi0", 1)
}

fn mobile() -> Interface {
    interface("wwan0", 2)
}

/// A server, and a client whose links the test has in its hand.
struct Place {
    _server: Endpoint,
    client: Endpoint,
    connection: Connection,
    there: Connection,
    tell: mpsc::Sender<Vec<Interface>>,
    events: mpsc::UnboundedReceiver<LinkEvent>,
    _task: LinkTask,
}

impl Place {
    async fn new(policy: LinkPolicy, first: Vec<Interface>) -> Self {
        let identity = identity();
        let config = server_config(&identity, TransportConfig::default());
        let server = Endpoint::server(config, &[loopback(1)]).unwrap();
        let (tell, told) = mpsc::channel(4);
        tell.send(first).await.unwrap();
        let config = client_config(&identity, TransportConfig::default());
        let builder = Endpoint::builder().default_client(config);
        let policy = policy.bind_device(false);
        let (client, links) = LinkManager::start(builder, Told(told), policy)
            .await
            .unwrap();
        let (send, events) = mpsc::unbounded_channel();
        let task = links.spawn(move |event| drop(send.send(event)));
        let connecting = client
            .connect(server.local_addrs()[0], "localhost")
            .unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (connection, there) = tokio::join!(connecting, accepting);
        Self {
            _server: server,
            client,
            connection: connection.unwrap(),
            there,
            tell,
            events,
            _task: task,
        }
    }

    /// Waits until the open paths that carry data are those from these addresses, with these statuses.
    async fn paths(&self, wanted: &[(u8, PathStatus)]) {
        let mut events = self.connection.path_events();
        loop {
            let paths = self.connection.paths().into_iter();
            let mut found: Vec<(IpAddr, PathStatus)> = paths
                .filter_map(|path| {
                    Some((path.network_path().ok()?.local.ip(), path.status().ok()?))
                })
                .collect();
            found.sort();
            let wanted: Vec<_> = wanted
                .iter()
                .map(|(last, status)| (loopback(*last).ip(), *status))
                .collect();
            if found == wanted {
                return;
            }
            events.recv().await.expect("the connection ended");
        }
    }

    /// Tells the links, of which one is new, and waits until its path carries data.
    async fn comes(&self, links: Vec<Interface>) {
        let mut events = self.connection.path_events();
        self.tell.send(links).await.unwrap();
        loop {
            let event = events.recv().await.expect("the connection ended");
            if matches!(event, PathEvent::Opened { .. }) {
                return;
            }
        }
    }

    async fn transfer(&self) {
        let data = pattern(300_000);
        let sending = async {
            let mut stream = self.connection.open_uni().await.unwrap();
            stream.write_all(&data).await.unwrap();
            stream.finish().unwrap();
        };
        let receiving = async {
            let mut stream = self.there.accept_uni().await.unwrap();
            assert!(stream.read_to_end(data.len()).await.unwrap() == data);
        };
        tokio::join!(sending, receiving);
    }
}

use PathStatus::{Available, Backup};

#[test]
fn a_link_that_goes_and_comes_back_has_a_path_again() {
    run(async {
        let mut place = Place::new(LinkPolicy::new(), vec![mobile(), wifi()]).await;
        // The mobile network is a backup, by its name, and the connection did not begin on it.
        assert_eq!(place.connection.local_ip(), Some(loopback(1).ip()));
        place.paths(&[(1, Available), (2, Backup)]).await;
        place.transfer().await;

        place.tell.send(vec![wifi()]).await.unwrap();
        let event = place.events.recv().await.unwrap();
        assert!(
            matches!(&event, LinkEvent::Down { interface, .. } if interface == "wwan0"),
            "{event}"
        );
        place.paths(&[(1, Available)]).await;

        place.comes(vec![mobile(), wifi()]).await;
        let event = place.events.recv().await.unwrap();
        assert_eq!(event.to_string(), "link 127.0.0.2 (wwan0) is up");
        place.paths(&[(1, Available), (2, Backup)]).await;

        // The one on which the connection began goes: the other one carries it.
        place.tell.send(vec![mobile()]).await.unwrap();
        place.paths(&[(2, Backup)]).await;
        place.transfer().await;
        place.comes(vec![wifi(), mobile()]).await;
        place.paths(&[(1, Available), (2, Backup)]).await;
        place.transfer().await;
    });
}

#[test]
fn without_any_link_the_sockets_wait() {
    run(async {
        let mut place = Place::new(LinkPolicy::new(), vec![wifi()]).await;
        place.tell.send(Vec::new()).await.unwrap();
        // Told after it, so that it was seen: the first socket is there until another one is.
        place.tell.send(vec![wifi(), mobile()]).await.unwrap();
        let event = place.events.recv().await.unwrap();
        assert!(
            matches!(&event, LinkEvent::Up { interface, .. } if interface == "wwan0"),
            "{event}"
        );
        place.paths(&[(1, Available), (2, Backup)]).await;
        place.transfer().await;
        assert_eq!(place.client.local_addrs().len(), 2);
    });
}

#[test]
fn an_adapter_that_is_plugged_in_again_has_another_socket() {
    run(async {
        let first = vec![wifi(), interface("usb0", 2)];
        let mut place = Place::new(LinkPolicy::new(), first).await;
        place.paths(&[(1, Available), (2, Available)]).await;
        let before = place.client.local_addrs();
        let mut again = interface("usb0", 2);
        again.index = Some(77);
        place.tell.send(vec![wifi(), again]).await.unwrap();
        let up = place.events.recv().await.unwrap();
        let down = place.events.recv().await.unwrap();
        assert!(matches!(up, LinkEvent::Up { .. }), "{up}");
        assert!(matches!(down, LinkEvent::Down { .. }), "{down}");
        let after = place.client.local_addrs();
        assert_eq!((before[0], after.len()), (after[0], 2));
        assert_ne!(before[1], after[1]);
        let mut events = place.connection.path_events();
        // The path of the old socket goes, one from the new socket comes.
        loop {
            let paths = place.connection.paths().into_iter();
            let locals: Vec<_> = paths
                .filter_map(|path| Some(path.network_path().ok()?.local))
                .collect();
            if locals.contains(&after[1]) && !locals.contains(&before[1]) {
                break;
            }
            events.recv().await.expect("the connection ended");
        }
        place.transfer().await;
    });
}

#[test]
fn a_limit_holds_and_the_next_link_takes_over() {
    run(async {
        let policy = LinkPolicy::new().limit(1);
        let place = Place::new(policy, vec![mobile(), wifi()]).await;
        let mut events = place.connection.path_events();
        place.transfer().await;
        place.paths(&[(1, Available)]).await;
        place.tell.send(vec![mobile()]).await.unwrap();
        // A connection's last path goes on from another socket: it has no other path to fall back to.
        place.paths(&[(2, Backup)]).await;
        place.transfer().await;
        let mut opened = 0;
        while let Some(event) = events.try_recv() {
            opened += usize::from(matches!(event, PathEvent::Opened { .. }));
        }
        assert!(opened <= 1, "{opened}");
    });
}

#[test]
fn a_machine_without_a_link_says_so() {
    run(async {
        let (tell, told) = mpsc::channel(1);
        tell.send(Vec::new()).await.unwrap();
        let started = LinkManager::start(Endpoint::builder(), Told(told), LinkPolicy::new()).await;
        let error = started.map(drop).unwrap_err();
        assert_eq!(error.to_string(), "no link is up");
        // RFC 5737: an address that no machine has.
        let (tell, told) = mpsc::channel(1);
        let nobody = Interface {
            name: "eth0".to_owned(),
            index: None,
            addresses: vec!["203.0.113.7".parse().unwrap()],
        };
        tell.send(vec![nobody]).await.unwrap();
        let started = LinkManager::start(Endpoint::builder(), Told(told), LinkPolicy::new()).await;
        let error = started.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
        // A pair of the usual kind has no manager.
        let pair = Pair::new();
        assert!(!pair.client.set_socket_status(loopback(9), Backup));
    });
}

/// All links of this machine in one line, and a server on the first of them. Sockets that are bound to their interface do not
/// reach this very machine, so they are not here. What follows the links ends with the endpoint.
#[cfg(feature = "interfaces")]
#[test]
fn all_interfaces_in_one_line() {
    use mpquic::SystemInterfaces;

    run(async {
        let tasks = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        let before = tasks();
        let all = LinkPolicy::new().guess_metered(false);
        let found = SystemInterfaces::new().unwrap().next().await.unwrap();
        let built = Endpoint::builder().all_interfaces().build();
        let Ok(endpoint) = built else {
            let error = built.unwrap_err();
            assert!(error.to_string().contains("no link is up"), "{error}");
            return println!("this machine has no link");
        };
        let locals = endpoint.local_addrs();
        for local in &locals {
            let mut addresses = found.iter().flat_map(|interface| &interface.addresses);
            assert!(addresses.any(|ip| *ip == local.ip()), "{local} {found:?}");
        }
        drop(endpoint);

        let identity = identity();
        let config = server_config(&identity, TransportConfig::default());
        let server = Endpoint::server(config, &[(locals[0].ip(), 0).into()]).unwrap();
        let client = Endpoint::builder()
            .links(all.bind_device(false))
            .default_client(client_config(&identity, TransportConfig::default()))
            .build()
            .unwrap();
        let ips = |addresses: &[std::net::SocketAddr]| -> Vec<_> {
            addresses.iter().map(std::net::SocketAddr::ip).collect()
        };
        assert_eq!(ips(&client.local_addrs()), ips(&locals));
        let connecting = client
            .connect(server.local_addrs()[0], "localhost")
            .unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (here, there) = tokio::join!(connecting, accepting);
        let here = here.unwrap();
        // A connection keeps what follows the links, and the last handle's end alone does not end it.
        drop(client);
        let mut stream = there.open_uni().await.unwrap();
        stream.write_all(&pattern(100_000)).await.unwrap();
        stream.finish().unwrap();
        let mut stream = here.accept_uni().await.unwrap();
        assert!(stream.read_to_end(100_000).await.unwrap() == pattern(100_000));
        assert!(tasks() > before);
        here.close(0_u32.into(), b"");
        there.closed().await;
        drop((here, there, server));
        while tasks() > before {
            tokio::task::yield_now().await;
        }
    });
}
