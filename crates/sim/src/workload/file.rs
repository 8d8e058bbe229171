//! The workload `file`: one download of a given size.

use std::fmt;
use std::time::Duration;

use mpquic_proto::{Event, Side};
use serde::{Deserialize, Serialize};

use super::download::{Downloads, Progress, Times};
use super::form::Parts;
use super::object::Request;
use super::start::Start;
use super::{Kind, Metric, ResultError, WorkloadError, WorkloadResult, completion_limit};
use crate::app::{App, AppContext};
use crate::bound::Fluid;
use crate::{AppError, Network, units};

/// One download.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The size in bytes. In files: a text such as "2 MB".
    #[serde(with = "units::size")]
    pub size: u64,
    /// Whether the client waits with its request until all paths are in use. By default, it waits
    /// only for the handshake.
    #[serde(default)]
    pub warm: bool,
}

const FORM: &str = "file:SIZE[:warm], such as file:2MB";

const COMPLETION: Metric = Metric::lower("completion", "s");
const METRICS: &[Metric] = &[
    COMPLETION,
    super::CONNECTED,
    Metric::higher("goodput", "Mbit/s"),
    Metric::lower("first_byte", "s"),
];

impl File {
    /// A download of this size that starts when the handshake is complete.
    pub const fn new(size: u64) -> Self {
        Self { size, warm: false }
    }

    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, WorkloadError> {
        parts.form(FORM);
        let size = parts.size("size")?;
        let warm = parts.flag("warm");
        Ok(Self { size, warm })
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file:{}", super::form::size(self.size))?;
        super::form::warm(f, self.warm)
    }
}

impl Kind for File {
    fn client(&self, seed: u64) -> Box<dyn App> {
        Box::new(FileClient {
            request: Request::new(self.size, seed),
            start: Start::new(self.warm),
            downloads: Downloads::default(),
            times: None,
        })
    }

    fn validate(&self) -> Result<(), WorkloadError> {
        super::at_least_one("size", self.size)
    }

    fn time_limit(&self) -> Duration {
        completion_limit(self.size)
    }

    fn primary(&self) -> Metric {
        COMPLETION
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError> {
        let client: &FileClient = network.app(Side::Client).ok_or(ResultError::OtherApp)?;
        let times = client.times.ok_or(ResultError::Incomplete)?;
        let completion = times.completion().as_secs_f64();
        let mut result = WorkloadResult::new(completion);
        result.set("completion", completion);
        result.set(super::CONNECTED.name, times.requested.as_secs_f64());
        result.set("goodput", self.size as f64 * 8.0 / 1e6 / completion);
        let first_byte = times.first_byte - times.requested;
        result.set("first_byte", first_byte.as_secs_f64());
        Ok(result)
    }

    fn bounds(&self, fluid: &Fluid, _seed: u64) -> Vec<(&'static str, f64)> {
        let request = Request::new(self.size, 0).line().len();
        let completion = fluid.object(request, self.size);
        vec![
            ("completion", completion),
            ("goodput", self.size as f64 * 8.0 / 1e6 / completion),
            ("first_byte", fluid.object(request, 1)),
        ]
    }
}

/// When the network's client requested its file, and when it was complete.
pub(super) fn times(network: &Network) -> Option<[Duration; 2]> {
    let client: &FileClient = network.app(Side::Client)?;
    let times = client.times?;
    Some([times.requested, times.completed])
}

/// Downloads one file.
#[derive(Debug)]
struct FileClient {
    request: Request,
    start: Start,
    downloads: Downloads,
    times: Option<Times>,
}

impl App for FileClient {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        if self.start.on_event(cx, event) {
            self.downloads.start(cx, 0, self.request)?;
        }
        self.downloads.on_event(cx, event)?;
        while let Some(progress) = self.downloads.poll() {
            if let Progress::Done { times, .. } = progress {
                self.times = Some(times);
            }
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Duration> {
        self.start.next_wakeup()
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.start.on_wakeup(cx.now()) {
            self.downloads.start(cx, 0, self.request)?;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.times.is_some() && self.downloads.is_idle()
    }
}
