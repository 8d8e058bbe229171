//! Reads a qlog file (JSON text sequences, RFC 7464) and follows the connection's paths through it. The file is untrusted:
//! what is not understood is passed over, as qlog asks of tools.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::view::text;

/// Paths that are followed at most: a picture has no room for more.
const MAX_PATHS: usize = 64;

/// Characters of a text that are kept.
const MAX_TEXT: usize = 300;

/// Events in the lives of paths, and different answers of the scheduler, that are kept at most: no reader takes in more.
const MAX_ROWS: usize = 10_000;

/// Events after more than 30 years are passed over: no plot has an axis for them.
const MAX_SECONDS: f64 = 1e9;

/// Points of time per series, from which rates and shares are taken.
const BINS: usize = 80;

/// No bin is shorter, seconds.
const MIN_BIN: f64 = 0.02;

/// Points of a line that are kept; beyond, neighbours are merged.
const MAX_POINTS: usize = 4000;

/// Why a file is not drawn.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum Fault {
    #[error("{0}")]
    Unread(String),
    #[error("not a qlog file: it does not begin with a JSON text sequence's separator (RFC 7464)")]
    NotFramed,
    #[error("not a qlog file: its first text is not a header with a trace")]
    NoHeader,
    #[error("times are relative to the event before, which is not read")]
    RelativeTimes,
    #[error("no event in it")]
    Empty,
}

/// Something in the life of a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Life {
    /// Seconds.
    pub(crate) at: f64,
    pub(crate) path: u32,
    pub(crate) what: String,
}

/// One path. Times are in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SeenPath {
    pub(crate) id: u32,
    pub(crate) addresses: String,
    /// Bytes.
    pub(crate) cwnd: Vec<(f64, f64)>,
    pub(crate) in_flight: Vec<(f64, f64)>,
    /// Packets.
    pub(crate) packets_in_flight: Vec<(f64, f64)>,
    /// Milliseconds.
    pub(crate) smoothed_rtt: Vec<(f64, f64)>,
    /// Bits per second over each bin.
    pub(crate) sent_rate: Vec<(f64, f64)>,
    pub(crate) received_rate: Vec<(f64, f64)>,
    /// Packets lost so far.
    pub(crate) losses: Vec<(f64, f64)>,
    /// The part of the scheduler's packets that this path had in each bin, percent.
    pub(crate) share: Vec<(f64, f64)>,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) lost: u64,
}

/// A connection as one side saw it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) title: String,
    pub(crate) side: String,
    pub(crate) began: Option<String>,
    pub(crate) end_s: f64,
    pub(crate) events: usize,
    pub(crate) left_out: u64,
    pub(crate) closed: Option<String>,
    pub(crate) paths: Vec<SeenPath>,
    pub(crate) life: Vec<Life>,
    /// Bytes.
    pub(crate) out_of_order: Vec<(f64, f64)>,
    /// The part of each bin in which the scheduler's last word was "wait", percent.
    pub(crate) waiting: Vec<(f64, f64)>,
    /// What the scheduler chose, why, and how often it changed to that.
    pub(crate) decisions: BTreeMap<(String, String), u64>,
}

#[derive(Deserialize)]
struct Line<'a> {
    time: f64,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    data: Value,
}

/// What is kept of a path while its file is read.
#[derive(Default)]
struct Follow {
    /// Sizes of packets that have to be acknowledged, by number space and number.
    flying: HashMap<(Space, u64), u64>,
    bytes: u64,
    sent: Vec<(f64, u64)>,
    received: Vec<(f64, u64)>,
    scheduled: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Space {
    Initial,
    Handshake,
    Data,
}

impl Space {
    fn of(packet_type: &Value) -> Self {
        match packet_type.as_str() {
            Some("initial") => Self::Initial,
            Some("handshake") => Self::Handshake,
            _ => Self::Data,
        }
    }
}

#[derive(Default)]
struct Reader {
    seen: Seen,
    follow: Vec<Follow>,
    waits: Vec<(f64, f64)>,
    waiting_since: Option<f64>,
}

impl Seen {
    /// Reads the texts of a file: what is between its separators, one after the other.
    pub(crate) fn read<E: Display>(
        mut texts: impl Iterator<Item = Result<String, E>>,
    ) -> Result<Self, Fault> {
        let mut next = || {
            let text = texts.next().transpose();
            text.map_err(|error| Fault::Unread(error.to_string()))
        };
        if !next()?.is_some_and(|before| before.trim().is_empty()) {
            return Err(Fault::NotFramed);
        }
        let header: Value = next()?
            .and_then(|text| serde_json::from_str(&text).ok())
            .ok_or(Fault::NoHeader)?;
        let trace = header.get("trace").ok_or(Fault::NoHeader)?;
        let common = &trace["common_fields"];
        if common["time_format"] == "relative_to_previous_event" {
            return Err(Fault::RelativeTimes);
        }
        let text_of = |value: &Value| value.as_str().map(shortened);
        let mut reader = Reader::default();
        reader.seen.side = text_of(&trace["vantage_point"]["type"]).unwrap_or_default();
        reader.seen.title = text_of(&common["group_id"])
            .or_else(|| text_of(&header["title"]))
            .unwrap_or_default();
        reader.seen.began = text_of(&common["reference_time"]["wall_clock_time"]);
        let mut first = None;
        while let Some(text) = next()? {
            // A file that is still being written may end anywhere.
            let Ok(line) = serde_json::from_str::<Line<'_>>(&text) else {
                continue;
            };
            let begin = *first.get_or_insert(line.time);
            let at = (line.time - begin).max(0.0) / 1e3;
            if at < MAX_SECONDS {
                reader.event(at, &line.name, &line.data);
            }
        }
        reader.finish()
    }
}

fn shortened(text: &str) -> String {
    text::shortened(text, MAX_TEXT).into_owned()
}

fn number(value: &Value) -> Option<u64> {
    // The main schema lets writers put large numbers into strings.
    value
        .as_u64()
        .or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

/// Whether a packet has a frame that must be acknowledged (RFC 9000 section 13.2).
fn elicits(frames: &Value) -> bool {
    let frames = frames.as_array().map_or(&[][..], Vec::as_slice);
    frames.iter().any(|frame| {
        let name = frame["frame_type"].as_str().unwrap_or_default();
        !matches!(name, "ack" | "path_ack" | "padding" | "connection_close")
    })
}

impl Reader {
    fn event(&mut self, at: f64, name: &str, data: &Value) {
        self.seen.events += 1;
        self.seen.end_s = self.seen.end_s.max(at);
        let path = number(&data["path_id"]).and_then(|id| u32::try_from(id).ok());
        match name {
            "quic:packet_sent" => self.sent(at, path.unwrap_or(0), data),
            "quic:packet_received" => {
                let size = number(&data["raw"]["length"]).unwrap_or(0);
                if let Some((seen, follow)) = self.path(path.unwrap_or(0)) {
                    seen.received_bytes = seen.received_bytes.saturating_add(size);
                    follow.received.push((at, size));
                }
            }
            "quic:packets_acked" => {
                let space = Space::of(&data["packet_number_space"]);
                let numbers = data["packet_numbers"].as_array();
                let numbers = numbers.map_or(&[][..], Vec::as_slice);
                self.settled(
                    at,
                    path.unwrap_or(0),
                    space,
                    numbers.iter().filter_map(number),
                );
            }
            "quic:packet_lost" => self.lost(at, path.unwrap_or(0), data),
            "quic:recovery_metrics_updated" => self.metrics(at, path.unwrap_or(0), data),
            "quic:tuple_assigned" => self.tuple(path, data),
            "quic:connection_closed" => {
                let reason = data["reason"].as_str().or_else(|| data["trigger"].as_str());
                self.seen.closed = reason.map(shortened);
            }
            "mpquic:path_updated" => {
                let what = shortened(data["new"].as_str().unwrap_or_default());
                let path = path.unwrap_or(0);
                if self.path(path).is_some() && self.seen.life.len() < MAX_ROWS {
                    self.seen.life.push(Life { at, path, what });
                }
            }
            "mpquic:out_of_order_updated" => {
                let bytes = number(&data["bytes"]).unwrap_or(0);
                self.seen.out_of_order.push((at, bytes as f64));
            }
            "mpquic:scheduler_decided" => self.decided(at, path, data),
            "mpquic:records_left_out" => {
                let count = number(&data["count"]).unwrap_or(0);
                self.seen.left_out = self.seen.left_out.saturating_add(count);
            }
            _ => {}
        }
    }

    /// A path's series; none if there are too many paths.
    fn path(&mut self, id: u32) -> Option<(&mut SeenPath, &mut Follow)> {
        let paths = &mut self.seen.paths;
        let place = match paths.iter().position(|path| path.id == id) {
            Some(place) => place,
            None if paths.len() < MAX_PATHS => {
                paths.push(SeenPath {
                    id,
                    ..SeenPath::default()
                });
                self.follow.push(Follow::default());
                paths.len() - 1
            }
            None => return None,
        };
        Some((&mut paths[place], &mut self.follow[place]))
    }

    fn sent(&mut self, at: f64, path: u32, data: &Value) {
        let size = number(&data["raw"]["length"]).unwrap_or(0);
        let header = &data["header"];
        let (space, packet) = (
            Space::of(&header["packet_type"]),
            number(&header["packet_number"]),
        );
        let Some((seen, follow)) = self.path(path) else {
            return;
        };
        seen.sent_bytes = seen.sent_bytes.saturating_add(size);
        follow.sent.push((at, size));
        if number(&data["decision"]).is_some() {
            follow.scheduled.push(at);
        }
        if let Some(packet) = packet
            && elicits(&data["frames"])
            && follow.flying.insert((space, packet), size).is_none()
        {
            follow.bytes = follow.bytes.saturating_add(size);
            note_flight(seen, follow, at);
        }
    }

    fn settled(&mut self, at: f64, path: u32, space: Space, numbers: impl Iterator<Item = u64>) {
        let Some((seen, follow)) = self.path(path) else {
            return;
        };
        for packet in numbers {
            if let Some(size) = follow.flying.remove(&(space, packet)) {
                follow.bytes = follow.bytes.saturating_sub(size);
            }
        }
        note_flight(seen, follow, at);
    }

    fn lost(&mut self, at: f64, path: u32, data: &Value) {
        let header = &data["header"];
        let space = Space::of(&header["packet_type"]);
        self.settled(
            at,
            path,
            space,
            number(&header["packet_number"]).into_iter(),
        );
        if data["is_mtu_probe_packet"] == true {
            return;
        }
        if let Some((seen, _)) = self.path(path) {
            if seen.losses.is_empty() {
                seen.losses.push((0.0, 0.0));
            }
            seen.lost += 1;
            seen.losses.push((at, seen.lost as f64));
        }
    }

    fn metrics(&mut self, at: f64, path: u32, data: &Value) {
        let Some((seen, _)) = self.path(path) else {
            return;
        };
        if let Some(window) = number(&data["congestion_window"]) {
            seen.cwnd.push((at, window as f64));
        }
        if let Some(rtt) = data["smoothed_rtt"].as_f64() {
            seen.smoothed_rtt.push((at, rtt));
        }
    }

    fn tuple(&mut self, path: Option<u32>, data: &Value) {
        let end = |end: &Value| {
            let ip = end["ip_v4"].as_str().or_else(|| end["ip_v6"].as_str())?;
            let port = number(&end["port_v4"]).or_else(|| number(&end["port_v6"]))?;
            Some(match end["ip_v6"].is_string() {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            })
        };
        if let (Some(path), Some(local), Some(remote)) =
            (path, end(&data["tuple_local"]), end(&data["tuple_remote"]))
            && let Some((seen, _)) = self.path(path)
        {
            seen.addresses = shortened(&format!("{local} to {remote}"));
        }
    }

    fn decided(&mut self, at: f64, path: Option<u32>, data: &Value) {
        let choice = data["choice"].as_str().unwrap_or_default();
        let waits = choice == "wait";
        match (waits, self.waiting_since) {
            (true, None) => self.waiting_since = Some(at),
            (false, Some(since)) => {
                self.waits.push((since, at));
                self.waiting_since = None;
            }
            _ => {}
        }
        let what = match path {
            Some(path) => format!("{choice} on path {path}"),
            None => choice.to_owned(),
        };
        let kind = data["data"].as_str().filter(|kind| *kind != "next");
        let what = kind.map_or_else(|| what.clone(), |kind| format!("{what}, {kind}"));
        let why = data["why"].as_str().unwrap_or_default();
        let answer = (shortened(&what), shortened(why));
        let known = self.seen.decisions.contains_key(&answer);
        if known || self.seen.decisions.len() < MAX_ROWS {
            *self.seen.decisions.entry(answer).or_default() += 1;
        }
    }

    fn finish(mut self) -> Result<Seen, Fault> {
        if self.seen.events == 0 {
            return Err(Fault::Empty);
        }
        let end = self.seen.end_s;
        if let Some(since) = self.waiting_since {
            self.waits.push((since, end));
        }
        let bin = (end / BINS as f64).max(MIN_BIN);
        let bins = (end / bin).ceil().max(1.0) as usize;
        let slot = |at: f64| ((at / bin) as usize).min(bins - 1);
        let mut all = vec![0_u64; bins];
        for at in self.follow.iter().flat_map(|follow| &follow.scheduled) {
            all[slot(*at)] += 1;
        }
        for (seen, follow) in self.seen.paths.iter_mut().zip(&self.follow) {
            let rate = |bytes: &[(f64, u64)]| {
                let mut sums = vec![0_u64; bins];
                for (at, size) in bytes {
                    let sum = &mut sums[slot(*at)];
                    *sum = sum.saturating_add(*size);
                }
                let points = sums.iter().enumerate();
                let points = points.map(|(n, sum)| (n as f64 * bin, *sum as f64 * 8.0 / bin));
                points.collect()
            };
            seen.sent_rate = rate(&follow.sent);
            seen.received_rate = rate(&follow.received);
            let mut own = vec![0_u64; bins];
            for at in &follow.scheduled {
                own[slot(*at)] += 1;
            }
            let points = own.iter().zip(&all).enumerate();
            let points = points.filter(|(_, (_, all))| **all > 0);
            seen.share = points
                .map(|(n, (own, all))| (n as f64 * bin, 100.0 * *own as f64 / *all as f64))
                .collect();
            for series in [
                &mut seen.cwnd,
                &mut seen.in_flight,
                &mut seen.packets_in_flight,
                &mut seen.smoothed_rtt,
                &mut seen.losses,
            ] {
                thin(series);
            }
        }
        let mut waited = vec![0.0; bins];
        for &(from, to) in &self.waits {
            for (n, waited) in waited.iter_mut().enumerate().skip(slot(from)) {
                let (low, high) = (n as f64 * bin, (n + 1) as f64 * bin);
                if low >= to {
                    break;
                }
                *waited += (to.min(high) - from.max(low)).max(0.0);
            }
        }
        if !self.waits.is_empty() {
            let points = waited.iter().enumerate();
            self.seen.waiting = points
                .map(|(n, waited)| (n as f64 * bin, 100.0 * waited / bin))
                .collect();
        }
        thin(&mut self.seen.out_of_order);
        self.seen.paths.sort_by_key(|path| path.id);
        Ok(self.seen)
    }
}

/// What is in flight on a path has changed.
fn note_flight(seen: &mut SeenPath, follow: &Follow, at: f64) {
    seen.in_flight.push((at, follow.bytes as f64));
    seen.packets_in_flight
        .push((at, follow.flying.len() as f64));
}

/// Merges neighbours until the line is short enough to be drawn; of each group, the lowest and the highest point stay.
fn thin(points: &mut Vec<(f64, f64)>) {
    if points.len() <= MAX_POINTS {
        return;
    }
    let group = points.len().div_ceil(MAX_POINTS / 2);
    let extremes = points.chunks(group).flat_map(|chunk| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let low = chunk.iter().min_by(by_value).copied();
        let high = chunk.iter().max_by(by_value).copied();
        let mut both: Vec<_> = low.into_iter().chain(high).collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        both
    });
    *points = extremes.collect();
}
