// A client and a server over loopback, for the examples of the documentation, which include this file.

struct Pair {
    client_endpoint: mpquic::Endpoint,
    server_endpoint: mpquic::Endpoint,
    client: mpquic::Connection,
    server: mpquic::Connection,
}

fn configs() -> Result<(mpquic::ClientConfig, mpquic::ServerConfig), Box<dyn std::error::Error>> {
    use mpquic::rustls;

    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let server = mpquic::ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    Ok((mpquic::ClientConfig::with_root_certificates(roots)?, server))
}

/// Connected, from two sockets of the client.
async fn pair() -> Result<Pair, Box<dyn std::error::Error>> {
    let (client_config, server_config) = configs()?;
    let any = "127.0.0.1:0".parse()?;
    let server_endpoint = mpquic::Endpoint::server(server_config, &[any])?;
    let client_endpoint = mpquic::Endpoint::client(&[any, any])?;
    client_endpoint.set_default_client_config(client_config);
    let connecting = client_endpoint.connect(server_endpoint.local_addr()?, "localhost")?;
    let accepting = async { server_endpoint.accept().await.unwrap().await };
    let (client, server) = tokio::join!(connecting, accepting);
    let (client, server) = (client?, server?);
    Ok(Pair { client_endpoint, server_endpoint, client, server })
}
