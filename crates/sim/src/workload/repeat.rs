//! The workload `repeat`: downloads of one size, back to back for a given time. It measures
//! completion times and the completions per time window.

use std::fmt;
use std::time::Duration;

use mpquic_proto::{Event, Side};
use serde::{Deserialize, Serialize};

use super::download::{Downloads, Progress, Times};
use super::figures::{mean, quantile, seconds};
use super::form::Parts;
use super::object::Request;
use super::start::Start;
use super::{Kind, Metric, ResultError, WorkloadError, WorkloadResult, completion_limit};
use crate::app::{App, AppContext};
use crate::bound::Fluid;
use crate::{AppError, Network, content, units};

/// Downloads of one size, back to back over one connection. None starts after the end. The last one
/// that has started is completed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The size of each download in bytes. In files: a text such as "2 MB".
    #[serde(with = "units::size")]
    pub size: u64,
    /// The time from the first request to the end. In files: a text such as "3000 s".
    #[serde(with = "units::time")]
    pub duration: Duration,
    /// The length of the windows in which completions are counted. In files: a text; default: "60
    /// s".
    #[serde(default = "minute", with = "units::time")]
    pub window: Duration,
    /// Whether the client waits with its first request until all paths are in use. By default, it
    /// waits only for the handshake.
    #[serde(default)]
    pub warm: bool,
}

const fn minute() -> Duration {
    Duration::from_secs(60)
}

const FORM: &str = "repeat:SIZE:TIME[:WINDOW][:warm], such as repeat:2MB:3000s";

const MEDIAN: Metric = Metric::lower("completion_p50", "s");
const METRICS: &[Metric] = &[
    MEDIAN,
    Metric::lower("completion_mean", "s"),
    Metric::lower("completion_p95", "s"),
    Metric::higher("completions", ""),
    Metric::higher("completions_per_window", ""),
];

impl Repeat {
    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, WorkloadError> {
        parts.form(FORM);
        let size = parts.size("size")?;
        let duration = parts.time("time")?;
        let window = if parts.next_is("warm") {
            None
        } else {
            parts.optional_time()?
        };
        Ok(Self {
            size,
            duration,
            window: window.unwrap_or_else(minute),
            warm: parts.flag("warm"),
        })
    }
}

impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, time) = (
            super::form::size(self.size),
            super::form::time(self.duration),
        );
        write!(f, "repeat:{size}:{time}")?;
        if self.window != minute() {
            write!(f, ":{}", super::form::time(self.window))?;
        }
        super::form::warm(f, self.warm)
    }
}

impl Kind for Repeat {
    fn client(&self, seed: u64) -> Box<dyn App> {
        Box::new(RepeatClient {
            workload: self.clone(),
            seed,
            start: Start::new(self.warm),
            downloads: Downloads::default(),
            began: None,
            over: false,
            times: Vec::new(),
        })
    }

    fn validate(&self) -> Result<(), WorkloadError> {
        super::at_least_one("size", self.size)?;
        super::not_zero("duration", self.duration)?;
        super::not_zero("window", self.window)
    }

    fn time_limit(&self) -> Duration {
        self.duration + completion_limit(self.size)
    }

    fn primary(&self) -> Metric {
        MEDIAN
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError> {
        let client: &RepeatClient = network.app(Side::Client).ok_or(ResultError::OtherApp)?;
        let (Some(began), true) = (client.began, client.is_complete()) else {
            return Err(ResultError::Incomplete);
        };
        let completions = seconds(client.times.iter().map(Times::completion));
        // The last window may be shorter. A completion after the end belongs to no window.
        let windows = self.duration.as_nanos().div_ceil(self.window.as_nanos());
        let mut counts = vec![0.0; usize::try_from(windows).unwrap_or(usize::MAX).min(1 << 20)];
        for times in &client.times {
            let window = (times.completed - began).as_nanos() / self.window.as_nanos();
            if let Ok(window) = usize::try_from(window)
                && let Some(count) = counts.get_mut(window)
            {
                *count += 1.0;
            }
        }
        let median = quantile(&completions, 0.5);
        let mut result = WorkloadResult::new(median);
        result.set("completion_p50", median);
        result.set("completion_mean", mean(&completions));
        result.set("completion_p95", quantile(&completions, 0.95));
        result.set("completions", completions.len() as f64);
        result.set("completions_per_window", mean(&counts));
        let begun = client.times.iter().map(|times| times.requested - began);
        result.series.insert("first_request", seconds([began]));
        result.series.insert("begun", seconds(begun));
        result.series.insert("completion", completions);
        result.series.insert("completions_per_window", counts);
        Ok(result)
    }

    fn bounds(&self, fluid: &Fluid, _seed: u64) -> Vec<(&'static str, f64)> {
        let request = Request::new(self.size, 0).line().len();
        let completion = fluid.object(request, self.size);
        let (duration, window) = (self.duration.as_secs_f64(), self.window.as_secs_f64());
        // All downloads that start before the end count. The last of them may complete later.
        let begun = (duration / completion).ceil();
        vec![
            ("completion_p50", completion),
            ("completion_mean", completion),
            ("completion_p95", completion),
            ("completions", begun),
            ("completions_per_window", begun / (duration / window).ceil()),
        ]
    }
}

#[derive(Debug)]
struct RepeatClient {
    workload: Repeat,
    seed: u64,
    start: Start,
    downloads: Downloads,
    began: Option<Duration>,
    over: bool,
    times: Vec<Times>,
}

impl RepeatClient {
    fn ask(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        let began = *self.began.get_or_insert_with(|| cx.now());
        if cx.now() - began >= self.workload.duration {
            self.over = true;
            return Ok(());
        }
        let number = self.times.len();
        let seed = content::word(self.seed, number as u64);
        self.downloads
            .start(cx, number, Request::new(self.workload.size, seed))
    }
}

impl App for RepeatClient {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        if self.start.on_event(cx, event) {
            self.ask(cx)?;
        }
        self.downloads.on_event(cx, event)?;
        while let Some(progress) = self.downloads.poll() {
            if let Progress::Done { times, .. } = progress {
                self.times.push(times);
                self.ask(cx)?;
            }
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Duration> {
        self.start.next_wakeup()
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.start.on_wakeup(cx.now()) {
            self.ask(cx)?;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.over && self.downloads.is_idle()
    }
}
