//! The experiment: sets up a server of video, a relay per path and a player, and runs them once.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mpquic::CongestionControl;
use mpquic::limits::MAX_OPEN_PATHS;
use thiserror::Error;

use crate::lab::{Lab, LabError, Terms};
use crate::link::LinkArgument;
use crate::playback::Playback;
use crate::protocol::Video;
use crate::report::{Circumstances, Report};
use crate::schedulers::{Choice, ChoiceError};
use crate::screen::Screen;
use crate::server::{Source, serve};
use crate::shares::shares;

/// The highest bitrate of an encoding in bit/s: a thousand times that of real video.
const MAX_BITRATE: u64 = 10_000_000_000;

/// What to play, and over which paths.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) scheduler: Choice,
    pub(crate) congestion: CongestionControl,
    pub(crate) video: Video,
    /// The most chunks that may wait for playback when the player requests the next one.
    pub(crate) buffer: u64,
    /// The first link carries the handshake.
    pub(crate) links: Vec<LinkArgument>,
    pub(crate) seed: u64,
    /// Whether to show the progress.
    pub(crate) live: bool,
}

/// Why the options are invalid.
#[derive(Debug, Error)]
pub(crate) enum OptionsError {
    #[error(transparent)]
    Scheduler(#[from] ChoiceError),
    #[error("{0} paths: there can be 1 to {MAX_OPEN_PATHS}")]
    Paths(usize),
    #[error("there is more than one path with the name {0:?}")]
    SameName(String),
    #[error("the bitrate is {0}, expected Mbit/s from 0.001 to {max}", max = MAX_BITRATE / 1_000_000)]
    Bitrate(f64),
    #[error("there is no bitrate to choose")]
    NoBitrate,
}

/// Why the playback failed.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The report has this error, too.
    #[error("{0}")]
    Failed(String),
    #[error("a SHA-256 digest is wrong: content was damaged on its way")]
    Digest,
}

/// Bitrates in bit/s, ascending and distinct, from bitrates in Mbit/s.
pub(crate) fn bitrates(mbps: &[f64]) -> Result<Vec<u64>, OptionsError> {
    let rate = |mbps: &f64| {
        let bits = (mbps * 1e6).round() as u64;
        let fits = (1000..=MAX_BITRATE).contains(&bits);
        fits.then_some(bits).ok_or(OptionsError::Bitrate(*mbps))
    };
    let mut rates = mbps.iter().map(rate).collect::<Result<Vec<_>, _>>()?;
    rates.sort_unstable();
    rates.dedup();
    if rates.is_empty() {
        return Err(OptionsError::NoBitrate);
    }
    Ok(rates)
}

impl Options {
    /// Returns the options if they are valid.
    pub(crate) fn check(self) -> Result<Self, OptionsError> {
        if !(1..=MAX_OPEN_PATHS).contains(&self.links.len()) {
            return Err(OptionsError::Paths(self.links.len()));
        }
        let mut names: Vec<_> = self.links.iter().map(|link| &link.name).collect();
        names.sort();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(OptionsError::SameName(pair[0].clone())),
            None => Ok(self),
        }
    }
}

/// Plays the video once, to its end or until `stop` is ready.
///
/// A stop, a failure during playback, or a wrong digest is not an error here: the report has it.
pub(crate) async fn run(
    options: &Options,
    stop: impl Future<Output = ()>,
) -> Result<Report, Error> {
    let Options { video, links, .. } = options;
    let source = Arc::new(Source {
        video: video.clone(),
        seed: options.seed,
    });
    let terms = Terms {
        scheduler: &options.scheduler,
        congestion: options.congestion,
        memory: None,
        path_memory: None,
        recorder: None,
        paths: links.len(),
        seed: options.seed,
    };
    let lab = Lab::start(terms, move |connection| {
        serve(connection, Arc::clone(&source))
    })?;
    let places: Vec<_> = links.iter().enumerate().collect();
    let (client, _links) = lab.client(&places)?;

    let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
    let chunks = u32::try_from(video.chunks).unwrap_or(u32::MAX);
    let screen = Screen::new(options.live, video.length.saturating_mul(chunks), &names);
    let mut playback = Playback::new(video, options.buffer, links.len());
    let end = playback.run(&client, &screen, stop).await;
    drop(screen);
    let paths = links.iter().zip(&playback.received);
    let circumstances = Circumstances {
        scheduler: options.scheduler.name().to_owned(),
        config: options.scheduler.config().clone(),
        congestion: options.congestion.name(),
        chunk_seconds: video.length.as_secs_f64(),
        chunks_wanted: video.chunks,
        paths: shares(paths.map(|(link, bytes)| (link.name.clone(), Some(link.rate_mbps), *bytes))),
        delays_ms: links
            .iter()
            .map(|link| milliseconds(link.config.delay))
            .collect(),
        learned: lab.hang_up(),
    };
    Ok(Report::new(&playback, &end, circumstances))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
