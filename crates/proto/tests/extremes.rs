//! Every setting with nothing, with the least and with the most: a connection begins, carries data in both directions and is
//! quiet when nobody sends, or the setting refuses. Nothing panics, waits for ever or floods the network.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_proto::congestion::{InitialWindow, SlowStart};
use mpquic_proto::sched::PathKey;
use mpquic_proto::{
    AckFrequencyConfig, CarefulResumeConfig, ClientConfig, ConfigError, Dir, EndpointConfig,
    PathMemory, RaceConfig, Reconnaissance, SavedPath, SendDatagramError, ServerConfig,
    TransportConfig, ValidationTokenConfig, Version,
};

use crate::pair::{Pair, client_addr, tuple};

/// What a setting is set to, in its own unit; times of `Least` are one nanosecond, and of `Little` one millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Zero,
    Least,
    Little,
    Most,
}

use Value::{Least, Little, Most, Zero};

impl Value {
    fn time(self) -> Duration {
        match self {
            Zero => Duration::ZERO,
            Least => Duration::from_nanos(1),
            Little => Duration::from_millis(1),
            Most => Duration::MAX,
        }
    }

    fn number(self) -> u64 {
        match self {
            Zero => 0,
            Least => 1,
            Little => 1000,
            Most => u64::MAX,
        }
    }

    fn size(self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }

    fn short(self) -> u16 {
        u16::try_from(self.number()).unwrap_or(u16::MAX)
    }

    fn word(self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }

    fn varint(self) -> mpquic_proto::VarInt {
        let most = mpquic_proto::VarInt::MAX;
        mpquic_proto::VarInt::from_u64(self.number()).unwrap_or(most)
    }
}

/// What is set, of both sides alike.
struct All {
    transport: TransportConfig,
    client: ClientConfig,
    server: ServerConfig,
    endpoint: EndpointConfig,
    tokens: ValidationTokenConfig,
    retry: bool,
}

type Set = fn(&mut All, Value) -> Result<(), ConfigError>;

macro_rules! settings {
    ($($name:ident: |$all:ident, $value:ident| $set:expr;)*) => {
        &[$((stringify!($name), |$all: &mut All, $value: Value| { $set; Ok(()) })),*]
    };
}

fn ack_frequency(all: &mut All, set: impl Fn(&mut AckFrequencyConfig)) {
    let mut config = AckFrequencyConfig::default();
    set(&mut config);
    all.transport.ack_frequency_config(Some(config));
}

fn resume(all: &mut All, set: impl Fn(&mut CarefulResumeConfig)) {
    let mut config = CarefulResumeConfig::default();
    config.reconnaissance(Reconnaissance::InitialWindow);
    set(&mut config);
    all.transport.careful_resume(Some(config));
}

fn race(all: &mut All, set: impl Fn(&mut RaceConfig)) {
    let mut config = RaceConfig::default();
    set(&mut config);
    all.client.race(Some(config));
}

const SETTINGS: &[(&str, Set)] = settings! {
    max_concurrent_bidi_streams: |all, value| all.transport.max_concurrent_bidi_streams(value.number());
    max_concurrent_uni_streams: |all, value| all.transport.max_concurrent_uni_streams(value.number());
    max_idle_timeout: |all, value| all.transport.max_idle_timeout(Some(value.time()));
    keep_alive_interval: |all, value| all.transport.keep_alive_interval(Some(value.time()));
    stream_receive_window: |all, value| all.transport.stream_receive_window(value.number());
    fixed_stream_receive_window: |all, value| all.transport.stream_receive_window(value.number()).window_auto_tuning(false);
    receive_window: |all, value| all.transport.receive_window(value.number());
    fixed_receive_window: |all, value| all.transport.receive_window(value.number()).window_auto_tuning(false);
    send_window: |all, value| all.transport.send_window(value.number());
    min_peer_rate: |all, value| all.transport.min_peer_rate(value.number(), Duration::from_secs(1));
    min_peer_rate_period: |all, value| all.transport.min_peer_rate(1, value.time());
    datagram_receive_buffer: |all, value| all.transport.datagram_receive_buffer(Some(value.size()));
    datagram_send_buffer: |all, value| all.transport.datagram_send_buffer(value.size());
    max_paths: |all, value| all.transport.max_paths(value.word());
    copy_budget: |all, value| all.transport.copy_budget(value.number(), 5);
    initial_rtt: |all, value| all.transport.initial_rtt(value.time());
    initial_mtu: |all, value| all.transport.initial_mtu(value.short())?;
    max_mtu: |all, value| all.transport.max_mtu(value.short())?;
    initial_window_packets: |all, value| all.transport.initial_window(InitialWindow::Packets(value.word()))?;
    initial_rtt_of_hystart: |all, value| all.transport.initial_rtt(value.time()).slow_start(SlowStart::HyStartPlusPlus);
    ack_eliciting_threshold: |all, value| ack_frequency(all, |config| _ = config.ack_eliciting_threshold(value.varint()));
    reordering_threshold: |all, value| ack_frequency(all, |config| _ = config.reordering_threshold(value.varint()));
    asked_max_ack_delay: |all, value| ack_frequency(all, |config| _ = config.max_ack_delay(Some(value.time())));
    resume_lifetime: |all, value| resume(all, |config| _ = config.lifetime(value.time()));
    max_jump: |all, value| resume(all, |config| _ = config.max_jump(value.number()));
    client_handshake_timeout: |all, value| all.client.handshake_timeout(value.time());
    stagger: |all, value| race(all, |config| _ = config.stagger(value.time()));
    attempt_delay: |all, value| race(all, |config| _ = config.attempt_delay(value.time()));
    max_incoming: |all, value| all.server.max_incoming(value.size());
    max_half_open: |all, value| all.server.max_half_open(value.size());
    max_connections: |all, value| all.server.max_connections(value.size());
    max_connections_per_prefix: |all, value| all.server.max_connections_per_prefix(value.size());
    half_open_memory: |all, value| all.server.half_open_memory(value.size());
    server_handshake_timeout: |all, value| all.server.handshake_timeout(value.time());
    retry_above: |all, value| all.server.retry_above(value.size());
    max_retries_waiting: |all, value| all.server.retry_above(0).max_retries_waiting(value.size());
    retry_token_lifetime: |all, value| {
        all.retry = true;
        all.server.retry_token_lifetime(value.time())
    };
    token_lifetime: |all, value| all.tokens.lifetime(value.time());
    tokens_sent: |all, value| all.tokens.sent(value.word());
    max_udp_payload_size: |all, value| all.endpoint.max_udp_payload_size(value.short());
    clock: |all, value| all.endpoint.clock(Instant::now(), value.time());
    send_memory: |all, value| all.endpoint.send_memory(value.number());
    receive_memory: |all, value| all.endpoint.receive_memory(value.number());
    alarm_delay: |all, value| all.endpoint.alarm_delay(value.time());
    cipher_block: |all, value| all.endpoint.cipher_block(value.short());
    supported_versions: |all, value| all.endpoint.supported_versions(if value == Zero { &[][..] } else { &[Version::V1, Version::V2] });
};

/// What refuses a value when it is set, with the least that is allowed in its place.
const REFUSED: &[(&str, &[Value])] = &[
    ("initial_mtu", &[Zero, Least, Little, Most]),
    ("max_mtu", &[Zero, Least, Little, Most]),
    ("initial_window_packets", &[Zero, Least, Most]),
];

/// With what a client's attempt to connect ends by itself: nobody is let in, or nobody waits for a round trip of 20 ms.
const NOT_CONNECTED: &[(&str, &[Value])] = &[
    ("client_handshake_timeout", &[Least, Little]),
    ("server_handshake_timeout", &[Least, Little]),
    ("max_incoming", &[Zero]),
    ("max_half_open", &[Zero]),
    ("half_open_memory", &[Zero, Least, Little]),
];

/// With what a connection ends while it is idle or slow: that is what it is for.
const ENDS: &[(&str, &[Value])] = &[
    ("max_idle_timeout", &[Little, Most]),
    ("min_peer_rate", &[Most]),
];

fn has(list: &[(&str, &[Value])], name: &str, value: Value) -> bool {
    list.iter()
        .any(|(known, values)| *known == name && values.contains(&value))
}

/// Remembers all of it.
#[derive(Default)]
struct Kept(Mutex<HashMap<PathKey, SavedPath>>);

impl PathMemory for Kept {
    fn look_up(&self, key: PathKey, _: Duration) -> Option<SavedPath> {
        self.0.lock().unwrap().get(&key).copied()
    }

    fn remember(&self, key: PathKey, saved: &SavedPath) {
        self.0.lock().unwrap().insert(key, *saved);
    }

    fn forget(&self, key: PathKey) {
        self.0.lock().unwrap().remove(&key);
    }

    fn claim(&self, _: PathKey) -> bool {
        true
    }

    fn release(&self, _: PathKey) {}
}

const BYTES: usize = 20_000;

/// Stream data one way; whether all of it came.
fn carries(pair: &mut Pair, down: bool) -> bool {
    let data = [7; BYTES];
    let (mut id, mut written, mut read) = (None, 0, 0);
    let mut buf = [0; 4096];
    pair.run_until(Duration::from_secs(600), |pair| {
        let over =
            |pair: &mut Pair| pair.c().lost_reason().is_some() || pair.s().lost_reason().is_some();
        let sender = if down { pair.s() } else { pair.c() };
        // Where one kind is forbidden, the other one carries it.
        id = id
            .or_else(|| sender.streams().open(Dir::Uni))
            .or_else(|| sender.streams().open(Dir::Bi));
        let Some(id) = id else {
            return over(pair);
        };
        while written < BYTES {
            match sender.send_stream(id).write(&data[written..]) {
                Ok(more) => written += more,
                Err(_) => break,
            }
            if written == BYTES {
                sender.send_stream(id).finish().unwrap();
            }
        }
        let receiver = if down { pair.c() } else { pair.s() };
        while receiver.streams().accept(id.dir()).is_some() {}
        loop {
            match receiver.recv_stream(id).read(&mut buf) {
                Ok(Some(more)) => read += more,
                Ok(None) => return true,
                Err(_) => return over(pair),
            }
        }
    });
    read == BYTES
}

/// One value of one setting. What went wrong, if anything did.
fn try_value(
    name: &str,
    set: Set,
    value: Value,
    configs: &(ClientConfig, ServerConfig),
) -> Result<(), String> {
    let mut transport = TransportConfig::default();
    // The network is at rest then, and time does not run on to the end of the connection.
    transport.max_idle_timeout(None);
    transport.path_memory(Some(Arc::new(Kept::default())));
    let mut all = All {
        transport,
        client: configs.0.clone(),
        server: configs.1.clone(),
        endpoint: EndpointConfig::new([1; 32]),
        tokens: ValidationTokenConfig::default(),
        retry: false,
    };
    if let Err(error) = set(&mut all, value) {
        return match has(REFUSED, name, value) {
            true => Ok(()),
            false => Err(format!("refused: {error}")),
        };
    }
    if has(REFUSED, name, value) {
        return Err("not refused".to_owned());
    }
    let transport = Arc::new(all.transport);
    all.client.transport(Arc::clone(&transport));
    all.server
        .transport(transport)
        .validation_tokens(all.tokens);
    let endpoints = [all.endpoint.clone(), all.endpoint];
    let mut pair = Pair::of(all.client, all.server, endpoints);
    pair.retry = all.retry;
    let count = Rc::new(Cell::new(0));
    let counted = Rc::clone(&count);
    pair.filter = Box::new(move |_, _, _| {
        counted.set(counted.get() + 1);
        true
    });
    let begin = |pair: &mut Pair| {
        pair.run_until(Duration::from_secs(60), |pair| {
            let there = pair.server.connection.is_some() && pair.c().is_handshake_confirmed();
            there || pair.c().lost_reason().is_some()
        });
        pair.c().lost_reason().cloned()
    };
    pair.may_refuse = has(NOT_CONNECTED, name, value);
    if pair.may_refuse {
        return match begin(&mut pair) {
            Some(_) => Ok(()),
            None => Err("neither connected nor refused within a minute".to_owned()),
        };
    }
    // The second connection has tokens, and what was remembered of the path.
    for number in 0..2 {
        if number > 0 {
            pair.reconnect(tuple(0));
        }
        if let Some(error) = begin(&mut pair) {
            return Err(format!("not connected: {error}"));
        }
        if !pair.c().is_handshake_confirmed() {
            return Err("no handshake within a minute".to_owned());
        }
        match pair
            .c()
            .datagrams()
            .send(Bytes::from_static(b"datagram"), true)
        {
            Ok(()) | Err(SendDatagramError::Disabled | SendDatagramError::UnsupportedByPeer) => {}
            Err(error) => return Err(format!("datagram: {error:?}")),
        }
        let sent = count.get();
        for down in [true, false] {
            if !carries(&mut pair, down) && !has(ENDS, name, value) {
                let error = pair.c().lost_reason().cloned();
                return Err(format!("the data did not arrive (down: {down}, {error:?})"));
            }
        }
        if count.get() - sent > 20 * 2 * BYTES / 512 {
            return Err(format!(
                "{} datagrams for {BYTES} bytes each way",
                count.get() - sent
            ));
        }
        if has(ENDS, name, value) {
            return Ok(());
        }
        // What is still under way, such as the search for the MTU.
        pair.run_until(Duration::from_secs(5), |_| false);
        let sent = count.get();
        pair.run_until(Duration::from_secs(10), |_| false);
        let idle = count.get() - sent;
        // A keep-alive each way and its answer, 20 times a second.
        if idle > 10 * 20 * 4 + 20 {
            return Err(format!("{idle} datagrams in ten idle seconds"));
        }
        if let Some(error) = pair.c().lost_reason() {
            return Err(format!("ended: {error}"));
        }
    }
    Ok(())
}

#[test]
fn no_value_of_any_setting_hangs_panics_or_floods() {
    assert_eq!(client_addr(0), tuple(0).local);
    let configs = Pair::configs(TransportConfig::default(), TransportConfig::default());
    let mut wrong = Vec::new();
    for (name, set) in SETTINGS {
        for value in [Zero, Least, Little, Most] {
            let tried = std::panic::catch_unwind(AssertUnwindSafe(|| {
                try_value(name, *set, value, &configs)
            }));
            match tried {
                Ok(Ok(())) => {}
                Ok(Err(why)) => wrong.push(format!("{name} {value:?}: {why}")),
                Err(_) => wrong.push(format!("{name} {value:?}: a panic")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Those of a connection that is in use.
#[test]
fn windows_of_a_connection_in_use_are_never_so_small_that_nothing_moves() {
    for value in [Zero, Least, Most] {
        let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
        pair.connect();
        pair.c().streams().set_receive_window(value.number());
        pair.s().streams().set_receive_window(value.number());
        pair.c().streams().set_send_window(value.number());
        pair.s().streams().set_send_window(value.number());
        pair.c()
            .streams()
            .set_max_concurrent(Dir::Uni, value.number());
        assert!(
            carries(&mut pair, true) && carries(&mut pair, false),
            "{value:?}"
        );
    }
}
