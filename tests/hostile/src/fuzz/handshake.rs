//! Handshakes with anything in between: frames of Initial and Handshake packets, pieces of TLS messages in any order,
//! datagrams cut off and changed, to clients and servers.

use std::time::Duration;

use super::input::Input;
use super::{Features, config, feature, identity, note};
use crate::duel::Duel;
use crate::params::Params;
use crate::peer::{Sealing, Space};
use crate::victim::{Admission, Victim};
use crate::wire::payload;

/// One input.
///
/// # Panics
///
/// If the code under test does, or holds more than its caps.
pub fn handshake(data: &[u8]) -> Features {
    let mut input = Input(data);
    let mut features = Features::new();
    let Some(kind) = input.byte() else {
        return features;
    };
    let mut params = Params::generous((kind & 1 == 0).then_some(9));
    if kind & 4 != 0 {
        let (at, value) = (input.byte().unwrap_or(0), input.number().unwrap_or(0));
        params.set(u64::from(at % 0x40), value);
    }
    let mut duel = if kind & 2 == 0 {
        Duel::between(Victim::server(identity(), config()), params)
    } else {
        Duel::with_client_of(identity(), config(), params)
    };
    let mut steps = 0;
    while steps < 200 && step(&mut input, &mut duel, &mut features).is_some() {
        steps += 1;
        assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
        if duel.against_server {
            // Nothing here validates an address but a Handshake packet.
            let confirmed = duel.peer.has_handshake();
            let (sent, received) = (
                duel.victim.sent_in_all().bytes,
                duel.victim.received_from.values(),
            );
            let received: u64 = received.map(|received| received.bytes).sum();
            assert!(
                confirmed || sent <= 3 * received,
                "{sent} bytes for {received}"
            );
        }
    }
    features.insert(feature(3, (duel.error(), duel.peer.complete)));
    for _ in 0..100 {
        duel.victim.advance(Duration::from_secs(5));
        duel.victim.sent.clear();
    }
    assert_eq!(
        duel.victim.endpoint.open_connections(),
        0,
        "a connection that never ends"
    );
    features
}

fn step(input: &mut Input<'_>, duel: &mut Duel, features: &mut Features) -> Option<()> {
    let op = input.byte()?;
    features.insert(feature(4, op % 10));
    match op % 10 {
        0 | 1 => {
            for datagram in duel.peer.flight() {
                duel.deliver(&datagram);
            }
        }
        2 => {
            for mut datagram in duel.peer.flight() {
                let at = usize::from(input.byte()?) * 5 % datagram.len();
                if op & 0x80 == 0 {
                    datagram.truncate(at);
                } else {
                    datagram[at] ^= 1 << (op >> 4 & 7);
                }
                duel.deliver(&datagram);
            }
            duel.peer.repeat_flight();
        }
        3 | 4 => {
            let space = if op & 0x10 == 0 {
                Space::Initial
            } else {
                Space::Handshake
            };
            let mut frames = Vec::new();
            for _ in 0..=op >> 6 {
                frames.push(input.frame(&duel.peer)?);
            }
            let mut payload = payload(&frames);
            if op & 0x20 == 0 {
                payload.resize(payload.len().max(1170), 0);
            }
            if let Some(datagram) = duel.peer.seal_as(space, &payload, &Sealing::default()) {
                duel.deliver(&datagram);
            }
        }
        5 => {
            let came = duel.collect();
            note(features, &came);
        }
        6 => duel
            .victim
            .advance(Duration::from_millis(8 * u64::from(input.byte()?))),
        7 => {
            let len = input.byte()?;
            let datagram = input.bytes(len.into()).to_vec();
            duel.deliver(&datagram);
        }
        8 => {
            duel.victim.admission = match input.byte()? % 5 {
                0 => Admission::Keep,
                1 => Admission::Refuse,
                2 => Admission::Ignore,
                3 => Admission::Retry,
                _ => Admission::Accept,
            };
            duel.victim.accept_oldest();
        }
        _ => {
            duel.peer.repeat_flight();
        }
    }
    Some(())
}
