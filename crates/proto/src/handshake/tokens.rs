//! Tokens for a client's next connections (RFC 9000 section 8.1.3): the server's connection issues them, the client's
//! keeps them; what is in them is `token`'s.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::Side;
use mpquic_wire::frame::Frame;
use rand::rngs::StdRng;
use smallvec::SmallVec;

use crate::frame_writer::FrameWriter;
use crate::sent_frame::SentFrame;
use crate::token::{AddressTokens, Addresses, SharedTokenStore};
use crate::{TransportError, limits};

/// What a server's connection knows of the tokens that it gives its client.
struct NewTokens {
    tokens: Arc<AddressTokens>,
    /// How many the client gets at first.
    first: u32,
    /// The IPs that the client has proven, newest last.
    addresses: Addresses,
    /// How many were made.
    made: u32,
    /// Those that are not acknowledged.
    open: SmallVec<[NewToken; 2]>,
}

struct NewToken {
    number: u32,
    token: Vec<u8>,
    to_send: bool,
}

impl NewTokens {
    fn new(tokens: Arc<AddressTokens>, first: u32) -> Self {
        Self {
            tokens,
            first,
            addresses: Addresses::new(),
            made: 0,
            open: SmallVec::new(),
        }
    }

    /// The client has proven to receive at this IP: there is a token to be sent, or several the first time.
    fn on_proven(&mut self, now: Instant, rng: &mut StdRng, ip: IpAddr) {
        let ip = ip.to_canonical();
        if self.addresses.contains(&ip) {
            return;
        }
        if self.addresses.len() >= limits::MAX_TOKEN_ADDRESSES {
            self.addresses.remove(0);
        }
        self.addresses.push(ip);
        let count = if self.made == 0 { self.first } else { 1 };
        for _ in 0..count {
            if self.made >= limits::MAX_NEW_TOKENS {
                return;
            }
            //= specs/rfc10069-draft.md#address-validation-token
            //# To avoid issues when clients make the "wrong" choice, a server SHOULD issue tokens that
            //# are capable of validating any of the previously validated addresses.
            let token = self.tokens.new_token(now, rng, self.addresses.clone());
            self.open.push(NewToken {
                number: self.made,
                token,
                to_send: true,
            });
            self.made += 1;
        }
    }

    fn can_send(&self) -> bool {
        self.open.iter().any(|token| token.to_send)
    }

    //= specs/rfc9000.txt#section-19.7
    //# The token MUST NOT be empty.
    fn fill(&mut self, w: &mut FrameWriter<'_>) {
        for token in self.open.iter_mut().filter(|token| token.to_send) {
            if !w.put(&Frame::NewToken(&token.token)) {
                return;
            }
            w.record(SentFrame::NewToken(token.number));
            token.to_send = false;
        }
    }

    fn on_acked(&mut self, number: u32) {
        self.open.retain(|token| token.number != number);
    }

    //= specs/rfc9000.txt#section-13.3
    //# * NEW_TOKEN frames are retransmitted if the packet containing them is lost.
    fn on_lost(&mut self, number: u32) {
        let lost = self.open.iter_mut().find(|token| token.number == number);
        if let Some(token) = lost {
            token.to_send = true;
        }
    }
}

/// Where a client's connection keeps tokens.
struct KeptTokens {
    store: SharedTokenStore,
    server_name: Box<str>,
}

impl KeptTokens {
    /// The token for this connection, of an earlier one.
    fn take(&self) -> Bytes {
        //= specs/rfc9000.txt#section-8.1.3
        //# When connecting to a server for which the client retains an applicable and unused token,
        //# it SHOULD include that token in the Token field of its Initial packet.
        //= specs/rfc9000.txt#section-8.1.3
        //# A client MUST NOT include a token that is not applicable to the server that it is
        //# connecting to, unless the client has the knowledge that the server that issued the token
        //# and the server the client is connecting to are jointly managing the tokens.
        //= specs/rfc9000.txt#section-8.1.3
        //# A client SHOULD NOT reuse a token from a NEW_TOKEN frame for different connection
        //# attempts.
        let token = self.store.0.take(&self.server_name);
        // A store of somebody else's may hold anything.
        let token = token.filter(|token| token.len() <= limits::MAX_RETRY_TOKEN);
        token.unwrap_or_default()
    }
}

/// The tokens of one connection, whichever side it is.
#[derive(Default)]
pub(super) struct Tokens {
    /// On clients.
    kept: Option<Box<KeptTokens>>,
    /// On servers that give out tokens.
    new: Option<Box<NewTokens>>,
}

impl Tokens {
    /// Keeps those that the server gives. Returns the one for this connection, empty if there is none.
    pub(super) fn keep(&mut self, store: SharedTokenStore, server_name: &str) -> Bytes {
        let kept = KeptTokens {
            store,
            server_name: server_name.into(),
        };
        let token = kept.take();
        self.kept = Some(Box::new(kept));
        token
    }

    /// Gives the client so many at first.
    //= specs/rfc9000.txt#section-19.7
    //# Clients MUST NOT send NEW_TOKEN frames.
    pub(super) fn give(&mut self, tokens: &Arc<AddressTokens>, first: u32) {
        self.new = (first > 0).then(|| Box::new(NewTokens::new(Arc::clone(tokens), first)));
    }

    /// The client has proven to receive at this IP.
    pub(super) fn on_proven(&mut self, now: Instant, rng: &mut StdRng, ip: IpAddr) {
        if let Some(new) = &mut self.new {
            new.on_proven(now, rng, ip);
        }
    }

    /// A NEW_TOKEN frame.
    pub(super) fn on_new_token(&self, side: Side, token: &[u8]) -> Result<(), TransportError> {
        //= specs/rfc9000.txt#section-19.7
        //# A server MUST treat receipt of a NEW_TOKEN frame as a connection error of type
        //# PROTOCOL_VIOLATION.
        if side == Side::Server {
            return Err(TransportError::protocol_violation(
                "NEW_TOKEN from a client",
            ));
        }
        // One that is longer leaves no room for anything else in an Initial packet.
        //= specs/rfc9001.txt#section-9.2
        //# These MUST NOT be used to communicate application semantics between endpoints; clients
        //# MUST treat them as opaque values.
        if let Some(kept) = &self.kept
            && token.len() <= limits::MAX_RETRY_TOKEN
        {
            let token = Bytes::copy_from_slice(token);
            kept.store.0.insert(&kept.server_name, token);
        }
        Ok(())
    }

    pub(super) fn can_send(&self) -> bool {
        self.new.as_ref().is_some_and(|new| new.can_send())
    }

    pub(super) fn fill(&mut self, w: &mut FrameWriter<'_>) {
        if let Some(new) = &mut self.new {
            new.fill(w);
        }
    }

    pub(super) fn on_acked(&mut self, number: u32) {
        if let Some(new) = &mut self.new {
            new.on_acked(number);
        }
    }

    pub(super) fn on_lost(&mut self, number: u32) {
        if let Some(new) = &mut self.new {
            new.on_lost(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn new_tokens(first: u32) -> NewTokens {
        NewTokens::new(Arc::new(AddressTokens::new(&[1; 32], None)), first)
    }

    /// Packets of 1200 bytes until nothing is left: the numbers in each.
    fn sent(tokens: &mut NewTokens) -> Vec<u32> {
        let mut numbers = Vec::new();
        while tokens.can_send() {
            let mut buf = Vec::new();
            let mut w = FrameWriter::new(&mut buf, 1200);
            tokens.fill(&mut w);
            assert!(w.is_ack_eliciting());
            numbers.extend(w.frames.iter().map(|frame| match *frame {
                SentFrame::NewToken(number) => number,
                other => panic!("{other:?}"),
            }));
        }
        numbers
    }

    //= specs/rfc9000.txt#section-13.3
    //= type=test
    //# * NEW_TOKEN frames are retransmitted if the packet containing them is lost.
    #[test]
    fn lost_tokens_are_sent_again_until_acknowledged() {
        let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(1));
        let mut tokens = new_tokens(2);
        assert!(!tokens.can_send());
        tokens.on_proven(now, &mut rng, [192, 0, 2, 1].into());
        assert_eq!(sent(&mut tokens), [0, 1]);
        let before = tokens.open[1].token.clone();
        tokens.on_lost(1);
        assert_eq!(sent(&mut tokens), [1]);
        assert_eq!(tokens.open[1].token, before);
        tokens.on_acked(1);
        tokens.on_acked(0);
        tokens.on_lost(1);
        assert!(!tokens.can_send() && tokens.open.is_empty());
        // No room: the next packet carries them.
        tokens.on_proven(now, &mut rng, [192, 0, 2, 2].into());
        let mut buf = Vec::new();
        tokens.fill(&mut FrameWriter::new(&mut buf, 40));
        assert!(buf.is_empty() && tokens.can_send());
    }

    /// A peer that proves address after address, and acknowledges nothing.
    #[test]
    fn addresses_and_tokens_are_bounded() {
        let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(1));
        let mut tokens = new_tokens(2);
        for n in 0..100_000_u32 {
            tokens.on_proven(now, &mut rng, IpAddr::from(n.to_be_bytes()));
        }
        assert_eq!(tokens.addresses.len(), limits::MAX_TOKEN_ADDRESSES);
        assert_eq!(tokens.open.len(), limits::MAX_NEW_TOKENS as usize);
        assert_eq!(sent(&mut tokens).len(), limits::MAX_NEW_TOKENS as usize);
        let mut tokens = new_tokens(u32::MAX);
        tokens.on_proven(now, &mut rng, IpAddr::from([1; 4]));
        assert_eq!(tokens.open.len(), limits::MAX_NEW_TOKENS as usize);
    }
}
