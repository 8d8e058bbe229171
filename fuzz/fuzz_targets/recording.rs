//! A segment of a recording, whatever it holds, is read or refused: as it comes, and as records with sound checksums, so
//! that what is behind these is reached, too.
#![no_main]

use mpquic_sched::record::Recording;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    read(data);
    let mut segment = b"MPQTRAJ\n".to_vec();
    // Each byte that is 0xFF ends a record.
    for payload in data.split(|byte| *byte == 0xff) {
        let length = payload.len() as u16;
        segment.extend(length.to_le_bytes());
        segment.extend((!length).to_le_bytes());
        let payload = &payload[..usize::from(length)];
        segment.extend(crc32fast::hash(payload).to_le_bytes());
        segment.extend(payload);
    }
    read(&segment);
});

fn read(segment: &[u8]) {
    if let Ok(recording) = Recording::from_segments([segment]) {
        assert_eq!(recording.trajectories().len(), recording.connections.len());
    }
}
