//! How the end of a connection is written: errors by the schema's names.

use mpquic_proto::ConnectionError;

use crate::events::ConnectionClosed;

/// The schema's name of a transport error (RFC 9000 section 20.1); `None` if it has none.
pub(crate) fn transport_error(code: u64) -> Option<String> {
    const NAMES: [&str; 17] = [
        "no_error",
        "internal_error",
        "connection_refused",
        "flow_control_error",
        "stream_limit_error",
        "stream_state_error",
        "final_size_error",
        "frame_encoding_error",
        "transport_parameter_error",
        "connection_id_limit_error",
        "protocol_violation",
        "invalid_token",
        "application_error",
        "crypto_buffer_exceeded",
        "key_update_error",
        "aead_limit_reached",
        "no_viable_path",
    ];
    match code {
        // RFC 9001 section 4.8.
        0x100..=0x1ff => Some(format!("crypto_error_{code:#05x}")),
        _ => NAMES
            .get(usize::try_from(code).ok()?)
            .map(|name| (*name).to_owned()),
    }
}

/// The event of a connection that is over.
pub(crate) fn closed(reason: &ConnectionError) -> ConnectionClosed {
    let text = reason.to_string();
    let base = |initiator, trigger| ConnectionClosed {
        initiator,
        reason: text.clone(),
        trigger,
        ..ConnectionClosed::default()
    };
    let transport = |initiator, code: u64| {
        let name = transport_error(code);
        ConnectionClosed {
            error_code: name.is_none().then_some(code),
            connection_error: Some(name.unwrap_or_else(|| "unknown".into())),
            ..base(initiator, "error")
        }
    };
    match reason {
        ConnectionError::TransportError(error) => transport("local", error.code.into()),
        ConnectionError::ConnectionClosed(close) => transport("remote", close.error_code.into()),
        ConnectionError::ApplicationClosed(close) => ConnectionClosed {
            application_error: Some("unknown"),
            error_code: Some(close.error_code.into_inner()),
            ..base("remote", "application")
        },
        ConnectionError::LocallyClosed => base("local", "application"),
        ConnectionError::VersionMismatch => base("remote", "version_mismatch"),
        ConnectionError::Reset => base("remote", "stateless_reset"),
        ConnectionError::TimedOut => base("local", "idle_timeout"),
        _ => base("local", "aborted"),
    }
}
