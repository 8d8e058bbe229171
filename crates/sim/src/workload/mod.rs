//! The workloads: what the applications do over a simulated connection, their names in files and on
//! command lines, and their metrics.
//!
//! In all workloads, the server sends, and each request uses its own bidirectional stream. A
//! completion time counts from the request's first byte to the last byte delivered in order to the
//! application. All content is verified byte by byte.
//!
//! | short form | what |
//! |---|---|
//! | `file:2MB` | one download |
//! | `bulk:20s`, `bulk:20s:2s` | goodput of a download without end, after a warm-up |
//! | `messages:2Mbit/s:20MB`, `messages:1Mbit/s:60s:per_message` | real-time messages with a deadline |
//! | `page:google:two_wave`, `page:aws.amazon:full` | a web page |
//! | `requests:100:64kB`, `requests:100:64kB:20ms` | requests and answers, with time to think |
//! | `repeat:2MB:3000s`, `repeat:2MB:3000s:60s` | downloads back to back, counted in windows |
//! | `live:4Mbit/s:60s`, `live:1Mbit/s:60s:messages:twice` | frames or messages with a deadline, over datagrams |
//! | `video:300`, `video:300:5Mbit/s` | DASH-like video of several encodings, or of one |
//!
//! With `:warm` after these forms, the client starts when all paths are in use. Otherwise it starts
//! when the handshake is complete. Other settings follow by name, as in
//! `messages:2Mbit/s:20MB:deadline=50ms`.

mod abr;
mod bulk;
mod download;
mod figures;
mod file;
mod form;
mod live;
mod message_server;
mod messages;
mod object;
mod page;
pub(crate) mod page_graph;
mod repeat;
pub(crate) mod replay;
mod requests;
mod start;
mod video;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use mpquic_proto::TransportConfig;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::Network;
use crate::app::App;
use crate::bound::Fluid;
use crate::units::UnitError;

pub use abr::{Player, RateRule};
pub use bulk::Bulk;
pub use file::File;
pub use live::{Live, Protection};
pub use message_server::{Layout, MessageServer};
pub use messages::Messages;
pub use object::ObjectServer;
pub use page::{Mode, Page};
pub use repeat::Repeat;
pub use requests::Requests;
pub use video::Video;

/// What the applications do over the connection.
///
/// ```
/// use mpquic_sim::workload::Workload;
///
/// let workload: Workload = "file:2MB".parse()?;
/// assert_eq!(workload.primary().name, "completion");
/// let error = "file:2XB".parse::<Workload>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "workload \"file:2XB\": size \"2XB\": unknown unit \"XB\", expected B, kB, MB, GB, KiB, MiB or GiB"
/// );
/// # Ok::<(), mpquic_sim::workload::WorkloadError>(())
/// ```
///
/// Files have such a text, or a table with the key `kind` and the fields of one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Workload {
    /// One download.
    File(File),
    /// An endless download, measured for a given time.
    Bulk(Bulk),
    /// Real-time messages.
    Messages(Messages),
    /// One load of a web page.
    Page(Page),
    /// Requests and responses.
    Requests(Requests),
    /// Downloads back to back.
    Repeat(Repeat),
    /// Video in chunks.
    Video(Video),
    /// Frames or messages with a deadline, over datagrams.
    Live(Live),
}

/// The kinds, for error messages.
const KINDS: &str = "file, bulk, messages, page, requests, repeat, video, live";

impl Workload {
    fn kind(&self) -> &dyn Kind {
        match self {
            Self::File(file) => file,
            Self::Bulk(bulk) => bulk,
            Self::Messages(messages) => messages,
            Self::Page(page) => page,
            Self::Requests(requests) => requests,
            Self::Repeat(repeat) => repeat,
            Self::Video(video) => video,
            Self::Live(live) => live,
        }
    }

    /// The client's application. The seed determines all randomness in the workload.
    pub fn client(&self, seed: u64) -> Box<dyn App> {
        self.kind().client(seed)
    }

    /// The server's application, for a client with the same seed.
    pub fn server(&self, seed: u64) -> Box<dyn App> {
        self.kind().server(seed)
    }

    /// Sets what the workload needs of the transport of both sides, beyond what all have.
    pub fn tune(&self, transport: &mut TransportConfig) {
        if let Self::Live(live) = self {
            live.tune(transport);
        }
    }

    /// What of the workload decides on the randomness of the network, if that is less than all of it: who compares ways to send the
    /// same frames lets all of them meet the same losses and delays.
    pub fn scene(&self) -> Option<String> {
        match self {
            Self::Live(live) => Some(live.scene().to_string()),
            _ => None,
        }
    }

    /// The limit of a run in virtual time. It is generous: a run that exceeds it has failed.
    pub fn time_limit(&self) -> Duration {
        self.kind().time_limit()
    }

    /// The main metric of the workload.
    pub fn primary(&self) -> Metric {
        self.kind().primary()
    }

    /// All metrics in its [`result`](Self::result), including the primary one.
    pub fn metrics(&self) -> &'static [Metric] {
        self.kind().metrics()
    }

    /// The result, after the [`client`](Self::client) is complete.
    ///
    /// # Errors
    ///
    /// If the client is not complete, or runs another workload.
    pub fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError> {
        self.kind().result(network)
    }

    /// The size of the download, if the workload is one download that does not wait for paths.
    pub fn download_size(&self) -> Option<u64> {
        match self {
            Self::File(file) if !file.warm => Some(file.size),
            _ => None,
        }
    }

    /// The size of the download's request, if the workload has a
    /// [`download_size`](Self::download_size).
    pub fn request_size(&self) -> Option<usize> {
        let size = self.download_size()?;
        Some(object::Request::new(size, 0).line().len())
    }

    /// When the client requested its download and when it was complete, if the workload has a
    /// [`download_size`](Self::download_size) and ran over this network.
    pub fn download_times(&self, network: &Network) -> Option<[Duration; 2]> {
        self.download_size()?;
        file::times(network)
    }

    /// See [`fluid_bounds`](crate::fluid_bounds).
    pub(crate) fn bounds(&self, fluid: &Fluid, seed: u64) -> BTreeMap<&'static str, f64> {
        self.kind().bounds(fluid, seed).into_iter().collect()
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// The first invalid setting.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        self.kind().validate()
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let (kind, mut parts) = form::Parts::new(text);
        let workload = match kind {
            "file" => Self::File(File::parse(&mut parts)?),
            "bulk" => Self::Bulk(Bulk::parse(&mut parts)?),
            "messages" => Self::Messages(Messages::parse(&mut parts)?),
            "page" => Self::Page(Page::parse(&mut parts)?),
            "requests" => Self::Requests(Requests::parse(&mut parts)?),
            "repeat" => Self::Repeat(Repeat::parse(&mut parts)?),
            "video" => Self::Video(Video::parse(&mut parts)?),
            "live" => Self::Live(Live::parse(&mut parts)?),
            _ => {
                return Err(WorkloadError::UnknownKind {
                    kind: kind.to_owned(),
                    known: KINDS,
                });
            }
        };
        parts.end()?;
        workload.validate()?;
        Ok(workload)
    }
}

/// The short form. Parsing it gives the same workload.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.fmt(f),
            Self::Bulk(bulk) => bulk.fmt(f),
            Self::Messages(messages) => messages.fmt(f),
            Self::Page(page) => page.fmt(f),
            Self::Requests(requests) => requests.fmt(f),
            Self::Repeat(repeat) => repeat.fmt(f),
            Self::Video(video) => video.fmt(f),
            Self::Live(live) => live.fmt(f),
        }
    }
}

/// The table form, with the same tag as in the serialised [`Workload`].
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Table {
    File(File),
    Bulk(Bulk),
    Messages(Messages),
    Page(Page),
    Requests(Requests),
    Repeat(Repeat),
    Video(Video),
    Live(Live),
}

impl From<Table> for Workload {
    fn from(table: Table) -> Self {
        match table {
            Table::File(file) => Self::File(file),
            Table::Bulk(bulk) => Self::Bulk(bulk),
            Table::Messages(messages) => Self::Messages(messages),
            Table::Page(page) => Self::Page(page),
            Table::Requests(requests) => Self::Requests(requests),
            Table::Repeat(repeat) => Self::Repeat(repeat),
            Table::Video(video) => Self::Video(video),
            Table::Live(live) => Self::Live(live),
        }
    }
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Workload;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a workload: a text such as \"file:2MB\", or a table with a `kind`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Workload, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Workload, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let workload = Workload::from(table);
                workload.validate().map_err(serde::de::Error::custom)?;
                Ok(workload)
            }
        }
        d.deserialize_any(Form)
    }
}

/// What each workload implements.
trait Kind {
    fn client(&self, seed: u64) -> Box<dyn App>;

    fn server(&self, _seed: u64) -> Box<dyn App> {
        Box::new(ObjectServer::new())
    }

    fn validate(&self) -> Result<(), WorkloadError>;

    fn time_limit(&self) -> Duration;

    fn primary(&self) -> Metric;

    fn metrics(&self) -> &'static [Metric];

    fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError>;

    /// The bounds that no run can exceed, for the metrics that have one.
    fn bounds(&self, fluid: &Fluid, seed: u64) -> Vec<(&'static str, f64)>;
}

/// A metric: its name, its unit, and which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// The key in [`WorkloadResult::values`].
    pub name: &'static str,
    /// The unit of the value: "s", "Mbit/s", "%", or "" for a number.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
}

impl Metric {
    const fn lower(name: &'static str, unit: &'static str) -> Self {
        let better = Better::Lower;
        Self { name, unit, better }
    }

    const fn higher(name: &'static str, unit: &'static str) -> Self {
        let better = Better::Higher;
        Self { name, unit, better }
    }
}

/// When the first request was made, from the client's first packet on: the handshake, and with `warm` the other paths.
const CONNECTED: Metric = Metric::lower("connected", "s");

/// Which direction of a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Smaller values are better.
    Lower,
    /// Larger values are better.
    Higher,
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadResult {
    /// The value of [`Workload::primary`].
    pub primary: f64,
    /// The values of [`Workload::metrics`], by name.
    pub values: BTreeMap<&'static str, f64>,
    /// The values behind them: the times of single chunks, streams, messages.
    pub series: BTreeMap<&'static str, Vec<f64>>,
}

impl WorkloadResult {
    const fn new(primary: f64) -> Self {
        Self {
            primary,
            values: BTreeMap::new(),
            series: BTreeMap::new(),
        }
    }

    fn set(&mut self, name: &'static str, value: f64) {
        self.values.insert(name, value);
    }
}

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The network's client runs another workload.
    #[error("the network's client does not run this workload")]
    OtherApp,
    /// The workload is not complete.
    #[error("the workload is not complete")]
    Incomplete,
}

/// Why a workload is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The kind does not exist.
    #[error("unknown workload \"{kind}\", expected one of {known}")]
    UnknownKind {
        /// The kind given.
        kind: String,
        /// The kinds that exist.
        known: &'static str,
    },
    /// A quantity could not be parsed.
    #[error("workload \"{workload}\": {source}")]
    Unit {
        /// The short form.
        workload: String,
        /// What is wrong with it.
        source: UnitError,
    },
    /// A part is not a number.
    #[error("workload \"{workload}\": the {part} is \"{value}\", expected a whole number")]
    Number {
        /// The short form.
        workload: String,
        /// The meaning of the part.
        part: &'static str,
        /// The text of the part.
        value: String,
    },
    /// A part is missing.
    #[error("workload \"{workload}\": the {part} is missing, expected {form}")]
    Missing {
        /// The short form.
        workload: String,
        /// The meaning of the missing part.
        part: &'static str,
        /// What a valid form looks like.
        form: &'static str,
    },
    /// There is a part too many.
    #[error("workload \"{workload}\": \"{part}\" has no meaning there, expected {form}")]
    Surplus {
        /// The short form.
        workload: String,
        /// The part.
        part: String,
        /// What a valid form looks like.
        form: &'static str,
    },
    /// A setting is outside its range.
    #[error("workload setting `{setting}` is {value}, expected {expected}")]
    OutOfRange {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        expected: String,
    },
}

fn at_least_one(setting: &'static str, value: u64) -> Result<(), WorkloadError> {
    if value > 0 {
        return Ok(());
    }
    Err(out_of_range(setting, value, "at least 1"))
}

fn not_zero(setting: &'static str, time: Duration) -> Result<(), WorkloadError> {
    if time.is_zero() {
        return Err(out_of_range(setting, 0, "more than 0"));
    }
    Ok(())
}

fn out_of_range(
    setting: &'static str,
    value: impl ToString,
    expected: impl ToString,
) -> WorkloadError {
    WorkloadError::OutOfRange {
        setting,
        value: value.to_string(),
        expected: expected.to_string(),
    }
}

/// The time that any run may take in addition to its workload.
const PATIENCE: Duration = Duration::from_secs(600);

/// Longer than any run. It keeps sums of times far from overflow.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The time that this many bytes may take: ten minutes, plus their time at 50 kbit/s. The papers'
/// worst links have 2 Mbit/s, 3 % loss and an RTT of 200 ms, where a loss-based controller achieves
/// several times that rate.
fn completion_limit(bytes: u64) -> Duration {
    let time = Duration::from_secs(bytes.saturating_mul(8) / 50_000);
    time.min(CENTURY) + PATIENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_round_trip() {
        for form in [
            "file:2MB",
            "file:1.5kB:warm",
            "bulk:20s",
            "bulk:20s:2s:warm",
            "bulk:500ms:warm",
            "messages:2Mbit/s:20MB",
            "messages:1Mbit/s:60s:per_message:warm:interval=20ms:deadline=50ms:packet=1.2kB",
            "page:google:two_wave",
            "page:aws.amazon:full:warm",
            "requests:100:64kB",
            "requests:100:64kB:20ms:warm:parallel=4",
            "requests:100:64kB:parallel=4",
            "requests:1:1B:warm",
            "repeat:2MB:3000s",
            "repeat:2MB:300s:10s:warm",
            "repeat:2MB:300s:warm",
            "video:300",
            "video:300:5Mbit/s",
            "video:30:500kbit/s,2.5Mbit/s:warm",
            "video:30:chunk=2s:variation=2.5%:buffer=5",
            "video:30:counted:explore=50%",
            "video:30:5Mbit/s:warm:counted:buffer=5:explore=25%",
            "live:4Mbit/s:60s",
            "live:1Mbit/s:10s:messages:twice:warm",
            "live:4Mbit/s:60s:fixed:fps=20:deadline=150ms:key=8:repair=5%:price=10%",
        ] {
            let workload: Workload = form.parse().unwrap();
            assert_eq!(workload.to_string(), form);
            let json = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), workload);
        }
    }

    #[test]
    fn bad_forms_say_what_is_wrong() {
        for (form, message) in [
            (
                "fil:2MB",
                "unknown workload \"fil\", expected one of file, bulk, messages, page, requests, repeat, video, live",
            ),
            (
                "messages:2Mbit/s:20Mb",
                "workload \"messages:2Mbit/s:20Mb\": size \"20Mb\": unknown unit \"Mb\", \
                 expected B, kB, MB, GB, KiB, MiB or GiB",
            ),
            (
                "page:gogle",
                "workload setting `site` is \"gogle\", expected alipay, apple, aws.amazon, booking, chase, \
                 dailymotion, dropbox, ebay, etsy, facebook, google, hao123, imdb, livejournal, reddit, renren, \
                 soundcloud, twitter, vimeo, youtube",
            ),
            (
                "page:google:three_wave",
                "workload \"page:google:three_wave\": \"three_wave\" has no meaning there, \
                 expected page:SITE[:two_wave|:full][:warm], such as page:google:two_wave",
            ),
            (
                "requests:many:64kB",
                "workload \"requests:many:64kB\": the count is \"many\", expected a whole number",
            ),
            (
                "bulk:2s:2s",
                "workload setting `duration` is 2 s, expected more than the warm-up",
            ),
            (
                "file:2MB:chunk=3",
                "workload \"file:2MB:chunk=3\": \"chunk\" has no meaning there, \
                 expected file:SIZE[:warm], such as file:2MB",
            ),
            (
                "requests:1:1kB:parallel=x",
                "workload \"requests:1:1kB:parallel=x\": the parallel is \"x\", \
                 expected a whole number",
            ),
            (
                "video:300:5Mbit/s,0",
                "workload setting `encodings` is [5 Mbit/s, 0 bit/s], expected rates above 0",
            ),
            (
                "file",
                "workload \"file\": the size is missing, expected file:SIZE[:warm], such as file:2MB",
            ),
            (
                "file:2MB:hot",
                "workload \"file:2MB:hot\": \"hot\" has no meaning there, \
                 expected file:SIZE[:warm], such as file:2MB",
            ),
            (
                "file:0",
                "workload setting `size` is 0, expected at least 1",
            ),
            (
                "file:-2MB",
                "workload \"file:-2MB\": size \"-2MB\": negative, \
                 expected B, kB, MB, GB, KiB, MiB or GiB",
            ),
        ] {
            assert_eq!(form.parse::<Workload>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn files_hold_a_text_or_a_table() {
        let expected = Workload::File(File::new(2_000_000));
        for text in [
            "\"file:2MB\"",
            "{\"kind\":\"file\",\"size\":\"2 MB\"}",
            "{\"size\":\"2000 kB\",\"kind\":\"file\",\"warm\":false}",
        ] {
            let workload: Workload = serde_json::from_str(text).unwrap();
            assert_eq!(workload, expected, "{text}");
        }
        let written = serde_json::to_string(&expected).unwrap();
        assert_eq!(
            serde_json::from_str::<Workload>(&written).unwrap(),
            expected
        );
        for (text, part) in [
            ("{\"kind\":\"fil\"}", "expected one of `file`, `bulk`"),
            ("{\"kind\":\"file\"}", "missing field `size`"),
            (
                "{\"kind\":\"file\",\"size\":\"2 MB\",\"sise\":1}",
                "unknown field `sise`",
            ),
            ("{\"kind\":\"file\",\"size\":\"0\"}", "at least 1"),
            ("7", "expected a workload"),
        ] {
            let error = serde_json::from_str::<Workload>(text).unwrap_err();
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
