//! Feature `platform-verifier`: whom the system trusts, and nobody else.
//!
//! The system's authorities are those of a file that `SSL_CERT_FILE` names. A process has one environment, so that each
//! case runs in a process of its own: this program again, with [`IDENTITY`] set.
#![cfg(all(unix, not(any(target_vendor = "apple", target_os = "android"))))]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{loopback, run};
use mpquic::rustls::pki_types::pem::PemObject;
use mpquic::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use mpquic::{ClientConfig, ConnectionError, Endpoint, ServerConfig};

/// Names a folder with the server's certificate and key; only in the environment of a child.
const IDENTITY: &str = "MPQUIC_TEST_IDENTITY";

/// What a child exits with.
const ACCEPTED: i32 = 10;
const REFUSED: i32 = 11;

/// A new certificate and its key in a folder of their own.
fn write_identity(parent: &Path, name: &str) -> PathBuf {
    let folder = parent.join(name);
    std::fs::create_dir(&folder).unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    folder
}

/// Connects to a server with this certificate, trusting what the system trusts.
async fn connect(folder: &Path) -> i32 {
    let chain = CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).unwrap();
    let config = ServerConfig::with_single_cert(vec![chain], key).unwrap();
    let server = Endpoint::server(config, &[loopback(1)]).unwrap();
    let client = Endpoint::client(&[loopback(1)]).unwrap();
    client.set_default_client_config(ClientConfig::with_platform_verifier().unwrap());
    let connecting = client
        .connect(server.local_addrs()[0], "localhost")
        .unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let (client, _server) = tokio::join!(connecting, accepting);
    match client {
        Ok(_) => ACCEPTED,
        Err(ConnectionError::TransportError(error))
            if error.reason.starts_with("invalid peer certificate") =>
        {
            REFUSED
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn the_authorities_of_the_system_are_trusted_and_no_others() {
    if let Some(folder) = std::env::var_os(IDENTITY) {
        run(async { std::process::exit(connect(Path::new(&folder)).await) });
    }
    let root = tempfile::tempdir().unwrap();
    let server = write_identity(root.path(), "server");
    let other = write_identity(root.path(), "other");
    for (system, expected) in [(&server, ACCEPTED), (&other, REFUSED)] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "the_authorities_of_the_system_are_trusted_and_no_others",
            ])
            .env("SSL_CERT_FILE", system.join("cert.pem"))
            .env_remove("SSL_CERT_DIR")
            .env(IDENTITY, &server)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert_eq!(child.status.code(), Some(expected), "{said}");
    }
}
