//! The program: `serve [ADDRESS]...` answers gRPC's standard health service, `watch SERVER:PORT [LOCAL_IP]...` prints what it says, over a path from each
//! local address.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use mpquic::{Endpoint, FullMesh};
use mpquic_example_tonic::{channel, connect, listen, serve};
use tonic::service::Routes;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const CERT: &str = "tonic_cert.pem";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("serve") => {
            let addresses: Result<Vec<SocketAddr>, _> =
                arguments.map(|text| text.parse()).collect();
            let mut addresses = addresses?;
            if addresses.is_empty() {
                addresses.push((Ipv4Addr::UNSPECIFIED, 4433).into());
            }
            let endpoint = listen(&addresses, Path::new(CERT))?;
            for address in endpoint.local_addrs() {
                println!("listening on {address}");
            }
            let (_reporter, health) = tonic_health::server::health_reporter();
            let stop = async { drop(tokio::signal::ctrl_c().await) };
            serve(&endpoint, Routes::new(health), stop).await
        }
        Some("watch") => {
            let server = arguments.next().ok_or("watch which SERVER:PORT?")?;
            let mut locals = Vec::new();
            for ip in arguments {
                locals.push(SocketAddr::new(ip.parse()?, 0));
            }
            if locals.is_empty() {
                locals.push((Ipv4Addr::UNSPECIFIED, 0).into());
            }
            let endpoint = Endpoint::client(&locals)?;
            endpoint.set_path_manager(FullMesh::new());
            let connection = connect(&endpoint, server.parse()?, Path::new(CERT)).await?;
            let mut health = HealthClient::new(channel(connection.clone()));
            let mut said = health
                .watch(HealthCheckRequest::default())
                .await?
                .into_inner();
            while let Some(status) = said.message().await? {
                println!(
                    "{}, over {} paths",
                    status.status().as_str_name(),
                    connection.paths().len()
                );
            }
            Ok(())
        }
        _ => Err("serve [ADDRESS]..., or watch SERVER:PORT [LOCAL_IP]...".into()),
    }
}
