//! A server behind emulated links, all on the loopback interface of this machine.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use mpquic::rustls::RootCertStore;
use mpquic::sched::Learned;
use mpquic::sched::memory::Store;
use mpquic::sched::record::Recorder;
use mpquic::{
    ClientConfig, ConfigError, CongestionControl, Connection, Endpoint, PathMemory,
    TransportConfig, VarInt,
};
use mpquic_sim::Relay;
use thiserror::Error;

use crate::link::LinkArgument;
use crate::schedulers::{Choice, ChoiceError};
use crate::server_config::server_config;
use crate::session::{Client, Route, client_config};

/// The name in the server's certificate.
const SERVER_NAME: &str = "localhost";
/// An address of this machine with any port.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Why the lab could not be set up.
#[derive(Debug, Error)]
pub(crate) enum LabError {
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Scheduler(#[from] ChoiceError),
    #[error("cannot set up the server or a link: {0}")]
    Io(#[from] io::Error),
}

/// The settings of both sides for sending.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) scheduler: &'a Choice,
    pub(crate) congestion: CongestionControl,
    /// The memory of the server, which is the sender.
    pub(crate) memory: Option<&'a Store>,
    /// What the server remembers of the paths, for the next connections.
    pub(crate) path_memory: Option<&'a Store>,
    /// The recorder of the server.
    pub(crate) recorder: Option<&'a Recorder>,
    /// The largest number of paths.
    pub(crate) paths: usize,
    /// The seed of all randomness in the links.
    pub(crate) seed: u64,
}

/// A server, and what a client needs to trust it. Dropping it stops the server.
pub(crate) struct Lab {
    endpoint: Endpoint,
    client: ClientConfig,
    seed: u64,
    /// The server's end of the newest connection.
    newest: Arc<Mutex<Option<Connection>>>,
}

impl Lab {
    /// Starts a server that runs `serve` for each connection.
    pub(crate) fn start<S, F>(terms: Terms<'_>, serve: S) -> Result<Self, LabError>
    where
        S: Fn(Connection) -> F + Clone + Send + 'static,
        F: Future<Output: Send> + Send + 'static,
    {
        let Terms { paths, .. } = terms;
        let transport = |memory, recorder| -> Result<TransportConfig, LabError> {
            let mut transport = TransportConfig::default();
            transport.scheduler(terms.scheduler.factory(memory, recorder)?);
            transport.congestion(terms.congestion);
            transport.max_paths(u32::try_from(paths).unwrap_or(u32::MAX));
            Ok(transport)
        };
        let identity = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
        let mut sender = transport(terms.memory, terms.recorder)?;
        let path_memory = terms.path_memory.cloned();
        sender.path_memory(path_memory.map(|store| Arc::new(store) as Arc<dyn PathMemory>));
        let config = server_config(&identity, sender)?;
        let endpoint = Endpoint::server(config, &addresses(paths))?;

        let newest = Arc::<Mutex<Option<Connection>>>::default();
        let (server, shared) = (endpoint.clone(), Arc::clone(&newest));
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                let (newest, serve) = (Arc::clone(&shared), serve.clone());
                tokio::spawn(async move {
                    // If the handshake fails, the client reports it.
                    if let Ok(connection) = incoming.await {
                        *newest.lock().unwrap_or_else(PoisonError::into_inner) =
                            Some(connection.clone());
                        serve(connection).await;
                    }
                });
            }
        });

        let mut roots = RootCertStore::empty();
        let added = roots.add(identity.cert.der().clone());
        added.map_err(|error| ConfigError::Tls(error.to_string()))?;
        Ok(Self {
            endpoint,
            client: client_config(roots, transport(None, None)?)?,
            seed: terms.seed,
            newest,
        })
    }

    /// A client with a path over each of these links, and the links. The links are new: earlier
    /// downloads leave nothing in their queues. They exist until they are dropped.
    ///
    /// Each link is given with its position among all links, by which the server identifies it.
    pub(crate) fn client(
        &self,
        links: &[(usize, &LinkArgument)],
    ) -> Result<(Client, Vec<Relay>), LabError> {
        let servers = self.endpoint.local_addrs();
        let mut relays = Vec::new();
        let mut routes = Vec::new();
        for (index, (place, link)) in (0..).zip(links) {
            let server = servers[place % servers.len()];
            let (up, down) = (link.config.clone(), link.config.clone());
            let relay = Relay::spawn(LOOPBACK, server, up, down, self.seed.wrapping_add(index))?;
            // The client only knows the relays' addresses. To the server, the client has as many
            // addresses as there are relays.
            routes.push(Route {
                name: link.name.clone(),
                local: LOOPBACK,
                remote: relay.addr(),
            });
            relays.push(relay);
        }
        let client = Client {
            config: self.client.clone(),
            server_name: SERVER_NAME.to_owned(),
            routes,
        };
        Ok((client, relays))
    }
}

impl Lab {
    /// Closes the newest connection, unless the client has closed it, and returns what its
    /// scheduler has learned. After this, the memory has it, too.
    pub(crate) fn hang_up(&self) -> Option<Learned> {
        let newest = self
            .newest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        newest.close(VarInt::from_u32(0), b"");
        newest.learned()
    }
}

/// The server's addresses: one per path. A later run, with different ports, can identify the paths
/// by them. Only Linux accepts all of 127.0.0.0/8 without configuration. On other systems, nothing
/// is remembered about pairs of paths.
fn addresses(paths: usize) -> Vec<SocketAddr> {
    let last = if cfg!(target_os = "linux") { paths } else { 1 };
    let host = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    let hosts = (1..=u8::MAX).map(host).take(last.max(1));
    hosts.map(|host| SocketAddr::new(host, 0)).collect()
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.endpoint.close(VarInt::from_u32(0), b"");
    }
}
