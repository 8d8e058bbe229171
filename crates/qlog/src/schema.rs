//! The names of the schemas that a file follows, and its first text.

use mpquic_proto::{Side, Started};
use serde::Serialize;

use crate::hex::Hex;

/// The file's schema (main schema, section 6).
pub const FILE_SCHEMA: &str = "urn:ietf:params:qlog:file:sequential";

/// Its serialisation (main schema, section 11.2).
pub const SERIALIZATION: &str = "application/qlog+json-seq";

/// QUIC events, as the thirteenth draft has them.
pub const QUIC_EVENTS: &str = "urn:ietf:params:qlog:events:quic-13";

/// Our fields in QUIC events: `path_id`, `decision`, `retransmission`, `delivery_rate` and the like.
pub const QUIC_EXTENSION: &str = "urn:mpquic:qlog:events:quic#multipath";

/// Events of our own, all under `mpquic:`.
pub const MPQUIC_EVENTS: &str = "urn:mpquic:qlog:events:mpquic";

/// The first text of a file.
#[derive(Serialize)]
pub(crate) struct Header<'a> {
    file_schema: &'static str,
    serialization_format: &'static str,
    title: String,
    trace: Trace<'a>,
}

#[derive(Serialize)]
struct Trace<'a> {
    common_fields: CommonFields<'a>,
    vantage_point: VantagePoint,
    event_schemas: [&'static str; 3],
}

#[derive(Serialize)]
struct CommonFields<'a> {
    group_id: String,
    time_format: &'static str,
    reference_time: ReferenceTime<'a>,
}

#[derive(Serialize)]
struct ReferenceTime<'a> {
    clock_type: &'static str,
    epoch: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_clock_time: Option<&'a str>,
}

#[derive(Serialize)]
struct VantagePoint {
    name: &'static str,
    #[serde(rename = "type")]
    side: &'static str,
}

impl<'a> Header<'a> {
    pub(crate) fn new(started: &Started, wall_clock_time: Option<&'a str>) -> Self {
        Self {
            file_schema: FILE_SCHEMA,
            serialization_format: SERIALIZATION,
            title: stem(started),
            trace: Trace {
                common_fields: CommonFields {
                    group_id: Hex(&started.original_dcid).to_string(),
                    time_format: "relative_to_epoch",
                    reference_time: ReferenceTime {
                        clock_type: "monotonic",
                        epoch: "unknown",
                        wall_clock_time,
                    },
                },
                vantage_point: VantagePoint {
                    name: "mpquic",
                    side: side(started.side),
                },
                event_schemas: [QUIC_EVENTS, QUIC_EXTENSION, MPQUIC_EVENTS],
            },
        }
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

/// The name of a connection's file without its ending: the original destination connection ID and the side, as the QUIC
/// event schema recommends.
pub(crate) fn stem(started: &Started) -> String {
    format!("{}_{}", Hex(&started.original_dcid), side(started.side))
}
