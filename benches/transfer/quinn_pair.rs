//! The same transfer over quinn-proto, on an in-memory pair that works as ours does.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, ReadError, ServerConfig, StreamId, Transmit, TransportConfig, VarInt,
};

use crate::{CHUNK, DELAY, MTU, SIZE, WINDOW};

struct Flying {
    at: Instant,
    ecn: Option<EcnCodepoint>,
    data: BytesMut,
    segment: usize,
}

struct Half {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    inbound: VecDeque<Flying>,
    remote: SocketAddr,
    connected: bool,
}

pub(crate) struct Pair {
    now: Instant,
    halves: [Half; 2],
    buf: Vec<u8>,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    let window = VarInt::from_u64(WINDOW).expect("a valid window");
    transport
        .initial_mtu(MTU)
        .mtu_discovery_config(None)
        .stream_receive_window(window)
        .receive_window(window)
        .send_window(WINDOW);
    Arc::new(transport)
}

pub(crate) fn pair() -> Pair {
    let tls = mpquic_sim::identity::server_tls().expect("TLS");
    let mut server =
        ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).expect("a suite")));
    server.transport_config(transport());
    let tls = mpquic_sim::identity::client_tls().expect("TLS");
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("a suite")));
    client.transport_config(transport());
    let now = Instant::now();
    let address = |host| SocketAddr::from(([10, 0, 0, host], 4433));
    let half = |server, remote| Half {
        endpoint: Endpoint::new(
            Arc::new(EndpointConfig::default()),
            server,
            true,
            Some([7; 32]),
        ),
        connection: None,
        inbound: VecDeque::new(),
        remote: address(remote),
        connected: false,
    };
    let mut pair = Pair {
        now,
        halves: [half(None, 2), half(Some(Arc::new(server)), 1)],
        buf: Vec::new(),
    };
    let connection = pair.halves[CLIENT]
        .endpoint
        .connect(now, client, address(2), mpquic_sim::identity::SERVER_NAME)
        .expect("a connection");
    pair.halves[CLIENT].connection = Some(connection);
    pair.run_while(|pair| !pair.halves.iter().all(|half| half.connected));
    pair
}

impl Pair {
    fn connection(&mut self, half: usize) -> &mut Connection {
        &mut self.halves[half].connection.as_mut().expect("connected").1
    }

    fn run_while(&mut self, mut more: impl FnMut(&mut Self) -> bool) {
        while more(self) {
            let next = self.step().expect("something left to happen");
            self.now = self.now.max(next);
        }
    }

    fn step(&mut self) -> Option<Instant> {
        for half in [CLIENT, SERVER] {
            self.deliver(half);
        }
        for half in [CLIENT, SERVER] {
            self.flush(half);
        }
        let mut next: Option<Instant> = None;
        for half in &mut self.halves {
            let arrival = half.inbound.front().map(|flying| flying.at);
            let timeout = half.connection.as_mut().and_then(|(_, c)| c.poll_timeout());
            for at in [arrival, timeout].into_iter().flatten() {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        next
    }

    fn deliver(&mut self, half: usize) {
        let half = &mut self.halves[half];
        while half
            .inbound
            .front()
            .is_some_and(|flying| flying.at <= self.now)
        {
            let mut flying = half.inbound.pop_front().expect("one is there");
            while !flying.data.is_empty() {
                let len = flying.segment.min(flying.data.len());
                let data = flying.data.split_to(len);
                let event = half.endpoint.handle(
                    self.now,
                    half.remote,
                    None,
                    flying.ecn,
                    data,
                    &mut self.buf,
                );
                match event {
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        if let Some((_, connection)) = &mut half.connection {
                            connection.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        half.connection = half
                            .endpoint
                            .accept(incoming, self.now, &mut self.buf, None)
                            .ok();
                    }
                    Some(DatagramEvent::Response(_)) | None => {}
                }
            }
        }
        if let Some((_, connection)) = &mut half.connection
            && connection.poll_timeout().is_some_and(|at| at <= self.now)
        {
            connection.handle_timeout(self.now);
        }
    }

    fn flush(&mut self, index: usize) {
        loop {
            let half = &mut self.halves[index];
            let Some((handle, connection)) = &mut half.connection else {
                return;
            };
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = half.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            self.buf.clear();
            let Some(transmit) = connection.poll_transmit(self.now, 10, &mut self.buf) else {
                while let Some(event) = connection.poll() {
                    half.connected |= matches!(event, Event::Connected);
                }
                return;
            };
            self.send(index, &transmit);
        }
    }

    fn send(&mut self, from: usize, transmit: &Transmit) {
        let flying = Flying {
            at: self.now + DELAY,
            ecn: transmit.ecn,
            data: BytesMut::from(&self.buf[..transmit.size]),
            segment: transmit.segment_size.unwrap_or(transmit.size),
        };
        self.halves[1 - from].inbound.push_back(flying);
    }
}

pub(crate) fn transfer(mut pair: Pair) -> Pair {
    let data = vec![7; CHUNK];
    let mut buf = vec![0; CHUNK];
    let id: StreamId = pair
        .connection(SERVER)
        .streams()
        .open(Dir::Uni)
        .expect("a stream");
    let mut left = SIZE;
    let mut received = 0;
    pair.run_while(|pair| {
        let mut stream = pair.connection(SERVER).send_stream(id);
        while left > 0 {
            match stream.write(&data[..left.min(CHUNK)]) {
                Ok(written) => left -= written,
                Err(_) => break,
            }
            if left == 0 {
                stream.finish().expect("open");
            }
        }
        let client = pair.connection(CLIENT);
        client.streams().accept(Dir::Uni);
        let mut more = true;
        let mut stream = client.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return true;
        };
        loop {
            match chunks.next(CHUNK) {
                Ok(Some(chunk)) => {
                    // What the application of ours does too: the bytes end in its buffer.
                    buf[..chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    received += chunk.bytes.len();
                }
                Ok(None) => {
                    more = false;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let _ = chunks.finalize();
        more
    });
    assert_eq!(received, SIZE);
    pair
}
