//! An endless download, measured for a given time: the goodput, optionally after a warm-up.

use std::fmt;
use std::time::Duration;

use mpquic_proto::{Event, Side};
use serde::{Deserialize, Serialize};

use super::download::{Downloads, Progress};
use super::form::Parts;
use super::object::Request;
use super::start::Start;
use super::{Kind, Metric, ResultError, WorkloadError, WorkloadResult, out_of_range};
use crate::app::{App, AppContext};
use crate::bound::Fluid;
use crate::{AppError, Network, units};

/// An endless download, measured for a given time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// The duration of the run from the request on. In files: a text such as "20 s".
    #[serde(with = "units::time")]
    pub duration: Duration,
    /// How much of this is not measured, from the request on. In files: a text such as "2 s".
    #[serde(default, with = "units::time")]
    pub warm_up: Duration,
    /// Whether the client waits with its request until all paths are in use. By default, it waits
    /// only for the handshake.
    #[serde(default)]
    pub warm: bool,
}

const FORM: &str = "bulk:TIME[:WARM_UP][:warm], such as bulk:20s or bulk:20s:2s";

const GOODPUT: Metric = Metric::higher("goodput", "Mbit/s");
const METRICS: &[Metric] = &[
    GOODPUT,
    Metric::higher("received", "MB"),
    Metric::lower("first_byte", "s"),
];

/// The interval of the series.
const INTERVAL: Duration = Duration::from_secs(1);

impl Bulk {
    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, WorkloadError> {
        parts.form(FORM);
        let duration = parts.time("time")?;
        let warm = parts.flag("warm");
        let warm_up = if warm { None } else { parts.optional_time()? };
        Ok(Self {
            duration,
            warm_up: warm_up.unwrap_or_default(),
            warm: warm || parts.flag("warm"),
        })
    }
}

impl Bulk {
    const fn request(&self, seed: u64) -> Request {
        Request {
            bytes: None,
            ..Request::new(0, seed)
        }
    }
}

impl fmt::Display for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bulk:{}", super::form::time(self.duration))?;
        if !self.warm_up.is_zero() {
            write!(f, ":{}", super::form::time(self.warm_up))?;
        }
        super::form::warm(f, self.warm)
    }
}

impl Kind for Bulk {
    fn client(&self, seed: u64) -> Box<dyn App> {
        Box::new(BulkClient {
            request: self.request(seed),
            warm_up: self.warm_up,
            duration: self.duration,
            start: Start::new(self.warm),
            downloads: Downloads::default(),
            requested: None,
            first_byte: None,
            at_warm_up: None,
            at_end: None,
            intervals: Vec::new(),
        })
    }

    fn validate(&self) -> Result<(), WorkloadError> {
        if self.duration <= self.warm_up {
            return Err(out_of_range(
                "duration",
                units::time::show(self.duration),
                "more than the warm-up",
            ));
        }
        Ok(())
    }

    fn time_limit(&self) -> Duration {
        self.duration + super::PATIENCE
    }

    fn primary(&self) -> Metric {
        GOODPUT
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError> {
        let client: &BulkClient = network.app(Side::Client).ok_or(ResultError::OtherApp)?;
        let (Some(from), Some(to)) = (client.at_warm_up, client.at_end) else {
            return Err(ResultError::Incomplete);
        };
        let bytes = (to - from) as f64;
        let goodput = bytes * 8.0 / 1e6 / (self.duration - self.warm_up).as_secs_f64();
        let mut result = WorkloadResult::new(goodput);
        result.set("goodput", goodput);
        result.set("received", bytes / 1e6);
        // Nothing arrived: the first byte took longer than the run.
        let first_byte = client.first_byte.unwrap_or(self.duration);
        result.set("first_byte", first_byte.as_secs_f64());
        let rate = |bytes: &u64| *bytes as f64 * 8.0 / 1e6 / INTERVAL.as_secs_f64();
        let intervals = client.intervals.iter().map(rate).collect();
        result.series.insert("goodput_per_second", intervals);
        Ok(result)
    }

    /// After a warm-up, a run can be better than this bound by the bytes that arrived before the
    /// end of the warm-up but could not be delivered in order yet.
    fn bounds(&self, fluid: &Fluid, _seed: u64) -> Vec<(&'static str, f64)> {
        let request = fluid.request(self.request(0).line().len());
        let by = |time: Duration| fluid.delivered(time.as_secs_f64() - request);
        let bytes = by(self.duration) - by(self.warm_up);
        let seconds = (self.duration - self.warm_up).as_secs_f64();
        vec![
            ("goodput", bytes * 8.0 / 1e6 / seconds),
            ("received", bytes / 1e6),
            ("first_byte", request + fluid.delivery(1.0)),
        ]
    }
}

#[derive(Debug)]
struct BulkClient {
    request: Request,
    warm_up: Duration,
    duration: Duration,
    start: Start,
    downloads: Downloads,
    requested: Option<Duration>,
    /// Counted from the request.
    first_byte: Option<Duration>,
    /// Bytes delivered at the end of the warm-up.
    at_warm_up: Option<u64>,
    /// Bytes delivered at the end.
    at_end: Option<u64>,
    /// Bytes delivered in each second after the request.
    intervals: Vec<u64>,
}

impl BulkClient {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        self.requested = Some(cx.now());
        if self.warm_up.is_zero() {
            self.at_warm_up = Some(0);
        }
        self.downloads.start(cx, 0, self.request)
    }

    /// The next time at which to measure.
    fn mark(&self) -> Option<Duration> {
        match (self.requested?, self.at_warm_up, self.at_end) {
            (requested, None, _) => Some(requested + self.warm_up),
            (requested, Some(_), None) => Some(requested + self.duration),
            (_, Some(_), Some(_)) => None,
        }
    }
}

impl App for BulkClient {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        if self.start.on_event(cx, event) {
            self.begin(cx)?;
        }
        let before = self.downloads.received();
        self.downloads.on_event(cx, event)?;
        let more = self.downloads.received() - before;
        if let (Some(requested), 1..) = (self.requested, more)
            && self.at_end.is_none()
        {
            let since = cx.now() - requested;
            let slot = (since.as_nanos() / INTERVAL.as_nanos()) as usize;
            if self.intervals.len() <= slot {
                self.intervals.resize(slot + 1, 0);
            }
            self.intervals[slot] += more;
            while let Some(progress) = self.downloads.poll() {
                if matches!(progress, Progress::FirstBytes { .. }) {
                    self.first_byte = Some(since);
                }
            }
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Duration> {
        self.start.next_wakeup().or_else(|| self.mark())
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.start.on_wakeup(cx.now()) {
            return self.begin(cx);
        }
        if self.mark().is_some_and(|mark| mark <= cx.now()) {
            let received = self.downloads.received();
            let place = match self.at_warm_up {
                None => &mut self.at_warm_up,
                Some(_) => &mut self.at_end,
            };
            *place = Some(received);
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.at_end.is_some()
    }
}
