//! qlog of multipath connections: what happened to each packet, path and decision, as files that qlog tools read.
//!
//! Files are JSON text sequences (`.sqlog`) by the drafts of the main schema and of the QUIC events. A 4-tuple is a *tuple*
//! there, and path IDs (RFC 10069) are unknown. Here, events of packets, recovery and paths have both: the field `tuple` of
//! the event, and `path_id` in its data ([`QUIC_EXTENSION`]). What the drafts have no event for is in a namespace of our own
//! ([`MPQUIC_EVENTS`]):
//!
//! | event | data |
//! |---|---|
//! | `mpquic:path_updated` | `path_id`; `new`: opened, validated, moved, available, backup, suspect, recovered, abandoned, discarded; `initiator` and `error_code` of an abandoned path |
//! | `mpquic:scheduler_decided` | `decision`: its number; `choice`: send, wait, overridden; `path_id`, `data`, `stream_id`, `gap`, `copies`; `why`, if the scheduler says. Written when it differs from the one before; packets name the decision that asked for them |
//! | `mpquic:loss_judged` | `path_id`; `cause` of a loss event: overflow, chance, unclear |
//! | `mpquic:controller_updated` | `path_id`; `new`: the controller that steers the path from now on, cubic or bbr3 under `auto` |
//! | `mpquic:out_of_order_updated` | `bytes` received that cannot be read for a gap before them, over all streams; at most one per millisecond |
//! | `mpquic:records_left_out` | `count`: so many records are missing here, since the disk could not keep up |
//!
//! Frames of RFC 10069 are named in the style of the drafts: `path_ack`, `path_abandon`, `path_new_connection_id` and so on,
//! with a `path_id`.
//!
//! [`Qlog`] is for live connections, [`direct`] for simulated ones. Addresses and connection IDs are in the files, contents
//! and keys are not.
//!
//! The crate `qlog` would fit but for three things: it keeps what its types do not know, such as `path_id`, in a map on the
//! heap per event; its events have no `tuple`; and it turns on serde_json's `preserve_order` for the whole program.
#![forbid(unsafe_code)]

mod close;
mod direct;
mod encode;
mod events;
mod folder;
mod frames;
mod hex;
mod live;
mod record;
mod recorder;
mod ring;
mod schema;
mod writer;

pub use direct::direct;
pub use live::{QLOGDIR, Qlog};
pub use schema::{FILE_SCHEMA, MPQUIC_EVENTS, QUIC_EVENTS, QUIC_EXTENSION, SERIALIZATION};
