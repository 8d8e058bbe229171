//! A client that wants to connect: the application accepts, refuses or ignores it.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use proto::{ConnectionError, FourTuple, ServerConfig};
use tokio::runtime::Handle;

use crate::connection::{Connecting, Connection};
use crate::endpoint::Endpoint;
use crate::endpoint_state::EndpointShared;

/// A client that wants to connect: [accept](Self::accept), [refuse](Self::refuse) or
/// [ignore](Self::ignore) it, or have it prove its address first ([retry](Self::retry)). Dropping it ignores it;
/// awaiting it accepts it.
///
/// ```no_run
/// # // no_run: it serves until the endpoint is closed.
/// # async fn run(endpoint: mpquic::Endpoint) {
/// while let Some(incoming) = endpoint.accept().await {
///     tokio::spawn(async move {
///         match incoming.await {
///             Ok(connection) => println!("hello, {}", connection.remote_address()),
///             Err(error) => eprintln!("handshake failed: {error}"),
///         }
///     });
/// }
/// # }
/// ```
#[must_use = "dropping an incoming connection ignores it"]
pub struct Incoming {
    /// Taken by whichever way it goes.
    inner: Option<(proto::Incoming, Endpoint)>,
    /// Of the endpoint, the one that received it.
    shard: Arc<EndpointShared>,
    network_path: FourTuple,
    validated: bool,
    may_retry: bool,
}

impl Incoming {
    pub(crate) fn new(
        incoming: proto::Incoming,
        endpoint: Endpoint,
        shard: Arc<EndpointShared>,
    ) -> Self {
        Self {
            shard,
            network_path: incoming.network_path(),
            validated: incoming.remote_address_validated(),
            may_retry: incoming.may_retry(),
            inner: Some((incoming, endpoint)),
        }
    }

    /// Where it comes from.
    pub const fn remote_address(&self) -> SocketAddr {
        self.network_path.remote
    }

    /// The local address that it contacted. The IP is known even on a wildcard socket.
    pub const fn local_address(&self) -> SocketAddr {
        self.network_path.local
    }

    /// Whether the client has proven that it receives at [`remote_address`](Self::remote_address), by a token of a
    /// Retry packet or of an earlier connection (RFC 9000 section 8.1). Otherwise its first packet can come from
    /// anybody, with any address.
    ///
    /// If this is false, [`may_retry`](Self::may_retry) is true.
    pub const fn remote_address_validated(&self) -> bool {
        self.validated
    }

    /// Whether [`retry`](Self::retry) is possible: unless the client has answered a Retry packet already.
    pub const fn may_retry(&self) -> bool {
        self.may_retry
    }

    /// The runtime on which the tasks of its connection will run: see
    /// [`EndpointBuilder::shards_on`](crate::EndpointBuilder::shards_on). Who accepts it there has TLS work there.
    pub fn runtime(&self) -> &Handle {
        &self.shard.runtime
    }

    /// Has the client prove its address first, with a Retry packet: it begins again, a round trip later, and is
    /// another `Incoming` then. Nothing is kept until it does.
    ///
    /// The endpoint does this by itself under load ([`ServerConfig::retry_above`]).
    ///
    /// ```no_run
    /// # // no_run: waits for clients
    /// # async fn run(endpoint: mpquic::Endpoint) {
    /// while let Some(incoming) = endpoint.accept().await {
    ///     if !incoming.remote_address_validated() {
    ///         incoming.retry().expect("not answered a Retry packet yet");
    ///         continue;
    ///     }
    ///     tokio::spawn(incoming.into_future());
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the client has answered a Retry packet already. [`RetryError::into_incoming`] gives it back.
    pub fn retry(mut self) -> Result<(), RetryError> {
        let Some((incoming, endpoint)) = self.inner.take() else {
            return Ok(());
        };
        self.shard.retry(incoming).map_err(|error| {
            let incoming = error.into_incoming();
            RetryError(Box::new(Self::new(
                incoming,
                endpoint.clone(),
                Arc::clone(&self.shard),
            )))
        })
    }

    /// Continues the handshake.
    ///
    /// # Errors
    ///
    /// If its first packet was invalid. The client has been answered.
    pub fn accept(self) -> Result<Connecting, ConnectionError> {
        self.accept_inner(None)
    }

    /// Continues the handshake with this configuration instead of the endpoint's.
    ///
    /// # Errors
    ///
    /// If its first packet was invalid. The client has been answered.
    pub fn accept_with(self, config: Arc<ServerConfig>) -> Result<Connecting, ConnectionError> {
        self.accept_inner(Some(config))
    }

    fn accept_inner(
        mut self,
        config: Option<Arc<ServerConfig>>,
    ) -> Result<Connecting, ConnectionError> {
        match self.inner.take() {
            Some((incoming, _endpoint)) => self.shard.accept(incoming, config),
            None => Err(ConnectionError::LocallyClosed),
        }
    }

    /// Refuses the connection (CONNECTION_REFUSED).
    pub fn refuse(mut self) {
        if let Some((incoming, _endpoint)) = self.inner.take() {
            self.shard.refuse(incoming);
        }
    }

    /// Sends no answer.
    pub fn ignore(self) {}
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some((incoming, _endpoint)) = self.inner.take() {
            self.shard.ignore(incoming);
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("network_path", &self.network_path)
            .finish_non_exhaustive()
    }
}

/// The client has answered a Retry packet already; it accepts no second one (RFC 9000 section 17.2.5.2).
#[derive(Debug, thiserror::Error)]
#[error("the client has answered a Retry packet already, accept, refuse or ignore it")]
pub struct RetryError(Box<Incoming>);

impl RetryError {
    /// The client, as it was.
    pub fn into_incoming(self) -> Incoming {
        *self.0
    }
}

impl IntoFuture for Incoming {
    type Output = Result<Connection, ConnectionError>;
    type IntoFuture = IncomingFuture;

    fn into_future(self) -> IncomingFuture {
        IncomingFuture(self.accept())
    }
}

/// A future of the [`Connection`] of an accepted [`Incoming`].
#[derive(Debug)]
pub struct IncomingFuture(Result<Connecting, ConnectionError>);

impl Future for IncomingFuture {
    type Output = Result<Connection, ConnectionError>;

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        match &mut self.0 {
            Ok(connecting) => Pin::new(connecting).poll(cx),
            Err(error) => std::task::Poll::Ready(Err(error.clone())),
        }
    }
}
