//! A server behind emulated links, all on the loopback interface of this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mpquic::rustls::RootCertStore;
use mpquic::{ClientConfig, ConfigError, Endpoint, TransportConfig, VarInt};
use mpquic_sim::Relay;
use thiserror::Error;

use crate::content::Generator;
use crate::link::LinkArgument;
use crate::schedulers::{Choice, ChoiceError};
use crate::serve::{serve, server_config};
use crate::session::{Client, Route, client_config};

/// The name in the server's certificate.
const SERVER_NAME: &str = "localhost";
/// An address of this machine, any port.
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

/// A server, and what a client needs to trust it. Stops when dropped.
pub(crate) struct Lab {
    endpoint: Endpoint,
    client: ClientConfig,
    seed: u64,
}

impl Lab {
    /// Starts a server; its packets and the clients' are scheduled as chosen.
    pub(crate) fn start(
        content: Generator,
        scheduler: &Choice,
        paths: usize,
    ) -> Result<Self, LabError> {
        let transport = || -> Result<TransportConfig, LabError> {
            let mut transport = TransportConfig::default();
            transport.scheduler(scheduler.factory()?);
            transport.max_paths(u32::try_from(paths).unwrap_or(u32::MAX));
            Ok(transport)
        };
        let identity = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
        let endpoint = Endpoint::server(server_config(&identity, transport()?)?, &[LOOPBACK])?;

        let server = endpoint.clone();
        tokio::spawn(async move {
            let content = Arc::new(content);
            while let Some(incoming) = server.accept().await {
                let content = Arc::clone(&content);
                tokio::spawn(async move {
                    // If its handshake fails, the client reports it.
                    if let Ok(connection) = incoming.await {
                        serve(connection, content).await;
                    }
                });
            }
        });

        let mut roots = RootCertStore::empty();
        let added = roots.add(identity.cert.der().clone());
        added.map_err(|error| ConfigError::Tls(error.to_string()))?;
        Ok(Self {
            endpoint,
            client: client_config(roots, transport()?)?,
            seed: content.seed,
        })
    }

    /// A client with a path over each of these links, and the links. They are new ones: what was
    /// downloaded before leaves nothing in their queues. The links are there until dropped.
    pub(crate) fn client(&self, links: &[LinkArgument]) -> Result<(Client, Vec<Relay>), LabError> {
        let server = self.endpoint.local_addrs()[0];
        let mut relays = Vec::new();
        let mut routes = Vec::new();
        for (index, link) in (0..).zip(links) {
            let (up, down) = (link.config.clone(), link.config.clone());
            let relay = Relay::spawn(LOOPBACK, server, up, down, self.seed.wrapping_add(index))?;
            // The relay is all that the client sees of the server. To the server, the client has
            // as many addresses as there are relays.
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

impl Drop for Lab {
    fn drop(&mut self) {
        self.endpoint.close(VarInt::from_u32(0), b"");
    }
}
