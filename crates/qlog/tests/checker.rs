//! The checker that holds files against the schemas finds what is wrong with them, and nothing else.

mod schema;

use schema::Schema;

const HEADER: &str = "\x1e{\"file_schema\":\"a\",\"serialization_format\":\"b\",\"trace\":{\"event_schemas\":[\"c\"]}}\n";

fn wrong(event: &str) -> Vec<String> {
    Schema::new().check(&format!("{HEADER}\x1e{event}\n")).0
}

#[test]
fn what_is_right_is_found_so() {
    for event in [
        r#"{"time":1.5,"name":"quic:packet_sent","data":{"header":{"packet_type":"1RTT"},"path_id":3}}"#,
        r#"{"time":0,"name":"quic:key_updated","data":{"key_type":"client_1rtt_secret"},"own":1}"#,
        r#"{"time":0,"name":"quic:connection_closed","data":{"connection_error":"crypto_error_0x12a"}}"#,
        r#"{"time":0,"name":"quic:tuple_assigned","tuple":"1","data":{"tuple_id":"1","path_id":0}}"#,
    ] {
        assert_eq!(wrong(event), Vec::<String>::new());
    }
}

#[test]
fn what_is_wrong_is_found() {
    for (event, part) in [
        (
            r#"{"name":"quic:key_updated","data":{"key_type":"client_1rtt_secret"}}"#,
            ".time is missing",
        ),
        (
            r#"{"time":0,"name":"quic:packet_lost","data":{"path_id":0,"size":1,"other":2}}"#,
            ".data.other is unknown",
        ),
        (
            r#"{"time":0,"name":"quic:nothing","data":{}}"#,
            "no schema has an event",
        ),
        (
            r#"{"time":0,"name":"quic:packet_sent","data":{"path_id":0}}"#,
            ".data.header is missing",
        ),
        (
            r#"{"time":0,"name":"quic:packet_sent","data":{"header":{"packet_type":"2RTT"},"path_id":0}}"#,
            "packet_type",
        ),
        (
            r#"{"time":0,"name":"quic:packet_sent","data":{"header":{"packet_type":"1RTT"},"path_id":0,"frames":[{"frame_type":"stream"}]}}"#,
            ".data.frames[]",
        ),
        (
            r#"{"time":0,"name":"quic:mtu_updated","data":{"new":4294967296,"path_id":0}}"#,
            "size 4",
        ),
        (
            r#"{"time":0,"name":"quic:packets_acked","data":{"packet_numbers":[],"path_id":0}}"#,
            "array",
        ),
        (
            r#"{"time":0,"name":"quic:connection_closed","data":{"connection_error":"crypto_error_0x2aa"}}"#,
            "connection_error",
        ),
        ("{", "EOF"),
    ] {
        let found = wrong(event);
        assert!(
            found.iter().any(|error| error.contains(part)),
            "{event}: {found:?}"
        );
    }
    let backwards = r#"{"time":2,"name":"mpquic:records_left_out","data":{"count":1}}"#;
    let twice = format!(
        "{backwards}\n\x1e{}",
        backwards.replace("\"time\":2", "\"time\":1")
    );
    assert!(wrong(&twice)[0].contains("time 1 after 2"));
}
