//! The file server: its command line, its errors, and its work.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use mpquic::sched::memory::{MemoryError, Store};
use mpquic::sched::record::{RecordError, Recorder};
use mpquic::{
    ConfigError, ConnectionError, Endpoint, Incoming, ServerConfig, TransportConfig, VarInt,
};
use thiserror::Error;
use tokio::fs::File;

use crate::arguments::USAGE;
use crate::files::Files;
use crate::memory::Memory;
use crate::recording;
use crate::schedulers::{Choice, ChoiceError};
use crate::serve::{Answer, Service, serve};
use crate::server_config::server_config;
use crate::switch::{Slot, Switchable};

/// How long clients have to acknowledge the close when the server stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// The error code with which a stopping server closes its connections.
const STOPPED: VarInt = VarInt::from_u32(3);

const EXAMPLES: &str = "\
Examples:
  Serve the current directory to this machine:
    file_server --cert-out server.pem

  Serve /srv/files on two networks, with one socket each:
    file_server --listen 192.0.2.1:4433 --listen 198.51.100.1:4433 \\
                --root /srv/files --cert-out server.pem

  Use a scheduler that learns, and keep what it learns about each client's paths across restarts:
    file_server --cert-out server.pem --scheduler peekaboo --memory learned.json

Exit status:
  0  stopped by Ctrl-C or SIGTERM
  1  cannot serve, or cannot write the memory or the recording
  2  the command line is wrong";

/// Serves the files of a directory over multipath QUIC.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The address to listen on; repeat the option for more. Port 0 is any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433")]
    listen: Vec<SocketAddr>,

    /// The directory whose files anyone may download.
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,

    /// Where to write the server's certificate (PEM), for `--ca` of the clients. It is generated at
    /// each start, for `localhost` and the IP addresses that the server listens on.
    #[arg(long, value_name = "FILE")]
    pub(crate) cert_out: PathBuf,

    /// Another name or IP address for the certificate, such as the machine's host name; repeat the
    /// option for more.
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,

    /// The packet scheduler for clients that do not ask for one.
    #[arg(long, value_name = "NAME", default_value = "minrtt")]
    scheduler: String,

    /// The scheduler's configuration, a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    scheduler_config: String,

    /// The file in which schedulers keep what they learn about the paths to each client. It is read
    /// at the start and written at the end. An invalid file is renamed to FILE.refused, and
    /// learning starts afresh. Without this option, the server forgets everything when it stops.
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,

    /// Record what learning schedulers experience (states, actions, rewards) for training. The file
    /// takes at most 64 MiB; after that, the oldest records are dropped. An earlier recording is
    /// renamed to FILE.1.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Scheduler(#[from] ChoiceError),
    #[error("--root {path}: {source}", path = path.display())]
    Root { path: PathBuf, source: io::Error },
    #[error("--cert-out {path}: {source}", path = path.display())]
    CertOut { path: PathBuf, source: io::Error },
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Error {
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Scheduler(_) | Self::Root { .. } | Self::CertOut { .. } => USAGE,
            Self::Certificate(_)
            | Self::Config(_)
            | Self::Io(_)
            | Self::Memory(_)
            | Self::Record(_) => 1,
        }
    }
}

/// A server that is listening.
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    config: ServerConfig,
    scheduler: Choice,
    files: Files,
    /// What schedulers have learned about the paths to earlier clients.
    store: Store,
    /// The same, if it is kept in a file.
    memory: Option<Memory>,
    recorder: Option<Recorder>,
}

impl Server {
    /// Starts to listen, and writes the certificate that clients need.
    pub(crate) fn start(arguments: &Arguments) -> Result<Self, Error> {
        let scheduler = Choice::parse(&arguments.scheduler, &arguments.scheduler_config)?;
        let recorder = arguments
            .record
            .as_deref()
            .map(recording::begin)
            .transpose()?;
        let files = Files::new(&arguments.root).map_err(|source| Error::Root {
            path: arguments.root.clone(),
            source,
        })?;
        let identity = rcgen::generate_simple_self_signed(certificate_names(arguments))?;
        let config = server_config(&identity, TransportConfig::default())?;
        let endpoint = Endpoint::server(config.clone(), &arguments.listen)?;
        // Clients can connect as soon as the file exists.
        let written = std::fs::write(&arguments.cert_out, identity.cert.pem());
        written.map_err(|source| Error::CertOut {
            path: arguments.cert_out.clone(),
            source,
        })?;
        let memory = arguments.memory.as_deref().map(Memory::load_or_tell);
        Ok(Self {
            endpoint,
            config,
            scheduler,
            files,
            store: memory
                .as_ref()
                .map_or_else(Store::new, |memory| memory.store.clone()),
            memory,
            recorder,
        })
    }

    /// Serves until `stop` is ready. Then closes the connections, and saves what was learned.
    pub(crate) async fn run(self, stop: impl Future<Output = io::Result<()>>) -> Result<(), Error> {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                incoming = self.endpoint.accept() => {
                    let Some(incoming) = incoming else { break };
                    tokio::spawn(client(
                        incoming,
                        self.config.clone(),
                        self.scheduler.clone(),
                        self.files.clone(),
                        self.store.clone(),
                        self.recorder.clone(),
                    ));
                }
                result = &mut stop => {
                    result?;
                    break;
                }
            }
        }
        self.endpoint.close(STOPPED, b"the server stops");
        // A client that does not respond learns of the end by its idle timeout.
        let _ = tokio::time::timeout(FAREWELL, self.endpoint.wait_idle()).await;
        // A connection's scheduler hands over what it has learned when the connection closes.
        if let Some(memory) = &self.memory {
            memory.save()?;
        }
        if let Some(recorder) = &self.recorder {
            recording::end(recorder)?;
        }
        Ok(())
    }
}

/// Serves a client until its connection ends.
async fn client(
    incoming: Incoming,
    config: ServerConfig,
    scheduler: Choice,
    files: Files,
    store: Store,
    recorder: Option<Recorder>,
) {
    let remote = incoming.remote_address();
    match connection(incoming, config, &scheduler, files, store, recorder).await {
        Ok(reason) => println!("{remote}: {reason}"),
        Err(error) => println!("{remote}: cannot be served: {error}"),
    }
}

/// Serves a client. Returns why its connection ended.
async fn connection(
    incoming: Incoming,
    mut config: ServerConfig,
    scheduler: &Choice,
    files: Files,
    store: Store,
    recorder: Option<Recorder>,
) -> Result<ConnectionError, Error> {
    let remote = incoming.remote_address();
    // Each connection has its own slot, into which a request can put another scheduler. A server
    // whose clients cannot choose would use the endpoint's configuration instead.
    let slot = Slot::default();
    let mut transport = TransportConfig::default();
    let first = scheduler.factory(Some(&store), recorder.as_ref())?;
    let for_scheduler = slot.clone();
    transport.scheduler(move || Box::new(Switchable::new(first.make(), for_scheduler.clone())));
    config.transport(Arc::new(transport));

    let connection = match incoming.accept_with(Arc::new(config)) {
        Ok(connecting) => match connecting.await {
            Ok(connection) => connection,
            Err(reason) => return Ok(reason),
        },
        Err(reason) => return Ok(reason),
    };
    println!("{remote}: connected");
    let service = FileService {
        remote,
        files,
        slot,
        store,
        recorder,
    };
    let reason = serve(connection.clone(), Arc::new(service)).await;
    if let Some(learned) = connection.learned() {
        println!("{remote}: learned by {learned}");
    }
    Ok(reason)
}

/// Serves files to one client.
struct FileService {
    remote: SocketAddr,
    files: Files,
    slot: Slot,
    store: Store,
    recorder: Option<Recorder>,
}

impl Service for FileService {
    type Body = File;

    async fn open(&self, name: &str) -> Result<(File, u64), String> {
        self.files
            .open(name)
            .await
            .map_err(|error| error.to_string())
    }

    fn choose(&self, choice: &Choice) -> Result<(), String> {
        // A text could name a file on this machine, and it comes from an untrusted client.
        let mut values = choice
            .config()
            .as_object()
            .into_iter()
            .flat_map(|all| all.values());
        if !values.all(|value| value.is_number() || value.is_boolean()) {
            return Err("clients may configure a scheduler with numbers and booleans only".into());
        }
        let factory = choice
            .factory(Some(&self.store), self.recorder.as_ref())
            .map_err(|error| error.to_string())?;
        self.slot.put(factory.make());
        println!(
            "{}: scheduler {} {}",
            self.remote,
            choice.name(),
            choice.config()
        );
        Ok(())
    }

    fn answered(&self, answer: &Answer) {
        println!("{}: {answer}", self.remote);
    }
}

/// The names in the certificate. A wildcard address stands for the machine, of which only the
/// loopback addresses are known; `--name` adds others.
fn certificate_names(arguments: &Arguments) -> Vec<String> {
    let mut names = vec!["localhost".to_owned()];
    for listen in &arguments.listen {
        names.push(match listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V6(ip) if ip.is_unspecified() => "::1".to_owned(),
            ip => ip.to_string(),
        });
    }
    names.extend(arguments.name.iter().cloned());
    names.sort();
    names.dedup();
    names
}
