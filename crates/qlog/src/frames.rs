//! Frames as they are written: by the QUIC event schema, and in its style where RFC 10069 and QUIC Acknowledgment Frequency
//! have frames that it does not know.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::events::Raw;
use crate::hex::Hex;
use crate::record::{Frame, Plain};

/// A frame, with what followed it.
#[derive(Debug, Clone)]
pub(crate) struct WrittenFrame {
    pub(crate) frame: Frame,
    /// Of an ACK frame: from, to; largest first.
    pub(crate) ranges: Vec<(u64, u64)>,
    pub(crate) ecn: Option<[u64; 3]>,
    /// The exponent of ACK Delay fields of whoever sent it.
    pub(crate) exponent: u8,
}

/// An AckRange: one number where both are the same.
struct Range(u64, u64);

impl Serialize for Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(from, to) = *self;
        match from == to {
            true => serializer.collect_seq([from]),
            false => serializer.collect_seq([from, to]),
        }
    }
}

struct Ranges<'a>(&'a [(u64, u64)]);

impl Serialize for Ranges<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|&(from, to)| Range(from, to)))
    }
}

/// The name of a frame that is a name and a few numbers, and the names of the numbers.
fn plain(frame: Plain) -> (&'static str, &'static [&'static str]) {
    match frame {
        Plain::Padding => ("padding", &["payload_length"]),
        Plain::Ping => ("ping", &[]),
        Plain::ResetStream => ("reset_stream", &["stream_id", "error_code", "final_size"]),
        Plain::StopSending => ("stop_sending", &["stream_id", "error_code"]),
        Plain::Crypto => ("crypto", &["offset", "length"]),
        Plain::NewToken => ("new_token", &["length"]),
        Plain::MaxData => ("max_data", &["maximum"]),
        Plain::MaxStreamData => ("max_stream_data", &["stream_id", "maximum"]),
        Plain::MaxStreamsBidi | Plain::MaxStreamsUni => ("max_streams", &["maximum"]),
        Plain::DataBlocked => ("data_blocked", &["limit"]),
        Plain::StreamDataBlocked => ("stream_data_blocked", &["stream_id", "limit"]),
        Plain::StreamsBlockedBidi | Plain::StreamsBlockedUni => ("streams_blocked", &["limit"]),
        Plain::RetireConnectionId => ("retire_connection_id", &["sequence_number"]),
        Plain::PathRetireConnectionId => {
            ("path_retire_connection_id", &["path_id", "sequence_number"])
        }
        Plain::PathChallenge => ("path_challenge", &["data"]),
        Plain::PathResponse => ("path_response", &["data"]),
        Plain::HandshakeDone => ("handshake_done", &[]),
        Plain::AckFrequency => ("ack_frequency", &["sequence_number"]),
        Plain::ImmediateAck => ("immediate_ack", &[]),
        Plain::Datagram => ("datagram", &["length"]),
        Plain::PathAbandon => ("path_abandon", &["path_id", "error_code"]),
        Plain::PathStatusAvailable => ("path_status_available", &["path_id", "sequence_number"]),
        Plain::PathStatusBackup => ("path_status_backup", &["path_id", "sequence_number"]),
        Plain::MaxPathId => ("max_path_id", &["maximum"]),
        Plain::PathsBlocked => ("paths_blocked", &["limit"]),
        Plain::PathCidsBlocked => ("path_cids_blocked", &["path_id", "next_sequence_number"]),
        Plain::Unknown => ("unknown", &["frame_type_bytes"]),
    }
}

impl Serialize for WrittenFrame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.frame {
            Frame::Stream {
                id,
                offset,
                length,
                fin,
            } => {
                map.serialize_entry("frame_type", "stream")?;
                map.serialize_entry("stream_id", id)?;
                map.serialize_entry("offset", offset)?;
                if *fin {
                    map.serialize_entry("fin", fin)?;
                }
                map.serialize_entry("raw", &Raw { length: *length })?;
            }
            Frame::Ack {
                path,
                delay,
                left_out,
            } => {
                match path {
                    None => map.serialize_entry("frame_type", "ack")?,
                    Some(path) => {
                        map.serialize_entry("frame_type", "path_ack")?;
                        map.serialize_entry("path_id", path)?;
                    }
                }
                let micros = delay.checked_shl(self.exponent.into()).unwrap_or(u64::MAX);
                map.serialize_entry("ack_delay", &((micros as f64 / 1000.0) as f32))?;
                map.serialize_entry("acked_ranges", &Ranges(&self.ranges))?;
                if *left_out > 0 {
                    map.serialize_entry("ranges_left_out", left_out)?;
                }
                if let Some([ect0, ect1, ce]) = self.ecn {
                    map.serialize_entry("ect1", &ect1)?;
                    map.serialize_entry("ect0", &ect0)?;
                    map.serialize_entry("ce", &ce)?;
                }
            }
            // Part of the ACK frame before it.
            Frame::Ecn(_) => {}
            Frame::NewConnectionId {
                path,
                sequence,
                retire_prior_to,
                id,
            } => {
                match path {
                    None => map.serialize_entry("frame_type", "new_connection_id")?,
                    Some(path) => {
                        map.serialize_entry("frame_type", "path_new_connection_id")?;
                        map.serialize_entry("path_id", path)?;
                    }
                }
                map.serialize_entry("sequence_number", sequence)?;
                map.serialize_entry("retire_prior_to", retire_prior_to)?;
                map.serialize_entry("connection_id", &Hex(id))?;
            }
            Frame::Close { application, code } => {
                map.serialize_entry("frame_type", "connection_close")?;
                let space = if *application {
                    "application"
                } else {
                    "transport"
                };
                map.serialize_entry("error_space", space)?;
                let name = crate::close::transport_error(*code).filter(|_| !application);
                match name {
                    Some(name) => map.serialize_entry("error", &name)?,
                    None => {
                        map.serialize_entry("error", "unknown")?;
                        map.serialize_entry("error_code", code)?;
                    }
                }
            }
            Frame::Plain(ty, values) => write_plain(&mut map, *ty, values)?,
        }
        map.end()
    }
}

fn write_plain<M: SerializeMap>(map: &mut M, ty: Plain, values: &[u64; 3]) -> Result<(), M::Error> {
    let (name, fields) = plain(ty);
    map.serialize_entry("frame_type", name)?;
    match ty {
        Plain::MaxStreamsBidi | Plain::StreamsBlockedBidi => {
            map.serialize_entry("stream_type", "bidirectional")?;
        }
        Plain::MaxStreamsUni | Plain::StreamsBlockedUni => {
            map.serialize_entry("stream_type", "unidirectional")?;
        }
        // Application codes have no names here.
        Plain::ResetStream | Plain::StopSending => map.serialize_entry("error", "unknown")?,
        Plain::NewToken => {
            // What is in a token is its server's business.
            let raw = Raw { length: values[0] };
            return map.serialize_entry("token", &std::collections::BTreeMap::from([("raw", raw)]));
        }
        _ => {}
    }
    for (field, value) in fields.iter().zip(values) {
        match *field {
            "length" => map.serialize_entry("raw", &Raw { length: *value })?,
            "payload_length" => {
                let raw = std::collections::BTreeMap::from([("payload_length", value)]);
                map.serialize_entry("raw", &raw)?;
            }
            "data" => map.serialize_entry("data", &Hex(&value.to_be_bytes()))?,
            field => map.serialize_entry(field, value)?,
        }
    }
    Ok(())
}
