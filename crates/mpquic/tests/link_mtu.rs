//! Datagrams as large as the link takes, over real sockets.
#![cfg(target_os = "linux")]

use crate::common::{Pair, loopback, pattern, run};
use mpquic::{Connection, FullMesh};

/// What is looked for where an interface takes more, as loopback does: 9,216 bytes with the headers of IPv4.
const LARGEST: u16 = 9188;

async fn transfer(from: &Connection, to: &Connection, len: usize) {
    let data = pattern(len);
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(&data).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let receive = async {
        let mut stream = to.accept_uni().await.unwrap();
        assert!(stream.read_to_end(len).await.unwrap() == data);
    };
    tokio::join!(send, receive);
}

fn sizes(connection: &Connection) -> Vec<u16> {
    let paths = connection.paths();
    let sizes = paths.iter().map(|path| path.stats().unwrap().mtu);
    sizes.collect()
}

/// Transfers until all paths have datagrams of this size.
async fn reach(from: &Connection, to: &Connection, size: u16) {
    while sizes(from).iter().any(|found| *found != size) {
        assert!(sizes(from).iter().all(|found| *found <= size));
        transfer(from, to, 4 << 20).await;
    }
}

#[test]
fn a_transfer_uses_what_the_interface_takes_in_its_own_direction() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        transfer(&client, &server, 64 << 10).await;
        assert!(sizes(&client)[0] <= 1452, "a short one");
        reach(&client, &server, LARGEST).await;
        assert!(sizes(&server)[0] <= 1452);
        reach(&server, &client, LARGEST).await;
        transfer(&client, &server, 4 << 20).await;
        assert_eq!(sizes(&client), [LARGEST]);
    });
}

#[test]
fn each_path_has_its_own_size() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        pair.client.set_path_manager(FullMesh::new());
        let (client, server) = pair.connect().await;
        let mut events = server.path_events();
        while server.paths().len() < 2 {
            events.recv().await;
        }
        reach(&server, &client, LARGEST).await;
        assert_eq!(sizes(&server), [LARGEST; 2]);
    });
}

#[test]
fn a_configured_size_counts_for_more() {
    run(async {
        let pair = Pair::with(&[loopback(1)], |transport| {
            transport.max_mtu(1400).unwrap();
        });
        let (client, server) = pair.connect().await;
        reach(&client, &server, 1400).await;
        transfer(&client, &server, 4 << 20).await;
        assert_eq!(sizes(&client), [1400]);
    });
}
