//! The example, in process: people copy it. A channel goes on when the path that it began on is dead.

use std::net::SocketAddr;
use std::time::Duration;

use mpquic::{Endpoint, FullMesh};
use mpquic_example_tonic::{channel, connect, listen, serve};
use mpquic_sim::{LinkConfig, Relay};
use tokio::sync::oneshot;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_survives_the_death_of_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let cert = folder.path().join("cert.pem");
    let any = "127.0.0.1:0".parse::<SocketAddr>().unwrap();
    let endpoint = listen(&[any], &cert).unwrap();
    let server = endpoint.local_addrs()[0];
    let (reporter, health) = tonic_health::server::health_reporter();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        serve(&endpoint, Routes::new(health), async {
            drop(stopped.await)
        })
        .await
    });

    // A relay before the server for each path.
    let link = LinkConfig::new(50_000_000, Duration::from_millis(2));
    let relay = |seed| Relay::spawn(any, server, link.clone(), link.clone(), seed).unwrap();
    let (first, second) = (relay(1), relay(2));
    let client = Endpoint::client(&[any]).unwrap();
    client.set_path_manager(FullMesh::new().remote(second.addr()));
    let connection = connect(&client, first.addr(), &cert).await.unwrap();
    let mut health = HealthClient::new(channel(connection.clone()));
    let named = || HealthCheckRequest {
        service: "answers".to_owned(),
    };
    // One call that is over at once, and one that goes on.
    reporter
        .set_service_status("answers", ServingStatus::Serving)
        .await;
    let checked = health.check(named()).await.unwrap().into_inner();
    assert_eq!(checked.status, ServingStatus::Serving as i32);
    let mut said = health.watch(named()).await.unwrap().into_inner();
    let status = said.message().await.unwrap().unwrap();
    assert_eq!(status.status, ServingStatus::Serving as i32);
    while connection.paths().len() < 2 {
        tokio::task::yield_now().await;
    }
    drop(first);
    for status in [ServingStatus::NotServing, ServingStatus::Serving] {
        reporter.set_service_status("answers", status).await;
        let told = said.message().await.unwrap().unwrap();
        assert_eq!(told.status, status as i32);
        let checked = health.check(named()).await.unwrap().into_inner();
        assert_eq!(checked.status, status as i32);
    }
    // A stream that ends is not the end of the channel; nobody else may come by name.
    let unknown = health
        .check(HealthCheckRequest {
            service: "none".to_owned(),
        })
        .await;
    assert_eq!(unknown.unwrap_err().code(), tonic::Code::NotFound);
    drop((said, health));
    connection.close(0_u32.into(), b"");
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}
