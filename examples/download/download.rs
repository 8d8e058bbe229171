//! The experiment: a download over all links at once, perhaps a second time, then over each alone.

use std::path::PathBuf;
use std::sync::Arc;

use mpquic::CongestionControl;
use mpquic::limits::MAX_OPEN_PATHS;
use mpquic::sched::memory::{MemoryError, Store};
use mpquic::sched::record::RecordError;
use thiserror::Error;

use crate::content::{Generator, NAME};
use crate::lab::{Lab, LabError, Terms};
use crate::link::LinkArgument;
use crate::measure::{Download, DownloadError, download};
use crate::memory::Memory;
use crate::progress::Bars;
use crate::protocol::Request;
use crate::recording;
use crate::report::{Again, Alone, Report, goodput_mbps};
use crate::schedulers::{Choice, ChoiceError};
use crate::serve::serve;
use crate::shares::shares;

/// What to download, and how.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) scheduler: Choice,
    pub(crate) congestion: CongestionControl,
    /// Bytes of content.
    pub(crate) size: u64,
    /// The first link carries the handshake.
    pub(crate) links: Vec<LinkArgument>,
    /// Whether a second connection downloads over all links as well.
    pub(crate) again: bool,
    /// Whether no connection begins with what earlier ones measured of the paths.
    pub(crate) cold: bool,
    /// Whether to download over each link alone as well.
    pub(crate) alone: bool,
    /// The file of the scheduler's memory, if it has one.
    pub(crate) memory: Option<PathBuf>,
    /// The file for a recording of what the scheduler experiences, if wanted.
    pub(crate) record: Option<PathBuf>,
    pub(crate) seed: u64,
    /// Whether to draw progress bars if stderr is a terminal.
    pub(crate) progress: bool,
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
}

/// Why there is no report.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error("the SHA-256 digest is wrong: the content was damaged on its way")]
    Digest,
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Record(#[from] RecordError),
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

/// Downloads over all links at once and then, if requested, over each alone.
///
/// A wrong digest is not an error here: the report has it.
pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let options = options.check()?;
    let content = Arc::new(Generator {
        seed: options.seed,
        size: options.size,
    });
    let memory = options.memory.as_deref().map(Memory::load_or_tell);
    let recorder = options
        .record
        .as_deref()
        .map(recording::begin)
        .transpose()?;
    let store = memory
        .as_ref()
        .map_or_else(Store::new, |memory| memory.store.clone());
    let remembers = !options.cold && (options.again || memory.is_some());
    let terms = Terms {
        scheduler: &options.scheduler,
        congestion: options.congestion,
        memory: memory.as_ref().map(|memory| &memory.store),
        path_memory: remembers.then_some(&store),
        recorder: recorder.as_ref(),
        paths: options.links.len(),
        seed: options.seed,
    };
    let service = move |connection| serve(connection, Arc::clone(&content));
    let lab = Lab::start(terms, service.clone())?;

    let links: Vec<_> = options.links.iter().enumerate().collect();
    let together = over(&lab, &links, "all paths", options.progress).await?;
    let learned = lab.hang_up();
    let mut sha256_ok = together.fetched.sha256_ok;
    let mut again = None;
    if options.again {
        let remembered_paths = if remembers { store.saved_paths() } else { 0 };
        let second = over(&lab, &links, "all paths again", options.progress).await?;
        lab.hang_up();
        sha256_ok &= second.fetched.sha256_ok;
        let (first, seconds) = (together.took.as_secs_f64(), second.took.as_secs_f64());
        again = Some(Again {
            seconds,
            goodput_mbps: goodput_mbps(second.fetched.bytes, second.took),
            remembered_paths,
            gain: 1.0 - seconds / first.max(1e-9),
        });
    }
    let mut alone = Vec::new();
    if options.alone {
        // The first download may have been the first of its paths: those that it is compared with begin so, too.
        let cold = Terms {
            path_memory: None,
            ..terms
        };
        let lab = Lab::start(cold, service)?;
        for (place, link) in &links {
            let title = format!("{} alone", link.name);
            let download = over(&lab, &[(*place, *link)], &title, options.progress).await?;
            lab.hang_up();
            sha256_ok &= download.fetched.sha256_ok;
            alone.push(Alone {
                name: link.name.clone(),
                seconds: download.took.as_secs_f64(),
                goodput_mbps: goodput_mbps(download.fetched.bytes, download.took),
            });
        }
    }
    if let Some(memory) = memory {
        memory.save()?;
    }
    if let Some(recorder) = recorder {
        recording::end(&recorder)?;
    }
    let paths = options.links.iter().zip(&together.per_route);
    Ok(Report {
        scheduler: options.scheduler.name().to_owned(),
        congestion: options.congestion.to_string(),
        bytes: together.fetched.bytes,
        seconds: together.took.as_secs_f64(),
        goodput_mbps: goodput_mbps(together.fetched.bytes, together.took),
        sha256_ok,
        paths: shares(paths.map(|(link, bytes)| (link.name.clone(), Some(link.rate_mbps), *bytes))),
        again,
        alone,
        learned,
    })
}

/// Downloads over these links, each given with its position among all links.
async fn over(
    lab: &Lab,
    links: &[(usize, &LinkArgument)],
    title: &str,
    progress: bool,
) -> Result<Download, Error> {
    let (client, _links) = lab.client(links)?;
    let request = Request {
        name: NAME.to_owned(),
        // The server has the right scheduler already.
        scheduler: None,
    };
    let bars = Bars::new(
        progress,
        title,
        links.iter().map(|(_, link)| link.name.as_str()),
    );
    // The digest shows whether the content is right, so it need not be stored.
    let mut nowhere = tokio::io::sink();
    Ok(download(&client, &request, &mut nowhere, &bars).await?)
}
