//! The workload `page`: loads a web page over a new connection, in two waves as SAILfish's client
//! does, or by the page's dependencies.

use std::fmt;
use std::time::Duration;

use mpquic_proto::{Event, Side};
use serde::{Deserialize, Serialize};

use super::download::{Downloads, Progress, Times};
use super::figures::{mean, quantile, seconds};
use super::form::Parts;
use super::object::Request;
use super::page_graph::{self, Object, PageGraph};
use super::replay::Replay;
use super::start::Start;
use super::{Kind, Metric, ResultError, WorkloadError, WorkloadResult, out_of_range};
use crate::app::{App, AppContext};
use crate::bound::Fluid;
use crate::{AppError, Network, content};

/// One load of a recorded page. The sizes of its objects are assumptions, not recordings: the
/// results compare schedulers with each other, not with the thesis that the pages come from.
///
/// The weights that the thesis' client gives its HTTP/2 streams become stream priorities. Our
/// transport's priorities are strict: a stream of lower priority gets what the others leave.
/// HTTP/2's weights are shares. With both, streams of equal priority take turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// The page. The thesis': google, twitter, facebook, youtube, renren, dropbox, alipay or
    /// aws.amazon. For training: apple, booking, chase, dailymotion, ebay, etsy, hao123, imdb,
    /// livejournal, reddit, soundcloud or vimeo.
    pub site: String,
    /// When objects are requested. Default: `two_wave`.
    #[serde(default)]
    pub mode: Mode,
    /// Whether the client waits with its requests until all paths are in use. By default, it waits
    /// only for the handshake.
    #[serde(default)]
    pub warm: bool,
}

/// When objects are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// CSS, JavaScript and others (fonts) at once; HTML, pictures and octet streams when all CSS
    /// and JavaScript files are complete. This ignores dependencies and computations. It is the
    /// Firefox mode of SAILfish's client, which the thesis used for its figures.
    #[default]
    TwoWave,
    /// According to the recorded dependencies, computations included.
    Full,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::TwoWave => "two_wave",
            Self::Full => "full",
        }
    }
}

const FORM: &str = "page:SITE[:two_wave|:full][:warm], such as page:google:two_wave";

const STREAM_MEAN: Metric = Metric::lower("stream_mean", "s");
const METRICS: &[Metric] = &[
    STREAM_MEAN,
    Metric::lower("stream_p95", "s"),
    Metric::lower("first_byte_mean", "s"),
    Metric::lower("first_render", "s"),
    Metric::lower("page_load", "s"),
    super::CONNECTED,
];

impl Page {
    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, WorkloadError> {
        parts.form(FORM);
        let site = parts.required("site")?.to_owned();
        let mode = if parts.flag("full") {
            Mode::Full
        } else {
            parts.flag("two_wave");
            Mode::TwoWave
        };
        let warm = parts.flag("warm");
        Ok(Self { site, mode, warm })
    }

    pub(crate) fn graph(&self) -> Option<&'static PageGraph> {
        page_graph::page(&self.site)
    }

    /// When a browser could draw for the first time: the page itself, which is the first object, and all CSS and JavaScript
    /// files are complete. What computing takes is left out.
    fn first_render(&self, times: &[Times]) -> Duration {
        let objects = self.graph().map_or(&[][..], |page| &page.objects);
        let needed = objects.iter().zip(times).enumerate();
        let needed = needed.filter(|(number, (object, _))| *number == 0 || object.blocking);
        needed
            .map(|(_, (_, times))| times.completed)
            .max()
            .unwrap_or_default()
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page:{}:{}", self.site, self.mode.name())?;
        super::form::warm(f, self.warm)
    }
}

impl Kind for Page {
    fn client(&self, seed: u64) -> Box<dyn App> {
        static NOTHING: PageGraph = PageGraph {
            objects: Vec::new(),
            activities: Vec::new(),
        };
        // An unknown site does not pass `validate`.
        let page = self.graph().unwrap_or(&NOTHING);
        Box::new(PageClient {
            page,
            mode: self.mode,
            seed,
            start: Start::new(self.warm),
            downloads: Downloads::default(),
            began: None,
            replay: Replay::new(page),
            times: vec![None; page.objects.len()],
            second_wave: false,
            end: None,
        })
    }

    fn validate(&self) -> Result<(), WorkloadError> {
        if self.graph().is_none() {
            let value = format!("\"{}\"", self.site);
            return Err(out_of_range("site", value, page_graph::names()));
        }
        Ok(())
    }

    fn time_limit(&self) -> Duration {
        let objects = self.graph().map_or(&[][..], |page| &page.objects);
        super::completion_limit(objects.iter().map(|object| object.bytes).sum())
    }

    fn primary(&self) -> Metric {
        STREAM_MEAN
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError> {
        let client: &PageClient = network.app(Side::Client).ok_or(ResultError::OtherApp)?;
        let times: Option<Vec<Times>> = client.times.iter().copied().collect();
        let (Some(times), Some(began), Some(end)) = (times, client.began, client.end) else {
            return Err(ResultError::Incomplete);
        };
        let streams = seconds(times.iter().map(Times::completion));
        let first_bytes = times.iter().map(|times| times.first_byte - times.requested);
        let first_bytes = seconds(first_bytes);
        let average = mean(&streams);
        let mut result = WorkloadResult::new(average);
        result.set("stream_mean", average);
        result.set(super::CONNECTED.name, began.as_secs_f64());
        result.set("stream_p95", quantile(&streams, 0.95));
        result.set("first_byte_mean", mean(&first_bytes));
        result.set(
            "first_render",
            (self.first_render(&times) - began).as_secs_f64(),
        );
        result.set("page_load", (end - began).as_secs_f64());
        let requested = times.iter().map(|times| times.requested - began);
        result.series.insert("requested", seconds(requested));
        result.series.insert("stream", streams);
        Ok(result)
    }

    fn bounds(&self, fluid: &Fluid, _seed: u64) -> Vec<(&'static str, f64)> {
        let Some(page) = self.graph() else {
            return Vec::new();
        };
        let line = |object: &Object| request(object, 0).line().len();
        let request = page.objects.iter().map(line).min().unwrap_or(0);
        let sizes = |which: fn(&Object) -> bool| -> Vec<u64> {
            let which = page.objects.iter().filter(|object| which(object));
            which.map(|object| object.bytes).collect()
        };
        // All are requested at the start or later.
        let volume = fluid.object(request, sizes(|_| true).iter().sum());
        let first_byte = fluid.object(request, 1);
        let (streams, way) = match self.mode {
            Mode::TwoWave => {
                let (first, second) = (sizes(|o| o.first_wave), sizes(|o| !o.first_wave));
                let mut streams = fluid.together(request, &first);
                streams.extend(fluid.together(request, &second));
                let ends = |sizes: Vec<u64>| match sizes.iter().sum() {
                    0 => 0.0,
                    bytes => fluid.object(request, bytes),
                };
                (streams, ends(sizes(|o| o.blocking)) + ends(second))
            }
            Mode::Full => {
                let alone = |object: &Object| fluid.object(request, object.bytes);
                let streams: Vec<f64> = page.objects.iter().map(alone).collect();
                let way = Replay::end_with(page, |object| {
                    let time = |seconds| Duration::try_from_secs_f64(seconds);
                    let (first, complete) = (time(first_byte), time(streams[object]));
                    (first.unwrap_or_default(), complete.unwrap_or_default())
                });
                (streams, way.unwrap_or_default().as_secs_f64())
            }
        };
        vec![
            ("stream_mean", mean(&streams)),
            ("stream_p95", quantile(&streams, 0.95)),
            ("first_byte_mean", first_byte),
            ("page_load", volume.max(way)),
        ]
    }
}

/// The request for an object.
const fn request(object: &Object, seed: u64) -> Request {
    Request {
        priority: object.weight,
        ..Request::new(object.bytes, seed)
    }
}

#[derive(Debug)]
struct PageClient {
    page: &'static PageGraph,
    mode: Mode,
    seed: u64,
    start: Start,
    downloads: Downloads,
    began: Option<Duration>,
    /// For [`Mode::Full`].
    replay: Replay,
    times: Vec<Option<Times>>,
    /// Whether the second wave of [`Mode::TwoWave`] was requested.
    second_wave: bool,
    end: Option<Duration>,
}

impl PageClient {
    fn ask(&mut self, cx: &mut AppContext<'_>, object: usize) -> Result<(), AppError> {
        let seed = content::word(self.seed, object as u64);
        let request = request(&self.page.objects[object], seed);
        self.downloads.start(cx, object, request)
    }

    fn ask_wave(&mut self, cx: &mut AppContext<'_>, first: bool) -> Result<(), AppError> {
        for object in 0..self.page.objects.len() {
            if self.page.objects[object].first_wave == first {
                self.ask(cx, object)?;
            }
        }
        Ok(())
    }

    /// Requests the objects that are due.
    fn go_on(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.end.is_some() {
            return Ok(());
        }
        let Some(began) = self.began else {
            self.began = Some(cx.now());
            if self.mode == Mode::TwoWave {
                self.ask_wave(cx, true)?;
            }
            return self.go_on(cx);
        };
        match self.mode {
            Mode::TwoWave => {
                let mut objects = self.page.objects.iter().zip(&self.times);
                let blocked = objects.any(|(object, times)| object.blocking && times.is_none());
                if !self.second_wave && !blocked {
                    self.second_wave = true;
                    self.ask_wave(cx, false)?;
                }
                let mut completed = self.times.iter().map(|times| times.map(|t| t.completed));
                self.end = completed.try_fold(Duration::ZERO, |end, at| Some(end.max(at?)));
            }
            Mode::Full => {
                // The replay's clock starts with the page.
                for object in self.replay.advance(cx.now() - began) {
                    self.ask(cx, object)?;
                }
                self.end = self.replay.end().map(|end| began + end);
            }
        }
        Ok(())
    }
}

impl App for PageClient {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        let begins = self.start.on_event(cx, event);
        self.downloads.on_event(cx, event)?;
        let mut news = begins;
        while let (Some(progress), began) = (self.downloads.poll(), self.began) {
            news = true;
            let since = cx.now() - began.unwrap_or_default();
            match progress {
                Progress::FirstBytes { number } => self.replay.on_first_bytes(number, since),
                Progress::Done { number, times } => {
                    self.replay.on_object(number, since);
                    self.times[number] = Some(times);
                }
            }
        }
        if news { self.go_on(cx) } else { Ok(()) }
    }

    fn next_wakeup(&self) -> Option<Duration> {
        let began = match (self.began, self.mode) {
            (None, _) => return self.start.next_wakeup(),
            (Some(_), Mode::TwoWave) => return None,
            (Some(began), Mode::Full) => began,
        };
        self.replay.next_start().map(|at| began + at)
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.began.is_some() || self.start.on_wakeup(cx.now()) {
            self.go_on(cx)?;
        }
        Ok(())
    }

    /// Does not wait for computations that still run when all objects are complete: their end is
    /// known.
    fn is_complete(&self) -> bool {
        self.end.is_some() && self.downloads.is_idle()
    }
}
