//! Drives TLS through the CRYPTO streams and holds the keys of each level.

use std::sync::Arc;
use std::time::Instant;

use mpquic_sched_core::{ConnectionId, Side};
use mpquic_wire::crypto::{Keys, OneRttKeys};
use mpquic_wire::packet::Version;
use mpquic_wire::transport_parameters::TransportParameters;
use rustls::quic::{self, KeyChange};

use super::crypto_stream::CryptoStream;
use super::early_data::EarlyData;
use super::{ConnectError, sessions};
use crate::TransportError;
use crate::crypto::initial_keys;
use crate::space::SpaceId;

/// Bytes that encoded transport parameters mostly take.
const PARAMETERS: usize = 192;

/// A connection's TLS session. Of [`Connection::session`](crate::Connection::session).
pub struct Session {
    tls: quic::Connection,
    streams: [CryptoStream; 3],
    /// Where TLS writes to now.
    write_space: SpaceId,
    pub(super) initial: Option<Keys>,
    pub(super) handshake: Option<Keys>,
    pub(super) one_rtt: Option<OneRttKeys>,
    pub(super) early_data: EarlyData,
    complete: bool,
    scratch: Vec<u8>,
}

/// The keys that reading a CRYPTO frame brought, and whether it was the last.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewKeys {
    pub(super) handshake: bool,
    pub(super) one_rtt: bool,
    /// TLS is complete now (RFC 9001 section 4.1.1).
    pub(super) complete: bool,
}

/// Whether TLS refuses a CertificateRequest.
fn asks_for_certificate(error: &rustls::Error) -> bool {
    matches!(
        error,
        rustls::Error::InappropriateHandshakeMessage {
            got_type: rustls::HandshakeType::CertificateRequest,
            ..
        }
    )
}

impl Session {
    pub(crate) fn client(
        config: Arc<rustls::ClientConfig>,
        server_name: &str,
        parameters: &TransportParameters,
        initial_dcid: &ConnectionId,
        version: Version,
    ) -> Result<Self, ConnectError> {
        let name = rustls::pki_types::ServerName::try_from(server_name)
            .map_err(|_| ConnectError::InvalidServerName(server_name.into()))?
            .to_owned();
        let mut encoded = Vec::with_capacity(PARAMETERS);
        parameters.encode(Side::Client, &mut encoded);
        let config = sessions::of_client(config, version);
        let tls = quic::ClientConnection::new(config, version.tls(), name, encoded)
            .map_err(|error| ConnectError::Tls(error.to_string()))?;
        let mut this = Self::new(
            tls.into(),
            initial_keys(version, initial_dcid, Side::Client),
        );
        this.write_tls();
        Ok(this)
    }

    pub(crate) fn server(
        config: Arc<rustls::ServerConfig>,
        parameters: &TransportParameters,
        initial_dcid: &ConnectionId,
        version: Version,
    ) -> Result<Self, TransportError> {
        let mut encoded = Vec::with_capacity(PARAMETERS);
        parameters.encode(Side::Server, &mut encoded);
        //= specs/rfc9000.txt#section-7
        //# The cryptographic handshake MUST provide the following properties:
        let config = sessions::bind(&config, parameters.early_limits(), version);
        let tls = quic::ServerConnection::new(config, version.tls(), encoded)
            .map_err(|error| TransportError::internal(error.to_string()))?;
        Ok(Self::new(
            tls.into(),
            initial_keys(version, initial_dcid, Side::Server),
        ))
    }

    fn new(tls: quic::Connection, initial: Keys) -> Self {
        Self {
            tls,
            streams: Default::default(),
            write_space: SpaceId::Initial,
            initial: Some(initial),
            handshake: None,
            one_rtt: None,
            early_data: EarlyData::default(),
            complete: false,
            scratch: Vec::new(),
        }
    }

    /// Gives back memory that is kept to be used again.
    pub(super) fn shrink(&mut self) {
        self.scratch = Vec::new();
    }

    pub(super) fn stream(&mut self, space_id: SpaceId) -> &mut CryptoStream {
        &mut self.streams[space_id as usize]
    }

    /// Bytes kept of what came at a level, and the gaps in them.
    pub(crate) fn buffered(&self, space_id: SpaceId) -> (usize, usize) {
        self.streams[space_id as usize].buffered()
    }

    /// Memory of the handshake data.
    pub(super) fn memory(&self) -> usize {
        self.streams.iter().map(CryptoStream::memory).sum()
    }

    pub(super) fn can_send(&self, space_id: SpaceId) -> bool {
        self.streams[space_id as usize].can_send()
    }

    /// Bytes of a level that wait to be sent.
    pub(super) fn unsent(&self, space_id: SpaceId) -> usize {
        self.streams[space_id as usize].unsent()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The peer's transport parameters, once TLS has them; authenticated once it is complete.
    pub(super) fn peer_parameters(&self) -> Option<&[u8]> {
        // Until the server's own have come, a client that resumes a session finds those of the
        // earlier connection here (they are for 0-RTT).
        if matches!(self.tls, quic::Connection::Client(_)) && self.tls.is_handshaking() {
            return None;
        }
        self.tls.quic_transport_parameters()
    }

    /// On a client that resumes a session and may send early data, the parameters of the server on the
    /// earlier connection; to be asked for before the handshake begins.
    // There are such keys only if the application's TLS configuration has `enable_early_data`.
    //= specs/rfc9001.txt#section-5.6
    //# A client therefore MUST NOT use 0-RTT for application data unless specifically requested by
    //# the application that is in use.
    pub(super) fn remembered_parameters(&self) -> Option<&[u8]> {
        let client = matches!(self.tls, quic::Connection::Client(_));
        if !client || self.tls.zero_rtt_keys().is_none() {
            return None;
        }
        self.tls.quic_transport_parameters()
    }

    /// The client will send early data.
    pub(super) fn offer_early_data(&mut self) {
        if let Some(keys) = self.tls.zero_rtt_keys() {
            self.early_data.offer(keys);
        }
    }

    /// On a client whose handshake is complete, whether the server took its early data. `None` if it
    /// offered none, or if that was asked before.
    pub(super) fn settle_early_data(&mut self) -> Option<bool> {
        match &self.tls {
            quic::Connection::Client(tls) if !tls.is_handshaking() => {
                self.early_data.settle(tls.is_early_data_accepted())
            }
            _ => None,
        }
    }

    /// Whether it is one of an earlier connection. False until the handshake data is known.
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// Whether this side sends, or has sent, early data (0-RTT): a client that resumes a session,
    /// if its TLS configuration enables early data and the server's ticket allows it. On servers,
    /// whether early data was accepted.
    ///
    /// A client can open streams and write to them from the start then. What it writes before the
    /// handshake is complete can be read by the server twice and more: whoever recorded the packets can
    /// send them again, to the same server or to another one of the same service. Write only what does
    /// no harm when it is repeated (RFC 9001 section 9.2).
    pub fn has_0rtt(&self) -> bool {
        self.early_data.is_used()
    }

    /// Whether the server has accepted early data. On clients, false until the handshake is complete.
    pub fn accepted_0rtt(&self) -> bool {
        self.early_data.is_accepted()
    }

    /// Whether the server has rejected this client's early data. Streams that were opened before
    /// [`Event::Connected`](crate::Event::Connected) are gone then, with all that was written to them, and so are
    /// datagrams; their IDs are given to the streams that are opened from then on.
    pub fn rejected_0rtt(&self) -> bool {
        self.early_data.is_rejected()
    }

    /// Whether a server waits for the ClientHello, or for the rest of it.
    pub(super) fn awaits_client_hello(&self) -> bool {
        self.read_space() == SpaceId::Initial
    }

    /// The application protocol that ALPN selected.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// The server name that the client sent. `None` on clients.
    pub fn server_name(&self) -> Option<&str> {
        match &self.tls {
            quic::Connection::Server(tls) => tls.server_name(),
            quic::Connection::Client(_) => None,
        }
    }

    /// The peer's certificate chain, leaf first, once it was received.
    pub fn peer_certificates(&self) -> Option<&[rustls::pki_types::CertificateDer<'static>]> {
        self.tls.peer_certificates()
    }

    /// Fills `output` with keying material for the application (RFC 8446 section 7.5).
    ///
    /// # Errors
    ///
    /// If the handshake is incomplete, or `output` is longer than TLS allows.
    pub fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), rustls::Error> {
        self.tls
            .export_keying_material(output, label, Some(context))
            .map(|_| ())
    }

    /// Takes in a CRYPTO frame and lets TLS answer.
    pub(super) fn on_crypto(
        &mut self,
        space_id: SpaceId,
        offset: u64,
        data: &[u8],
    ) -> Result<NewKeys, TransportError> {
        let reading = self.read_space();
        let stream = &mut self.streams[space_id as usize];
        if space_id < reading && !stream.has_read(offset + data.len() as u64) {
            //= specs/rfc9001.txt#section-4.1.3
            //# * If the packet is from a previously installed encryption level, it MUST NOT contain
            //# data that extends past the end of previously received data in that flow.
            //= specs/rfc9001.txt#section-4.1.3
            //# Implementations MUST treat any violations of this requirement as a connection
            //# error of type PROTOCOL_VIOLATION.
            return Err(TransportError::protocol_violation(
                "new CRYPTO data at an encryption level that is over",
            ));
        }
        stream.on_frame(offset, data)?;
        let tls = &mut self.tls;
        let read = stream.read(|bytes| tls.read_hs(bytes));
        let read = read.map_err(|error| {
            //= specs/rfc9001.txt#section-4.8
            //# As QUIC provides alternative mechanisms for connection termination and the TLS
            //# connection is only closed if an error is encountered, a QUIC endpoint MUST treat any
            //# alert from TLS as if it were at the "fatal" level.
            //= specs/rfc9001.txt#section-6
            //# Endpoints MUST treat the receipt of a TLS KeyUpdate message as a connection error of
            //# type 0x010a, equivalent to a fatal TLS alert of unexpected_message; see Section 4.8.
            // RFC 9001 section 4.8: a TLS alert becomes a connection error of code 0x100 + alert.
            let alert = self.tls.alert().map_or(80, u8::from);
            if error == rustls::PeerMisbehaved::InvalidMaxEarlyDataSize.into() {
                //= specs/rfc9001.txt#section-4.6.1
                //# A client MUST treat receipt of a NewSessionTicket that contains an early_data
                //# extension with any other value as a connection error of type
                //# PROTOCOL_VIOLATION.
                return TransportError::protocol_violation("a ticket with a limit on early data");
            }
            if self.complete && asks_for_certificate(&error) {
                //= specs/rfc9001.txt#section-4.4
                //# More specifically, servers MUST NOT send post-
                //# handshake TLS CertificateRequest messages, and clients MUST treat
                //# receipt of such messages as a connection error of type
                //# PROTOCOL_VIOLATION.
                return TransportError::protocol_violation("asked for a certificate late");
            }
            TransportError::crypto(alert, error.to_string())
        })?;
        if !read {
            return Ok(NewKeys::default());
        }
        let mut new = self.write_tls();
        if !self.complete && !self.tls.is_handshaking() {
            self.complete = true;
            new.complete = true;
        }
        if self.read_space() > reading && self.streams[reading as usize].has_unread() {
            //= specs/rfc9001.txt#section-4.1.3
            //# When TLS provides keys for a higher encryption level, if there is data from a
            //# previous encryption level that TLS has not consumed, this MUST be treated as a
            //# connection error of type PROTOCOL_VIOLATION.
            return Err(TransportError::protocol_violation(
                "CRYPTO data left over when its encryption level ended",
            ));
        }
        Ok(new)
    }

    /// The space of the encryption level that TLS reads from (RFC 9001 section 4.1.3). A server has 1-RTT
    /// keys before it reads with them.
    fn read_space(&self) -> SpaceId {
        if self.complete {
            SpaceId::Data
        } else if self.handshake.is_some() {
            SpaceId::Handshake
        } else {
            SpaceId::Initial
        }
    }

    fn write_tls(&mut self) -> NewKeys {
        let mut new = NewKeys::default();
        loop {
            self.scratch.clear();
            let change = self.tls.write_hs(&mut self.scratch);
            let wrote = !self.scratch.is_empty();
            //= specs/rfc9001.txt#section-4.9
            //# Though an endpoint might retain older keys, new data MUST be sent at the highest
            //# currently available encryption level.
            self.streams[self.write_space as usize].write(&self.scratch);
            match change {
                Some(KeyChange::Handshake { keys }) => {
                    // The ClientHello was read, and with it TLS has decided on early data.
                    if let quic::Connection::Server(tls) = &self.tls
                        && let Some(keys) = tls.zero_rtt_keys()
                    {
                        self.early_data.accept(keys);
                    }
                    self.handshake = Some(keys);
                    self.write_space = SpaceId::Handshake;
                    new.handshake = true;
                }
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.one_rtt = Some(OneRttKeys::new(keys, next));
                    self.write_space = SpaceId::Data;
                    new.one_rtt = true;
                }
                None if wrote => {}
                None => return new,
            }
        }
    }

    /// RFC 9001 section 4.9: the keys of a level and all that it had to send are dropped.
    pub(super) fn discard(&mut self, space_id: SpaceId) {
        match space_id {
            //= specs/rfc9001.txt#section-4.9.1
            //# Endpoints MUST NOT send Initial packets after this point.
            SpaceId::Initial => self.initial = None,
            SpaceId::Handshake => self.handshake = None,
            SpaceId::Data => return,
        }
        self.streams[space_id as usize] = CryptoStream::default();
    }

    /// Forgets keys that a key update left behind, when their time is over.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if let Some(keys) = &mut self.one_rtt {
            keys.on_timeout(now);
        }
        self.early_data.on_timeout(now);
    }
}
