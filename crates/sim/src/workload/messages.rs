//! The workload `messages`: real-time messages with deadlines. It measures how many are in time,
//! and how late the others are.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use mpquic_proto::{Dir, Event, Side, StreamEvent, StreamId};
use serde::{Deserialize, Serialize};

use super::figures::{mean, quantile, seconds};
use super::form::Parts;
use super::message_server::{HEADER, Layout, MessageRequest, MessageServer};
use super::start::Start;
use super::{Kind, Metric, ResultError, WorkloadError, WorkloadResult, out_of_range};
use crate::app::{App, AppContext};
use crate::bound::Fluid;
use crate::stream_io::{Read, finish, read, write_all};
use crate::{AppError, Network, content, units};

/// Real-time messages of one size, which the server creates at regular intervals.
///
/// As in Peekaboo's evaluation, a message consists of packets of 1000 bytes: 8 for 2 Mbit/s and 4
/// for 1 Mbit/s. There is one message each 33 ms, and its deadline is 33 ms later. A message in
/// time has lateness 0. All messages use one stream, as in that evaluation, so each waits for those
/// before it. Alternatively, each message has its own stream, and the transport knows its deadline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// The nominal rate in bit/s, rounded to whole packets per message. In files: a text such as "2
    /// Mbit/s".
    #[serde(with = "units::rate")]
    pub rate: u64,
    /// The total size in bytes, rounded up to whole messages; set this or `duration`. In files: a
    /// text.
    #[serde(
        default,
        with = "units::size::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub total: Option<u64>,
    /// How long messages are created; set this or `total`. In files: a text.
    #[serde(
        default,
        with = "units::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Duration>,
    /// The time between messages. In files: a text; default: "33 ms".
    #[serde(default = "frame", with = "units::time")]
    pub interval: Duration,
    /// The time from a message's creation to its deadline. In files: a text; default: "33 ms".
    #[serde(default = "frame", with = "units::time")]
    pub deadline: Duration,
    /// The size of the packets that make up a message, in bytes. In files: a text; default: "1 kB".
    #[serde(default = "kilobyte", with = "units::size")]
    pub packet: u64,
    /// How messages are placed on streams. Default: one stream for all.
    #[serde(default)]
    pub layout: Layout,
    /// Whether the client waits with its request until all paths are in use. By default, it waits
    /// only for the handshake.
    #[serde(default)]
    pub warm: bool,
}

const fn frame() -> Duration {
    Duration::from_millis(33)
}

const fn kilobyte() -> u64 {
    1000
}

const FORM: &str = "messages:RATE:BYTES_OR_TIME[:per_message][:warm][:interval=TIME]\
                    [:deadline=TIME][:packet=SIZE], such as messages:2Mbit/s:20MB";

const IN_TIME: Metric = Metric::higher("in_time", "%");
const METRICS: &[Metric] = &[
    IN_TIME,
    Metric::lower("lateness_mean", "s"),
    Metric::lower("lateness_p95", "s"),
    Metric::lower("delay_mean", "s"),
    Metric::lower("delay_p95", "s"),
];

impl Messages {
    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, WorkloadError> {
        parts.form(FORM);
        let rate = parts.rate("rate")?;
        let extent = parts.required("total")?;
        let (total, duration) = match (units::size::parse(extent), units::time::parse(extent)) {
            (Ok(bytes), _) => (Some(bytes), None),
            (_, Ok(time)) => (None, Some(time)),
            (bytes, _) => (Some(parts.unit(bytes)?), None),
        };
        let layout = if parts.flag("per_message") {
            Layout::PerMessage
        } else {
            Layout::OneStream
        };
        Ok(Self {
            rate,
            total,
            duration,
            interval: parts.named_time("interval")?.unwrap_or_else(frame),
            deadline: parts.named_time("deadline")?.unwrap_or_else(frame),
            packet: parts.named_size("packet")?.unwrap_or_else(kilobyte),
            layout,
            warm: parts.flag("warm"),
        })
    }

    /// The size of each message: whole packets, at least one.
    pub fn message_bytes(&self) -> u64 {
        let bytes = self.rate as f64 / 8.0 * self.interval.as_secs_f64();
        let packets = (bytes / self.packet.max(1) as f64).round().max(1.0) as u64;
        packets.saturating_mul(self.packet)
    }

    /// The number of messages.
    pub fn count(&self) -> u64 {
        let by_time = |time: Duration| time.as_nanos() / self.interval.as_nanos().max(1);
        let by_bytes = |bytes: u64| bytes.div_ceil(self.message_bytes().max(1));
        let count = match (self.total, self.duration) {
            (Some(bytes), _) => by_bytes(bytes),
            (None, Some(time)) => u64::try_from(by_time(time)).unwrap_or(u64::MAX),
            (None, None) => 1,
        };
        count.max(1)
    }
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use super::form::{named, rate, size, time, warm};

        let extent = match (self.total, self.duration) {
            (None, Some(duration)) => time(duration),
            (total, _) => size(total.unwrap_or(0)),
        };
        write!(f, "messages:{}:{extent}", rate(self.rate))?;
        if self.layout == Layout::PerMessage {
            f.write_str(":per_message")?;
        }
        warm(f, self.warm)?;
        named(f, "interval", self.interval, frame(), time)?;
        named(f, "deadline", self.deadline, frame(), time)?;
        named(f, "packet", self.packet, kilobyte(), size)
    }
}

impl Kind for Messages {
    fn client(&self, seed: u64) -> Box<dyn App> {
        Box::new(MessageClient {
            request: MessageRequest {
                layout: self.layout,
                bytes: self.message_bytes(),
                count: self.count(),
                interval: self.interval,
                deadline: self.deadline,
                seed,
            },
            start: Start::new(self.warm),
            asked: None,
            to_send: Vec::new(),
            partial: BTreeMap::new(),
            next_number: 0,
            delays: BTreeMap::new(),
            ended: false,
        })
    }

    fn server(&self, _seed: u64) -> Box<dyn App> {
        Box::new(MessageServer::new())
    }

    fn validate(&self) -> Result<(), WorkloadError> {
        super::at_least_one("rate", self.rate)?;
        super::not_zero("interval", self.interval)?;
        super::not_zero("deadline", self.deadline)?;
        super::at_least_one("packet", self.packet)?;
        if self.total.is_some() == self.duration.is_some() {
            let given = if self.total.is_some() {
                "both"
            } else {
                "neither"
            };
            return Err(out_of_range("total", given, "either `total` or `duration`"));
        }
        if self.message_bytes() < HEADER as u64 {
            let bytes = units::size::show(self.message_bytes());
            return Err(out_of_range("packet", bytes, "messages of at least 16 B"));
        }
        Ok(())
    }

    fn time_limit(&self) -> Duration {
        let bytes = self.message_bytes().saturating_mul(self.count());
        let making = self.interval.as_secs_f64() * self.count() as f64;
        let making = Duration::try_from_secs_f64(making).unwrap_or(super::CENTURY);
        super::completion_limit(bytes) + making.min(super::CENTURY)
    }

    fn primary(&self) -> Metric {
        IN_TIME
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError> {
        let client: &MessageClient = network.app(Side::Client).ok_or(ResultError::OtherApp)?;
        if client.delays.len() as u64 != self.count() {
            return Err(ResultError::Incomplete);
        }
        let lateness = |delay: &Duration| delay.saturating_sub(self.deadline);
        let in_time = client
            .delays
            .values()
            .filter(|delay| **delay <= self.deadline);
        let in_time = 100.0 * in_time.count() as f64 / client.delays.len() as f64;
        let late = seconds(client.delays.values().map(lateness));
        let delays = seconds(client.delays.values().copied());
        let mut result = WorkloadResult::new(in_time);
        result.set("in_time", in_time);
        result.set("lateness_mean", mean(&late));
        result.set("lateness_p95", quantile(&late, 0.95));
        result.set("delay_mean", mean(&delays));
        result.set("delay_p95", quantile(&delays, 0.95));
        result.series.insert("lateness", late);
        result.series.insert("delay", delays);
        Ok(result)
    }

    /// On one stream, a message does not arrive before the messages created earlier. Together, they
    /// take at least the time of all their bytes, counted from the creation of the first of them.
    /// On separate streams, each message takes at least the time that it would take alone. No more
    /// messages can be in time than fit between the creation of the first one and the deadline of
    /// the last one.
    fn bounds(&self, fluid: &Fluid, _seed: u64) -> Vec<(&'static str, f64)> {
        let (bytes, count) = (self.message_bytes() as f64, self.count());
        let (interval, deadline) = (self.interval.as_secs_f64(), self.deadline.as_secs_f64());
        let mut delay: f64 = 0.0;
        let delays: Vec<_> = (0..count)
            .map(|number| {
                let before = match self.layout {
                    Layout::OneStream => number as f64,
                    Layout::PerMessage => 0.0,
                };
                let together = fluid.delivery((before + 1.0) * bytes) - before * interval;
                delay = delay.max(together);
                delay
            })
            .collect();
        let late: Vec<_> = delays
            .iter()
            .map(|delay| (delay - deadline).max(0.0))
            .collect();
        let in_time = late.iter().filter(|late| **late == 0.0).count() as f64;
        let fit = fluid.delivered((count - 1) as f64 * interval + deadline) / bytes;
        vec![
            ("in_time", 100.0 * in_time.min(fit.floor()) / count as f64),
            ("lateness_mean", mean(&late)),
            ("lateness_p95", quantile(&late, 0.95)),
            ("delay_mean", mean(&delays)),
            ("delay_p95", quantile(&delays, 0.95)),
        ]
    }
}

#[derive(Debug)]
struct MessageClient {
    request: MessageRequest,
    start: Start,
    /// The stream of the request, and of all messages with [`Layout::OneStream`].
    asked: Option<StreamId>,
    to_send: Vec<u8>,
    /// The received parts of incomplete messages, by stream.
    partial: BTreeMap<StreamId, Vec<u8>>,
    /// The next expected number, with [`Layout::OneStream`].
    next_number: u64,
    /// The time from creation to delivery, by message number.
    delays: BTreeMap<u64, Duration>,
    /// The request's stream was read to its end.
    ended: bool,
}

impl MessageClient {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        let Some(id) = cx.connection.streams().open(Dir::Bi) else {
            return Err(AppError::Other("no stream for the request".into()));
        };
        self.asked = Some(id);
        self.to_send = self.request.line();
        self.send(cx, id)
    }

    fn send(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        if !self.to_send.is_empty() && write_all(cx, id, &mut self.to_send)? {
            finish(cx, id)?;
        }
        Ok(())
    }

    fn read(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        if self.asked != Some(id) && !self.partial.contains_key(&id) {
            return Ok(());
        }
        loop {
            match read(cx, id)? {
                Read::Blocked => return Ok(()),
                Read::Data(data) => self.take(cx, id, &data)?,
                Read::End => {
                    if self
                        .partial
                        .remove(&id)
                        .is_some_and(|rest| !rest.is_empty())
                    {
                        return Err(wrong(id, "it ends within a message".into()));
                    }
                    self.ended |= self.asked == Some(id);
                    return Ok(());
                }
            }
        }
    }

    fn take(&mut self, cx: &AppContext<'_>, id: StreamId, mut data: &[u8]) -> Result<(), AppError> {
        let bytes = self.request.bytes as usize;
        while !data.is_empty() {
            let message = self.partial.entry(id).or_default();
            let more = data.len().min(bytes - message.len());
            message.extend_from_slice(&data[..more]);
            data = &data[more..];
            if message.len() == bytes {
                let message = std::mem::take(message);
                self.on_message(cx, id, &message)?;
            }
        }
        Ok(())
    }

    fn on_message(
        &mut self,
        cx: &AppContext<'_>,
        id: StreamId,
        message: &[u8],
    ) -> Result<(), AppError> {
        let word = |at: usize| {
            let bytes = message.get(at..at + 8).and_then(|b| b.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let (number, made) = (word(0), Duration::from_nanos(word(8)));
        let expected = match self.request.layout {
            Layout::OneStream => number == self.next_number,
            Layout::PerMessage => number < self.request.count,
        };
        if !expected || made > cx.now() {
            return Err(wrong(id, format!("message {number} of {made:?}")));
        }
        let seed = self.request.content_seed(number);
        content::verify(seed, 0, message.get(HEADER..).unwrap_or_default())
            .map_err(|offset| AppError::Mismatch { stream: id, offset })?;
        self.next_number += 1;
        if self.delays.insert(number, cx.now() - made).is_some() {
            return Err(wrong(id, format!("message {number} twice")));
        }
        Ok(())
    }
}

fn wrong(stream: StreamId, message: String) -> AppError {
    AppError::Protocol { stream, message }
}

impl App for MessageClient {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        if self.start.on_event(cx, event) {
            self.begin(cx)?;
        }
        match *event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(id) = cx.connection.streams().accept(Dir::Uni) {
                    self.partial.insert(id, Vec::new());
                    self.read(cx, id)?;
                }
                Ok(())
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(cx, id),
            Event::Stream(StreamEvent::Writable { id }) => self.send(cx, id),
            _ => Ok(()),
        }
    }

    fn next_wakeup(&self) -> Option<Duration> {
        self.start.next_wakeup()
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.start.on_wakeup(cx.now()) {
            self.begin(cx)?;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.ended && self.delays.len() as u64 == self.request.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(form: &str) -> Messages {
        match form.parse() {
            Ok(super::super::Workload::Messages(messages)) => messages,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sizes_are_peekaboos() {
        let two = messages("messages:2Mbit/s:20MB");
        assert_eq!((two.message_bytes(), two.count()), (8000, 2500));
        let one = messages("messages:1Mbit/s:20MB");
        assert_eq!((one.message_bytes(), one.count()), (4000, 5000));
        // 10 s / 33 ms = 303.03.
        assert_eq!(messages("messages:2Mbit/s:10s").count(), 303);
        // Never less than one packet.
        assert_eq!(messages("messages:1kbit/s:10s").message_bytes(), 1000);
    }
}
