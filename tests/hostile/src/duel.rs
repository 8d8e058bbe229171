//! A victim and one hostile peer: the way through a handshake to any state, and what comes back. The peer's packets
//! arrive at once; the victim's too, as far as the test wants them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use mpquic_proto::{ConnectionError, EcnCodepoint, FourTuple, TransportConfig};

use crate::params::Params;
use crate::peer::{Opened, Peer, Sealing, Space};
use crate::tls::{self, Identity};
use crate::victim::{Victim, client_address, server_address};
use crate::wire::{Frame, payload};

/// How far apart both are, in one direction.
pub const DELAY: Duration = Duration::from_millis(5);

/// A connection between a victim and a hostile peer.
#[derive(Debug)]
pub struct Duel {
    /// The code under test.
    pub victim: Victim,
    /// The attacker.
    pub peer: Peer,
    /// Whether the victim is the server.
    pub against_server: bool,
    /// The client's addresses that the peer has proved to be its own.
    pub validated: BTreeSet<SocketAddr>,
}

/// The error code of a connection that its own side has closed.
pub fn own_error(reason: Option<&ConnectionError>) -> Option<u64> {
    match reason {
        Some(ConnectionError::TransportError(error)) => Some(error.code.into()),
        _ => None,
    }
}

impl Duel {
    /// A server of this configuration and a client that has not sent anything.
    ///
    /// # Panics
    ///
    /// If TLS cannot be set up.
    pub fn with_server(transport: TransportConfig, params: Params) -> Self {
        let victim = Victim::server(&Identity::generate(), transport);
        Self::between(victim, params)
    }

    /// A server and a client that has not sent anything.
    ///
    /// # Panics
    ///
    /// If TLS cannot be set up.
    pub fn between(victim: Victim, params: Params) -> Self {
        let peer =
            Peer::client(7, b"original", params, tls::credulous_client()).expect("valid settings");
        Self {
            victim,
            peer,
            against_server: true,
            validated: BTreeSet::from([client_address(0)]),
        }
    }

    /// A client of this configuration, which has sent its first datagrams, and a server.
    pub fn with_client(transport: TransportConfig, params: Params) -> Self {
        Self::with_client_of(&Identity::generate(), transport, params)
    }

    /// The same with a given identity of the server.
    pub fn with_client_of(identity: &Identity, transport: TransportConfig, params: Params) -> Self {
        let victim = Victim::client(identity, transport);
        let peer = Peer::server(8, params, tls::server(identity));
        Self {
            victim,
            peer,
            against_server: false,
            validated: BTreeSet::from([client_address(0)]),
        }
    }

    /// A confirmed connection to a server, which has nothing left to send.
    ///
    /// # Panics
    ///
    /// If the handshake fails.
    pub fn established(transport: TransportConfig, params: Params) -> Self {
        let mut duel = Self::with_server(transport, params);
        duel.connect();
        duel
    }

    /// The same with a client as victim.
    ///
    /// # Panics
    ///
    /// If the handshake fails.
    pub fn established_client(transport: TransportConfig, params: Params) -> Self {
        let mut duel = Self::with_client(transport, params);
        duel.connect();
        duel
    }

    /// The addresses of a path, as the victim sees them.
    pub fn tuple(&self, path: u32) -> FourTuple {
        if self.against_server {
            from(client_address(path))
        } else {
            FourTuple {
                local: client_address(path),
                remote: server_address(),
            }
        }
    }

    /// Runs the handshake until it is confirmed and both sides have said what they have to say.
    ///
    /// # Panics
    ///
    /// If it does not come to that.
    pub fn connect(&mut self) {
        for _ in 0..20 {
            self.exchange();
            let client_done = !self.against_server || self.peer.confirmed;
            if self.peer.complete && client_done && self.victim.connections.len() == 1 {
                break;
            }
        }
        assert!(
            self.peer.complete,
            "no handshake: {:?}, {:?}",
            self.peer, self.victim
        );
        if !self.against_server {
            self.send(&[Frame::HandshakeDone]);
        }
        self.settle();
    }

    /// One flight of the handshake in each direction.
    pub fn exchange(&mut self) {
        self.collect();
        for datagram in self.peer.flight() {
            self.deliver(&datagram);
        }
        self.victim.advance(2 * DELAY);
        self.collect();
    }

    /// Acknowledges and answers until the victim is silent for a second.
    pub fn settle(&mut self) {
        for _ in 0..30 {
            self.victim.advance(2 * DELAY);
            let came = self.collect();
            self.answer(&came);
            if self.victim.sent.is_empty() {
                self.victim.advance(Duration::from_millis(100));
                if self.victim.sent.is_empty() {
                    break;
                }
            }
        }
    }

    /// Acknowledges packets and answers challenges where they came.
    pub fn answer(&mut self, came: &[(FourTuple, Opened)]) {
        for (tuple, opened) in came {
            for frame in &opened.frames {
                if let (Frame::PathChallenge(data), Space::Data(path)) = (frame, opened.space) {
                    self.validated.insert(tuple.remote);
                    self.send_from(
                        *tuple,
                        path,
                        &[Frame::PathResponse(*data), Frame::Padding(1150)],
                    );
                }
            }
        }
        for datagram in self.peer.flight() {
            self.deliver(&datagram);
        }
        let acks = self.peer.take_acks();
        if !acks.is_empty() {
            let path = self.living_path();
            self.send_on(path, &acks);
        }
    }

    /// Acknowledges on path 0 what came on all paths.
    pub fn acknowledge(&mut self) {
        let acks = self.peer.take_acks();
        self.send(&acks);
    }

    /// A path that the victim holds open; 0 if there is none.
    pub fn living_path(&self) -> u32 {
        let first = self.victim.connections.first();
        first
            .and_then(|(_, connection)| connection.paths().ids().next())
            .map_or(0, |path| path.0)
    }

    /// Hands the victim a datagram on path 0.
    pub fn deliver(&mut self, datagram: &[u8]) {
        let tuple = self.tuple(0);
        self.victim.deliver(tuple, None, datagram);
    }

    /// Sends these frames in a 1-RTT packet on path 0; `false` if there are no keys.
    pub fn send(&mut self, frames: &[Frame]) -> bool {
        self.send_on(0, frames)
    }

    /// Sends these frames on a path, from the addresses that belong to it.
    pub fn send_on(&mut self, path: u32, frames: &[Frame]) -> bool {
        let tuple = self.tuple(path);
        self.send_from(tuple, path, frames)
    }

    /// Sends these frames with a path ID from any address; nothing if there are none.
    pub fn send_from(&mut self, tuple: FourTuple, path: u32, frames: &[Frame]) -> bool {
        if frames.is_empty() {
            return false;
        }
        let sealed = self.peer.seal(Space::Data(path), frames);
        let sent = sealed.is_some();
        if let Some(datagram) = sealed {
            self.victim.deliver(tuple, None, &datagram);
        }
        sent
    }

    /// Sends a packet of which anything may be strange.
    pub fn send_as(&mut self, space: Space, frames: &[Frame], how: &Sealing) -> bool {
        let path = match space {
            Space::Data(path) => path,
            _ => 0,
        };
        let tuple = self.tuple(path);
        let sealed = self.peer.seal_as(space, &payload(frames), how);
        let sent = sealed.is_some();
        if let Some(datagram) = sealed {
            self.victim.deliver(tuple, None, &datagram);
        }
        sent
    }

    /// What the victim has sent since the last time, decrypted, with the addresses.
    ///
    /// # Panics
    ///
    /// If it has used a packet number twice, if a packet has no frame or one that does not belong there, or if packets of one
    /// datagram have different connection IDs.
    pub fn collect(&mut self) -> Vec<(FourTuple, Opened)> {
        let sent = std::mem::take(&mut self.victim.sent);
        let mut all = Vec::new();
        for datagram in sent {
            let marked = datagram.ecn == Some(EcnCodepoint::Ect0);
            let opened = self.peer.receive_marked(&datagram.data, marked);
            //= specs/rfc9000.txt#section-12.2
            //= type=test
            //# Senders MUST NOT coalesce QUIC packets with different connection IDs into a single UDP
            //# datagram.
            assert!(
                opened.windows(2).all(|two| two[0].dcid == two[1].dcid),
                "connection IDs in one datagram: {opened:?}"
            );
            for packet in &opened {
                //= specs/rfc9000.txt#section-12.4
                //= type=test
                //# The payload of a packet that contains frames MUST contain at least one frame, and
                //# MAY contain multiple frames and multiple frame types.
                assert!(!packet.frames.is_empty(), "no frames: {packet:?}");
                //= specs/rfc9000.txt#section-12.5
                //= type=test
                //# * All other frame types MUST only be sent in the application data packet number
                //# space.
                let of_all_spaces = |frame: &Frame| {
                    matches!(
                        frame,
                        Frame::Padding(_)
                            | Frame::Ping
                            | Frame::Ack { path: None, .. }
                            | Frame::Crypto { .. }
                            | Frame::Close { app: false, .. }
                    )
                };
                assert!(
                    matches!(packet.space, Space::Data(_))
                        || packet.frames.iter().all(of_all_spaces),
                    "frames that belong to 1-RTT packets: {packet:?}"
                );
            }
            all.extend(opened.into_iter().map(|opened| (datagram.tuple, opened)));
        }
        // RFC 10069, Nonce Calculation: no path ID and packet number is used twice under the same keys.
        assert_eq!(self.peer.reused, 0, "a nonce was used twice");
        all
    }

    /// The frames that the victim has sent since the last time.
    ///
    /// # Panics
    ///
    /// If it has used a packet number twice.
    pub fn frames(&mut self) -> Vec<Frame> {
        self.collect()
            .into_iter()
            .flat_map(|(_, opened)| opened.frames)
            .collect()
    }

    /// Opens a path as a client does: issues connection IDs, challenges, answers.
    ///
    /// # Panics
    ///
    /// If the victim does not open it.
    pub fn open_path(&mut self, path: u32) {
        let issue = [self.peer.issue(path, 0), self.peer.issue(path, 1)];
        let on = self.living_path();
        self.send_on(on, &issue);
        let challenge = [Frame::PathChallenge([path as u8; 8]), Frame::Padding(1150)];
        assert!(
            self.send_on(path, &challenge),
            "no connection ID for path {path}"
        );
        self.settle();
        let open = self
            .victim
            .connection()
            .paths()
            .ids()
            .any(|other| other.0 == path);
        assert!(open, "path {path} is not open: {:?}", self.error());
    }

    /// The error with which the victim has closed, if it has.
    pub fn error(&mut self) -> Option<u64> {
        let living = self.victim.connections.first();
        own_error(living.and_then(|(_, connection)| connection.lost_reason()))
    }

    /// Why the victim's connection is over, if it is.
    pub fn reason(&self) -> Option<String> {
        let living = self.victim.connections.first();
        match living {
            Some((_, connection)) => connection.lost_reason().map(|reason| format!("{reason:?}")),
            None => Some(format!("{:?}", self.victim.events.last())),
        }
    }

    /// Whether the victim's connection goes on.
    pub fn alive(&self) -> bool {
        let living = self.victim.connections.first();
        living.is_some_and(|(_, connection)| !connection.is_closed())
    }
}

/// From this address to the server.
pub fn from(remote: SocketAddr) -> FourTuple {
    FourTuple {
        local: server_address(),
        remote,
    }
}
