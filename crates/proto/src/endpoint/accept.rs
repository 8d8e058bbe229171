//! Accepts incoming connections in three steps, of which the one that does the work of TLS needs no endpoint.

use std::sync::Arc;
use std::time::Instant;

use mpquic_sched_core::TransportErrorCode;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::half_open::Share;
use super::{AcceptError, ConnectionEvent, Endpoint, EndpointEvent, Incoming, answer_to};
use crate::cid::ResetKey;
use crate::memory::Memory;
use crate::shards::{Census, Counted};
use crate::token::AddressTokens;
use crate::{
    Connection, ConnectionError, ConnectionHandle, EndpointConfig, ServerConfig, TransportError,
};

/// An incoming connection that is to be accepted, away from its [`Endpoint`]: see
/// [`Endpoint::prepare_accept`].
#[must_use = "run it, then pass the outcome to the endpoint"]
pub struct AcceptJob {
    incoming: Incoming,
    server: Arc<ServerConfig>,
    endpoint: Arc<EndpointConfig>,
    reset_key: Arc<ResetKey>,
    tokens: Arc<AddressTokens>,
    memory: Arc<Memory>,
    census: Arc<Census>,
    rng: StdRng,
}

/// What became of an [`AcceptJob`]; pass it to [`Endpoint::finish_accept`].
#[must_use = "pass it to the endpoint"]
pub struct AcceptOutcome {
    incoming: Incoming,
    result: Result<Box<Connection>, Failure>,
}

/// Why there is no connection, and the packet that tells the client.
struct Failure {
    cause: ConnectionError,
    answer: Vec<u8>,
}

/// An accepted connection.
#[derive(Debug)]
#[non_exhaustive]
pub struct Accepted {
    /// Its handle.
    pub handle: ConnectionHandle,
    /// The connection.
    pub connection: Connection,
    /// What came while it was being accepted: to be passed to the connection now.
    pub datagrams: Vec<ConnectionEvent>,
}

impl Endpoint {
    /// Accepts an incoming connection, with the endpoint's server configuration or another. Does the work of
    /// TLS; a driver with several tasks calls [`prepare_accept`](Self::prepare_accept) instead.
    ///
    /// # Errors
    ///
    /// If there is no server configuration, or if the first datagram already ends the connection:
    /// no Initial packet in it could be decrypted, or what it says breaks the protocol, or TLS
    /// refuses. Nothing of the connection is kept then but the packet that ends it, which is sent
    /// again to a client that goes on. Also if it waited for longer than
    /// [`ServerConfig::handshake_timeout`].
    #[expect(
        clippy::result_large_err,
        reason = "a Connection, returned otherwise, is larger by far"
    )]
    pub fn accept(
        &mut self,
        incoming: Incoming,
        now: Instant,
        buf: &mut Vec<u8>,
        server: Option<Arc<ServerConfig>>,
    ) -> Result<(ConnectionHandle, Connection), AcceptError> {
        let outcome = self.prepare_accept(incoming, buf, server)?.run(now);
        let Accepted {
            handle,
            mut connection,
            datagrams,
        } = self.finish_accept(now, outcome, buf)?;
        for datagram in datagrams {
            connection.handle_event(datagram);
        }
        self.take_events(handle, &mut connection);
        Ok((handle, connection))
    }

    /// Begins to accept an incoming connection: the first of three steps, of which the second needs no
    /// endpoint. The work of TLS, hundreds of microseconds, is in that step, so that an endpoint behind a
    /// mutex goes on routing meanwhile. Until the third step the endpoint keeps what comes for the
    /// connection, as it does for every [`Incoming`].
    ///
    /// ```
    /// # use std::{sync::Arc, time::Instant};
    /// # use mpquic_proto::{AcceptError, Accepted, Endpoint, Incoming};
    /// # use std::sync::Mutex;
    /// # fn run(endpoint: &Mutex<Endpoint>, incoming: Incoming, now: Instant) -> Result<(), AcceptError> {
    /// let mut answer = Vec::new();
    /// let job = endpoint.lock().unwrap().prepare_accept(incoming, &mut answer, None)?;
    /// let outcome = job.run(now); // the mutex is free
    /// let accepted = endpoint.lock().unwrap().finish_accept(now, outcome, &mut answer)?;
    /// let mut connection = accepted.connection;
    /// for datagram in accepted.datagrams {
    ///     connection.handle_event(datagram);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no server configuration.
    #[expect(
        clippy::result_large_err,
        reason = "an AcceptJob, returned otherwise, is larger"
    )]
    pub fn prepare_accept(
        &mut self,
        incoming: Incoming,
        buf: &mut Vec<u8>,
        server: Option<Arc<ServerConfig>>,
    ) -> Result<AcceptJob, AcceptError> {
        let Some(server) = server.or_else(|| self.server.clone()) else {
            let response = self.refuse(incoming, buf);
            return Err(AcceptError {
                cause: ConnectionError::TransportError(TransportError::new(
                    TransportErrorCode::CONNECTION_REFUSED,
                    "no server configuration",
                )),
                response: (response.size > 0).then_some(response),
            });
        };
        Ok(AcceptJob {
            incoming,
            server,
            endpoint: Arc::clone(&self.config),
            reset_key: Arc::clone(&self.reset_key),
            tokens: Arc::clone(&self.tokens),
            memory: Arc::clone(&self.memory),
            census: Arc::clone(&self.census),
            rng: StdRng::from_rng(&mut self.rng),
        })
    }

    /// Takes in what became of an [`AcceptJob`]: routes the connection's datagrams to it from now on.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept).
    #[expect(
        clippy::result_large_err,
        reason = "a Connection, returned otherwise, is larger by far"
    )]
    pub fn finish_accept(
        &mut self,
        now: Instant,
        outcome: AcceptOutcome,
        buf: &mut Vec<u8>,
    ) -> Result<Accepted, AcceptError> {
        let AcceptOutcome { incoming, result } = outcome;
        let Some(mut datagrams) = self.forget(&incoming) else {
            return Err(AcceptError {
                cause: ConnectionError::TimedOut,
                response: None,
            });
        };
        let mut connection = match result {
            Ok(connection) => connection,
            Err(Failure { cause, answer }) => {
                let response = answer_to(incoming.network_path, answer.len());
                buf.extend_from_slice(&answer);
                self.keep_answer(now, &incoming, answer);
                return Err(AcceptError {
                    cause,
                    response: (response.size > 0).then_some(response),
                });
            }
        };
        let handle = self.register(Some(Share::default()));
        // The client goes on using the ID that it made up until it has seen ours (section 7.2), so
        // its repeated Initials must find the connection. The connection retires it.
        self.handle_event(handle, EndpointEvent::AddCid(incoming.dcid));
        self.take_events(handle, &mut connection);
        for datagram in &mut datagrams {
            // They have waited; the connection begins now. Time must not run backwards for it.
            datagram.now = now;
        }
        Ok(Accepted {
            handle,
            connection: *connection,
            datagrams,
        })
    }
}

impl AcceptJob {
    /// Makes the connection and has it process the client's first datagram: derives keys, reads the
    /// ClientHello, signs.
    pub fn run(self, now: Instant) -> AcceptOutcome {
        let Self {
            mut incoming,
            server,
            endpoint,
            reset_key,
            tokens,
            memory,
            census,
            rng,
        } = self;
        //= specs/rfc9000.txt#section-7.2
        //# A server MUST set the Destination Connection ID it uses for sending packets based on the
        //# first received Initial packet.
        let attempt = incoming.attempt();
        let counted = Counted::new(
            &census,
            server.connection_limits(),
            incoming.network_path.remote,
        );
        let connection = Connection::new_server(
            now, &server, &endpoint, &attempt, rng, reset_key, &tokens, &memory, counted,
        );
        let result = match connection {
            Ok(mut connection) => {
                connection.handle_event(ConnectionEvent::single(
                    now,
                    incoming.network_path,
                    incoming.ecn,
                    std::mem::take(&mut incoming.datagram),
                ));
                if connection.is_closed() || !connection.handshake.is_heard() {
                    let mut answer = Vec::new();
                    let _ = connection.poll_transmit(now, 1, &mut answer);
                    let cause = connection.lost_reason().cloned();
                    let cause = cause.unwrap_or(ConnectionError::LocallyClosed);
                    Err(Failure { cause, answer })
                } else {
                    Ok(Box::new(connection))
                }
            }
            Err(error) => Err(Failure {
                cause: ConnectionError::TransportError(error),
                answer: Vec::new(),
            }),
        };
        AcceptOutcome { incoming, result }
    }
}

impl std::fmt::Debug for AcceptJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AcceptJob")
            .field("incoming", &self.incoming)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AcceptOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AcceptOutcome")
            .field("incoming", &self.incoming)
            .field("accepted", &self.result.is_ok())
            .finish()
    }
}
