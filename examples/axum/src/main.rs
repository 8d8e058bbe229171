//! The program: two routes on port 4433, or at the addresses that are its arguments; its certificate is in `axum_cert.pem`. Its figures are at
//! http://127.0.0.1:9434/metrics.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::routing::{get, post};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments = std::env::args().skip(1);
    let addresses: Result<Vec<SocketAddr>, _> = arguments.map(|text| text.parse()).collect();
    let mut addresses = addresses?;
    if addresses.is_empty() {
        addresses.push("0.0.0.0:4433".parse()?);
    }
    let figures = mpquic_example_axum::figures(mpquic_example_axum::count()?);
    let looking = tokio::net::TcpListener::bind("127.0.0.1:9434").await?;
    println!("figures on http://{}/metrics", looking.local_addr()?);
    tokio::spawn(async move { axum::serve(looking, figures).await });
    let router = Router::new()
        .route("/", get(async || "hello over all paths\n"))
        .route("/echo", post(async |body: axum::body::Body| body));
    let endpoint = mpquic_example_axum::listen(&addresses, Path::new("axum_cert.pem"))?;
    for address in endpoint.local_addrs() {
        println!("listening on https://{address}/");
    }
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    mpquic_example_axum::serve(&endpoint, router, stop).await;
    Ok(())
}
