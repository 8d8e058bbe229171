//! Tokens of Retry packets and of NEW_TOKEN frames, as they are, changed, elsewhere, later and again: only what the
//! server has issued, for this address and in time, proves an address.

use std::time::Duration;

use super::input::Input;
use super::{Features, config, feature, identity};
use crate::duel::{Duel, from};
use crate::params::Params;
use crate::peer::Peer;
use crate::tls;
use crate::victim::{Admission, Victim, client_address};

/// A token and what it is good for.
struct Token {
    bytes: Vec<u8>,
    retry: bool,
    place: u32,
    /// The connection ID that the client must use, of a Retry.
    dcid: Vec<u8>,
    at: std::time::Instant,
    used: bool,
}

/// One input.
///
/// # Panics
///
/// If the code under test does, or takes a token for proof that is none.
pub fn tokens(data: &[u8]) -> Features {
    let mut input = Input(data);
    let mut features = Features::new();
    let mut victim = Victim::server(identity(), config());
    let mut tokens: Vec<Token> = Vec::new();
    let mut steps = 0;
    while steps < 60 && step(&mut input, &mut victim, &mut tokens, &mut features, steps).is_some() {
        steps += 1;
    }
    features
}

fn client(who: u32, token: &[u8], dcid: &[u8]) -> Option<Peer> {
    let mut peer = Peer::client(who, dcid, Params::generous(None), tls::credulous_client()).ok()?;
    peer.token = token.to_vec();
    Some(peer)
}

fn step(
    input: &mut Input<'_>,
    victim: &mut Victim,
    tokens: &mut Vec<Token>,
    features: &mut Features,
    number: u32,
) -> Option<()> {
    let (op, place) = (input.byte()?, u32::from(input.byte()? % 4));
    let tuple = from(client_address(place));
    let first = [b"client".as_slice(), &number.to_be_bytes()].concat();
    match op % 6 {
        0 => {
            // A Retry.
            let mut peer = client(number, b"", &first)?;
            victim.admission = Admission::Retry;
            for datagram in peer.flight() {
                victim.deliver(tuple, None, &datagram);
            }
            for sent in victim.sent.drain(..) {
                peer.receive(&sent.data);
            }
            if peer.retries == 1 {
                let (bytes, dcid) = (peer.token.clone(), peer.handshake_dcid.clone());
                tokens.push(Token {
                    bytes,
                    retry: true,
                    place,
                    dcid,
                    at: victim.now,
                    used: false,
                });
            }
        }
        1 => {
            // A whole connection, for the tokens that it brings.
            let mut fresh = Victim::server(identity(), config());
            std::mem::swap(victim, &mut fresh);
            fresh.admission = Admission::Accept;
            fresh.sent.clear();
            let idle = fresh.connections.is_empty();
            let mut duel = Duel::between(fresh, Params::generous(None));
            if idle {
                duel.connect();
                for bytes in duel.peer.new_tokens.drain(..) {
                    let at = duel.victim.now;
                    tokens.push(Token {
                        bytes,
                        retry: false,
                        place: 0,
                        dcid: Vec::new(),
                        at,
                        used: false,
                    });
                }
                // It ends, so that the next one is the first again.
                duel.send(&[crate::wire::Frame::Close {
                    app: false,
                    code: 0,
                    reason: Vec::new(),
                }]);
                duel.victim.advance(Duration::from_secs(40));
            }
            *victim = duel.victim;
        }
        2 => victim.advance(Duration::from_millis(40 * u64::from(input.byte()?))),
        3 => victim.advance(Duration::from_secs(60 * u64::from(input.byte()?))),
        _ => {
            // A token, perhaps changed.
            let count = tokens.len();
            let token = tokens.get_mut(usize::from(input.byte()?) % count.max(1))?;
            let mut bytes = token.bytes.clone();
            let (how, at) = (input.byte()?, input.byte()?);
            let changed = match how % 5 {
                0 | 1 => false,
                2 if !bytes.is_empty() => {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= 1 << (how >> 5);
                    true
                }
                3 => {
                    bytes.truncate(bytes.len() - 1 - usize::from(at) % bytes.len().max(1));
                    true
                }
                _ => {
                    bytes.push(at);
                    true
                }
            };
            let dcid = if token.retry && op & 0x40 == 0 {
                token.dcid.clone()
            } else {
                first
            };
            let mut peer = client(number, &bytes, &dcid)?;
            victim.admission = Admission::Ignore;
            let before = victim.proven.len();
            for datagram in peer.flight() {
                victim.deliver(tuple, None, &datagram);
            }
            let proven = victim.proven[before..].contains(&true);
            let age = victim.now - token.at;
            features.insert(feature(
                1,
                (op % 6, changed, proven, token.retry, age.as_secs().min(20)),
            ));
            if proven {
                assert!(!changed, "a changed token proves an address");
                assert_eq!(token.place, place, "another address");
                assert!(!token.retry || dcid == token.dcid, "another connection ID");
                assert!(token.retry || !token.used, "a token of NEW_TOKEN twice");
                assert!(
                    !token.retry || age <= Duration::from_secs(60),
                    "a Retry token of {age:?} ago"
                );
                token.used = true;
            }
            victim.sent.clear();
        }
    }
    Some(())
}
