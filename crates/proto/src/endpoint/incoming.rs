//! Connections that wait to be accepted, and their datagrams, within bounds.

use std::collections::BTreeSet;
use std::time::Instant;

use bytes::BytesMut;
use mpquic_sched_core::{ConnectionId, EcnCodepoint};
use mpquic_wire::packet::Version;
use slab::Slab;

use crate::events::ConnectionEvent;
use crate::handshake::{AddressProof, FirstFlight};
use crate::{FourTuple, limits};

/// A client that wants to connect: accept, refuse or ignore it, or have it prove its address first.
///
/// Until then the endpoint stores its datagrams, and it counts against
/// [`ServerConfig::max_incoming`](crate::ServerConfig::max_incoming). If you do not need it any more,
/// pass it to [`Endpoint::ignore`](crate::Endpoint::ignore) instead of dropping it.
#[derive(Debug)]
#[must_use = "accept, refuse, ignore or retry it: the endpoint remembers it until then"]
pub struct Incoming {
    pub(super) index: usize,
    /// Tells it from a later one with the same index.
    pub(super) number: u64,
    pub(super) received: Instant,
    pub(super) expires: Instant,
    pub(super) network_path: FourTuple,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) version: Version,
    /// The first datagram.
    pub(super) datagram: BytesMut,
    /// Destination and source connection IDs of its first packet.
    pub(super) dcid: ConnectionId,
    pub(super) scid: ConnectionId,
    pub(super) proof: AddressProof,
}

impl Incoming {
    /// The addresses of its first datagram. See
    /// [`remote_address_validated`](Self::remote_address_validated) for what is known of the remote one.
    pub fn network_path(&self) -> FourTuple {
        self.network_path
    }

    /// When its first datagram was received.
    pub fn received(&self) -> Instant {
        self.received
    }

    /// When the endpoint forgets it: from then on, accepting it fails
    /// ([`ServerConfig::handshake_timeout`](crate::ServerConfig::handshake_timeout)).
    pub fn expires(&self) -> Instant {
        self.expires
    }

    /// Whether the client has proven that it receives at its address, by a token of a Retry packet or of an
    /// earlier connection (RFC 9000 section 8.1). Otherwise the datagram can come from anybody.
    ///
    /// If this is false, [`may_retry`](Self::may_retry) is true.
    pub fn remote_address_validated(&self) -> bool {
        self.proof.is_valid()
    }

    /// Whether [`Endpoint::retry`](crate::Endpoint::retry) is possible: unless the client has answered a
    /// Retry packet already.
    pub fn may_retry(&self) -> bool {
        //= specs/rfc9000.txt#section-8.1.2
        //# In response to processing an Initial packet containing a token that was provided in a
        //# Retry packet, a server cannot send another Retry packet; it can only refuse the
        //# connection or permit it to proceed.
        !matches!(self.proof, AddressProof::Retry { .. })
    }

    pub(super) fn attempt(&self) -> FirstFlight {
        FirstFlight {
            network_path: self.network_path,
            version: self.version,
            dcid: self.dcid,
            scid: self.scid,
            proof: self.proof.clone(),
        }
    }
}

/// The endpoint's side of every [`Incoming`].
#[derive(Debug, Default)]
pub(super) struct Waiting {
    slots: Slab<Slot>,
    /// Of all slots, by the time at which they are given up.
    expiring: BTreeSet<(Instant, usize)>,
    /// Of all slots.
    bytes: usize,
    /// Places taken so far.
    count: u64,
}

/// Where one waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) number: u64,
}

#[derive(Debug)]
struct Slot {
    dcid: ConnectionId,
    number: u64,
    expires: Instant,
    /// After the first, which the [`Incoming`] has.
    datagrams: Vec<ConnectionEvent>,
    /// With the first.
    bytes: usize,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Takes a place for one whose first datagram has so many bytes. `None` if that is more than
    /// one may take, or if the memory for all is used up.
    pub(super) fn open(
        &mut self,
        dcid: ConnectionId,
        datagram: usize,
        expires: Instant,
    ) -> Option<Place> {
        let bytes = cost(datagram);
        if bytes > limits::MAX_INCOMING_BUFFER
            || self.bytes + bytes > limits::MAX_INCOMING_BUFFER_TOTAL
        {
            return None;
        }
        self.bytes += bytes;
        let number = self.count;
        self.count += 1;
        let index = self.slots.insert(Slot {
            dcid,
            number,
            expires,
            datagrams: Vec::new(),
            bytes,
        });
        self.expiring.insert((expires, index));
        Some(Place { index, number })
    }

    /// Keeps a further datagram, or drops it if there is no room. It is copied: the buffer that it
    /// came in may be large and shared.
    pub(super) fn buffer(
        &mut self,
        index: usize,
        now: Instant,
        network_path: FourTuple,
        ecn: Option<EcnCodepoint>,
        datagram: &[u8],
    ) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let bytes = cost(datagram.len());
        if slot.bytes + bytes > limits::MAX_INCOMING_BUFFER
            || self.bytes + bytes > limits::MAX_INCOMING_BUFFER_TOTAL
        {
            return;
        }
        slot.bytes += bytes;
        self.bytes += bytes;
        slot.datagrams.push(ConnectionEvent::single(
            now,
            network_path,
            ecn,
            datagram.into(),
        ));
    }

    /// Gives the place up. The datagrams after the first; `None` if it was given up before, or is another
    /// endpoint's.
    pub(super) fn close(&mut self, incoming: &Incoming) -> Option<Vec<ConnectionEvent>> {
        let slot = self.slots.get(incoming.index)?;
        if slot.dcid != incoming.dcid || slot.number != incoming.number {
            return None;
        }
        Some(self.remove(incoming.index).datagrams)
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.expiring.is_empty()
    }

    /// When the first place is given up.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.expiring.first().map(|(expires, _)| *expires)
    }

    /// Gives up the place whose time is over, if there is one; call it until there is none.
    pub(super) fn expire(&mut self, now: Instant) -> Option<(usize, ConnectionId)> {
        let (expires, index) = *self.expiring.first()?;
        if expires > now {
            return None;
        }
        Some((index, self.remove(index).dcid))
    }

    fn remove(&mut self, index: usize) -> Slot {
        let slot = self.slots.remove(index);
        self.expiring.remove(&(slot.expires, index));
        self.bytes -= slot.bytes;
        slot
    }

    /// Bytes of all that is kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is memory for one whose first datagram has so many bytes, if so many others were free.
    pub(super) const fn fits(&self, datagram: usize, free: usize) -> bool {
        self.bytes - free + cost(datagram) <= limits::MAX_INCOMING_BUFFER_TOTAL
    }

    /// Bytes that would be free without this one.
    pub(super) fn bytes_of(&self, incoming: &Incoming) -> usize {
        self.slots.get(incoming.index).map_or(0, |slot| slot.bytes)
    }
}

/// Memory that a datagram takes: with the record of it, or many tiny ones would be too cheap.
const fn cost(datagram: usize) -> usize {
    datagram + size_of::<ConnectionEvent>()
}
