//! A download in virtual time.

use std::time::Duration;

use mpquic_proto::{Event, PathEvent, Side};
use mpquic_sim::{
    App, AppContext, AppError, Job, LinkConfigError, Network, SimError, TransferClient,
    TransferServer,
};
use thiserror::Error;

use crate::scenario::{CONTENT_SEED, Scenario};

/// Far longer than any of the downloads.
const LIMIT: Duration = Duration::from_secs(120);

/// Why a simulated download failed.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Link(#[from] LinkConfigError),
    #[error(transparent)]
    Simulation(#[from] SimError),
    #[error("the second path was never opened")]
    NoSecondPath,
}

/// Starts the download when both paths are open, like the client in real time.
struct OnBothPaths {
    asked: Option<Duration>,
    done: Option<Duration>,
    inner: TransferClient,
}

impl App for OnBothPaths {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match event {
            Event::Connected => Ok(()),
            Event::Path(PathEvent::Opened { id }) if id.0 == 1 => {
                self.asked = Some(cx.now());
                self.inner.on_event(cx, &Event::Connected)
            }
            event => {
                self.inner.on_event(cx, event)?;
                if self.asked.is_some() && self.done.is_none() && self.inner.is_complete() {
                    self.done = Some(cx.now());
                }
                Ok(())
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.done.is_some()
    }
}

/// The time from the request to the last byte.
pub(crate) fn download(scenario: &Scenario, seed: u64) -> Result<Duration, Error> {
    let [first, second] = scenario.links.clone();
    let job = Job::Download {
        bytes: scenario.bytes,
        seed: CONTENT_SEED,
    };
    let mut network = Network::builder(seed)
        .symmetric_path(first)
        .symmetric_path(second)
        .transport(scenario.transport())
        .client(OnBothPaths {
            asked: None,
            done: None,
            inner: TransferClient::new([job]),
        })
        .server(TransferServer::new())
        .open_all_paths()
        .build()?;
    network.run_to_completion(LIMIT)?;
    let client = network.app::<OnBothPaths>(Side::Client);
    match client.map(|client| (client.asked, client.done)) {
        Some((Some(asked), Some(done))) => Ok(done - asked),
        _ => Err(Error::NoSecondPath),
    }
}
