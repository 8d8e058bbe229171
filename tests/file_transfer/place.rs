//! A server and a client in one process: their directories, their certificate, and the addresses between them.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;
use mpquic::{Connection, Endpoint, SendStream, TransportConfig};
use tempfile::TempDir;

use crate::report::Report;
use crate::{file_client, file_service, protocol, server_config};

/// The addresses of servers: two networks, as far as a connection can tell. Only Linux accepts all
/// of 127.0.0.0/8 without configuration.
pub(crate) const ADDRESSES: [&str; 2] = [
    "127.0.0.1:0",
    if cfg!(target_os = "linux") {
        "127.0.0.2:0"
    } else {
        "127.0.0.1:0"
    },
];

/// Directories for a server and a client, and their addresses.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    servers: Vec<SocketAddr>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("root")).unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        Self {
            dir,
            servers: Vec::new(),
        }
    }

    /// With a file server that runs as long as the test.
    pub(crate) fn with_file_server() -> Self {
        let mut place = Self::new();
        let [ca, root] = [place.ca(), place.dir.path().join("root")];
        let mut arguments = vec!["file_server", "--cert-out", ca.to_str().unwrap()];
        arguments.extend(["--root", root.to_str().unwrap()]);
        arguments.extend(ADDRESSES.iter().flat_map(|address| ["--listen", address]));
        let arguments = file_service::Arguments::try_parse_from(arguments).unwrap();
        let server = file_service::Server::start(&arguments).unwrap();
        place.servers = server.endpoint.local_addrs();
        tokio::spawn(server.run(std::future::pending()));
        place
    }

    /// With a server that answers the first request with `answer`.
    pub(crate) fn with_answer<F>(
        answer: impl FnOnce(Connection, SendStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let mut place = Self::new();
        let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(place.ca(), identity.cert.pem()).unwrap();
        let config = server_config::server_config(&identity, TransportConfig::default()).unwrap();
        let addresses = ADDRESSES.map(|address| address.parse().unwrap());
        let endpoint = Endpoint::server(config, &addresses).unwrap();
        place.servers = endpoint.local_addrs();
        tokio::spawn(async move {
            let connection = endpoint.accept().await.unwrap().await.unwrap();
            let (send, mut recv) = connection.accept_bi().await.unwrap();
            recv.read_to_end(protocol::MAX_HEADER).await.unwrap();
            answer(connection.clone(), send).await;
            connection.closed().await;
        });
        place
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        std::fs::write(self.dir.path().join("root").join(name), content).unwrap();
    }

    /// A `--path` option for each address of the server.
    pub(crate) fn two_paths(&self) -> [String; 4] {
        let path = |index: usize| {
            let server = self.servers[index];
            format!("{}={server}", server.ip())
        };
        ["--path".into(), path(0), "--path".into(), path(1)]
    }

    /// Downloads `name` to `out/file`. Returns the reports, and the error's exit code and text.
    pub(crate) async fn download(
        &self,
        name: &str,
        more: &[impl AsRef<str>],
    ) -> (Vec<Report>, Result<(), (u8, String)>) {
        let server = self.servers[0].to_string();
        let [ca, out] = [self.ca(), self.out().join("file")];
        let mut arguments = vec!["file_download", "--server", &server, name, "--json"];
        arguments.extend(["--out", out.to_str().unwrap()]);
        arguments.extend(more.iter().map(AsRef::as_ref));
        if !arguments.contains(&"--ca") {
            arguments.extend(["--ca", ca.to_str().unwrap()]);
        }
        let arguments = file_client::Arguments::try_parse_from(arguments).unwrap();
        let reports = RefCell::new(Vec::new());
        let show = |report: &Report| reports.borrow_mut().push(report.clone());
        let result = file_client::run(&arguments, show).await;
        let result = result.map_err(|error| (error.exit_code(), error.to_string()));
        if let Err((_, text)) = &result {
            assert!(!text.contains('\n'), "one line: {text:?}");
        }
        (reports.into_inner(), result)
    }

    /// Asserts that a download fails in this way and leaves no files behind.
    pub(crate) async fn fails(&self, name: &str, more: &[impl AsRef<str>], code: u8, text: &str) {
        std::fs::write(self.out().join("file"), b"old").unwrap();
        let (_, result) = self.download(name, more).await;
        let (actual_code, actual_text) = result.unwrap_err();
        assert_eq!(actual_code, code, "{actual_text}");
        assert!(
            actual_text.contains(text),
            "{actual_text:?}, expected {text:?}"
        );
        assert_eq!(names(&self.out()), ["file"], "{text}");
        assert_eq!(std::fs::read(self.out().join("file")).unwrap(), b"old");
    }
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}
