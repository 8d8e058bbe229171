//! The workload `requests`: repeated requests and responses. It measures the latency of each.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use mpquic_proto::{Event, Side};
use serde::{Deserialize, Serialize};

use super::download::{Downloads, Progress};
use super::figures::{mean, quantile};
use super::form::Parts;
use super::object::Request;
use super::start::Start;
use super::{Kind, Metric, ResultError, WorkloadError, WorkloadResult, completion_limit};
use crate::app::{App, AppContext};
use crate::bound::Fluid;
use crate::{AppError, Network, content, units};

/// Requests for responses of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// The number of requests.
    pub count: u64,
    /// The size of each response in bytes. In files: a text such as "64 kB".
    #[serde(with = "units::size")]
    pub size: u64,
    /// The time from the end of a response to the next request. It must be less than the
    /// transport's idle timeout. In files: a text such as "20 ms". Default: 0.
    #[serde(default, with = "units::time")]
    pub think: Duration,
    /// The number of users, each with its own requests over the one connection. Default: 1.
    #[serde(default = "one")]
    pub parallel: u64,
    /// Whether the client waits with its first request until all paths are in use. By default, it
    /// waits only for the handshake.
    #[serde(default)]
    pub warm: bool,
}

const fn one() -> u64 {
    1
}

const FORM: &str = "requests:COUNT:SIZE[:THINK_TIME][:warm][:parallel=COUNT], \
                    such as requests:100:64kB or requests:100:64kB:20ms:parallel=4";

const MEDIAN: Metric = Metric::lower("latency_p50", "s");
const METRICS: &[Metric] = &[
    MEDIAN,
    Metric::lower("latency_mean", "s"),
    Metric::lower("latency_p99", "s"),
    Metric::higher("rate", "1/s"),
];

impl Requests {
    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, WorkloadError> {
        parts.form(FORM);
        let mut this = Self {
            count: parts.number("count")?,
            size: parts.size("size")?,
            think: Duration::ZERO,
            parallel: 1,
            warm: false,
        };
        if !parts.next_is("warm") {
            this.think = parts.optional_time()?.unwrap_or_default();
        }
        this.parallel = parts.named_number("parallel")?.unwrap_or_else(one);
        this.warm = parts.flag("warm");
        Ok(this)
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = super::form::size(self.size);
        write!(f, "requests:{}:{size}", self.count)?;
        if !self.think.is_zero() {
            write!(f, ":{}", super::form::time(self.think))?;
        }
        super::form::warm(f, self.warm)?;
        super::form::named(f, "parallel", self.parallel, one(), |n| n.to_string())
    }
}

impl Kind for Requests {
    fn client(&self, seed: u64) -> Box<dyn App> {
        Box::new(RequestsClient {
            workload: self.clone(),
            seed,
            start: Start::new(self.warm),
            downloads: Downloads::default(),
            asked: 0,
            due: BTreeSet::new(),
            began: None,
            ended: None,
            latencies: Vec::new(),
        })
    }

    fn validate(&self) -> Result<(), WorkloadError> {
        super::at_least_one("count", self.count)?;
        super::at_least_one("size", self.size)?;
        super::at_least_one("parallel", self.parallel)
    }

    fn time_limit(&self) -> Duration {
        let thinking = self.think.as_secs_f64() * self.count as f64;
        let thinking = Duration::try_from_secs_f64(thinking).unwrap_or(super::CENTURY);
        completion_limit(self.size.saturating_mul(self.count)) + thinking.min(super::CENTURY)
    }

    fn primary(&self) -> Metric {
        MEDIAN
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError> {
        let client: &RequestsClient = network.app(Side::Client).ok_or(ResultError::OtherApp)?;
        let (Some(began), Some(ended)) = (client.began, client.ended) else {
            return Err(ResultError::Incomplete);
        };
        if client.latencies.len() as u64 != self.count {
            return Err(ResultError::Incomplete);
        }
        let latencies = client.latencies.clone();
        let median = quantile(&latencies, 0.5);
        let mut result = WorkloadResult::new(median);
        result.set("latency_p50", median);
        result.set("latency_mean", mean(&latencies));
        result.set("latency_p99", quantile(&latencies, 0.99));
        result.set("rate", self.count as f64 / (ended - began).as_secs_f64());
        result.series.insert("latency", latencies);
        Ok(result)
    }

    fn bounds(&self, fluid: &Fluid, _seed: u64) -> Vec<(&'static str, f64)> {
        let request = Request::new(self.size, 0).line().len();
        let latency = fluid.object(request, self.size);
        // The user with the most requests, and all bytes.
        let turns = self.count.div_ceil(self.parallel.max(1)) as f64;
        let one_user = turns * latency + (turns - 1.0) * self.think.as_secs_f64();
        let all = fluid.object(request, self.size.saturating_mul(self.count));
        vec![
            ("latency_p50", latency),
            ("latency_mean", latency),
            ("latency_p99", latency),
            ("rate", self.count as f64 / one_user.max(all)),
        ]
    }
}

#[derive(Debug)]
struct RequestsClient {
    workload: Requests,
    seed: u64,
    start: Start,
    downloads: Downloads,
    asked: u64,
    /// When users have finished thinking, with the number of the request before.
    due: BTreeSet<(Duration, usize)>,
    began: Option<Duration>,
    ended: Option<Duration>,
    /// Seconds, in the order of the responses.
    latencies: Vec<f64>,
}

impl RequestsClient {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        self.began = Some(cx.now());
        for _ in 0..self.workload.parallel.min(self.workload.count) {
            self.ask(cx)?;
        }
        Ok(())
    }

    fn ask(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.asked == self.workload.count {
            return Ok(());
        }
        let seed = content::word(self.seed, self.asked);
        let request = Request::new(self.workload.size, seed);
        let number = self.asked as usize;
        self.asked += 1;
        self.downloads.start(cx, number, request)
    }
}

impl App for RequestsClient {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        if self.start.on_event(cx, event) {
            self.begin(cx)?;
        }
        self.downloads.on_event(cx, event)?;
        while let Some(progress) = self.downloads.poll() {
            let Progress::Done { number, times } = progress else {
                continue;
            };
            self.latencies.push(times.completion().as_secs_f64());
            self.ended = Some(times.completed);
            if self.workload.think.is_zero() {
                self.ask(cx)?;
            } else if self.asked < self.workload.count {
                self.due
                    .insert((times.completed + self.workload.think, number));
            }
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Duration> {
        let due = self.due.first().map(|(at, _)| *at);
        self.start.next_wakeup().or(due)
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.start.on_wakeup(cx.now()) {
            return self.begin(cx);
        }
        while self.due.first().is_some_and(|(at, _)| *at <= cx.now()) {
            self.due.pop_first();
            self.ask(cx)?;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.latencies.len() as u64 == self.workload.count && self.downloads.is_idle()
    }
}
