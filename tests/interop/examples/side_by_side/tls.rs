//! One certificate for all, and the TLS configurations that trust it.

use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;

use crate::Fault;

pub(crate) const NAME: &str = "localhost";

/// A client's and a server's configuration.
pub(crate) fn configurations() -> Result<(rustls::ClientConfig, rustls::ServerConfig), Fault> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = [&rustls::version::TLS13];
    let mut client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    client.alpn_protocols = vec![b"side".to_vec()];
    server.alpn_protocols = vec![b"side".to_vec()];
    Ok((client, server))
}
