//! Encodes the four connection ID frames (RFC 9000 section 19.15, 19.16; RFC 10069); decodes none.

use quinn_proto::coding::Codec;
use quinn_proto::{ConnectionId, VarInt};

use super::ResetToken;
use crate::PathId;
use crate::frame::writer::FrameWriter;

const NEW_CONNECTION_ID: u64 = 0x18;
const RETIRE_CONNECTION_ID: u64 = 0x19;
const PATH_NEW_CONNECTION_ID: u64 = 0x3e78;
const PATH_RETIRE_CONNECTION_ID: u64 = 0x3e79;

/// NEW_CONNECTION_ID, or PATH_NEW_CONNECTION_ID if there is a path. False if it did not fit.
/// Retire Prior To is 0: we never ask the peer to retire anything.
pub(super) fn write_new(
    w: &mut FrameWriter<'_>,
    path: Option<PathId>,
    sequence: u64,
    id: &ConnectionId,
    token: &ResetToken,
) -> bool {
    let head = head_size(NEW_CONNECTION_ID, PATH_NEW_CONNECTION_ID, path);
    if w.remaining() < head + var_size(sequence) + 1 + 1 + id.len() + token.len() {
        return false;
    }
    put_head(w.buf, NEW_CONNECTION_ID, PATH_NEW_CONNECTION_ID, path);
    put_var(w.buf, sequence);
    put_var(w.buf, 0);
    // At most 20: `ConnectionId` holds no more.
    w.buf.push(id.len() as u8);
    w.buf.extend_from_slice(id);
    w.buf.extend_from_slice(token);
    true
}

/// RETIRE_CONNECTION_ID, or PATH_RETIRE_CONNECTION_ID if there is a path. False if it did not fit.
pub(super) fn write_retire(w: &mut FrameWriter<'_>, path: Option<PathId>, sequence: u64) -> bool {
    let head = head_size(RETIRE_CONNECTION_ID, PATH_RETIRE_CONNECTION_ID, path);
    if w.remaining() < head + var_size(sequence) {
        return false;
    }
    put_head(w.buf, RETIRE_CONNECTION_ID, PATH_RETIRE_CONNECTION_ID, path);
    put_var(w.buf, sequence);
    true
}

fn head_size(plain: u64, multipath: u64, path: Option<PathId>) -> usize {
    path.map_or_else(
        || var_size(plain),
        |path| var_size(multipath) + var_size(path.0.into()),
    )
}

fn put_head(buf: &mut Vec<u8>, plain: u64, multipath: u64, path: Option<PathId>) {
    match path {
        None => put_var(buf, plain),
        Some(path) => {
            put_var(buf, multipath);
            put_var(buf, path.0.into());
        }
    }
}

/// RFC 9000 section 16.
const fn var_size(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

fn put_var(buf: &mut Vec<u8>, value: u64) {
    // Sequence numbers grow by one from zero: none ever leaves the range of a variable-length integer.
    VarInt::from_u64(value).unwrap_or(VarInt::MAX).encode(buf);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(limit: usize, write: impl Fn(&mut FrameWriter<'_>) -> bool) -> Option<Vec<u8>> {
        let mut buf = Vec::new();
        let fits = write(&mut FrameWriter::new(&mut buf, limit));
        assert!(fits || buf.is_empty());
        fits.then_some(buf)
    }

    #[test]
    fn exact_bytes_and_exact_sizes() {
        let id = ConnectionId::new(&[0xaa; 8]);
        let token = [0xbb; 16];
        type Write<'a> = Box<dyn Fn(&mut FrameWriter<'_>) -> bool + 'a>;
        let cases: [(Write<'_>, Vec<u8>); 4] = [
            (
                Box::new(|w| write_new(w, None, 64, &id, &token)),
                [&[0x18, 0x40, 64, 0, 8][..], &[0xaa; 8], &[0xbb; 16]].concat(),
            ),
            (
                Box::new(|w| write_new(w, Some(PathId(3)), 1, &id, &token)),
                [&[0x7e, 0x78, 3, 1, 0, 8][..], &[0xaa; 8], &[0xbb; 16]].concat(),
            ),
            (Box::new(|w| write_retire(w, None, 5)), vec![0x19, 5]),
            (
                Box::new(|w| write_retire(w, Some(PathId(0)), 5)),
                vec![0x7e, 0x79, 0, 5],
            ),
        ];
        for (write, expected) in cases {
            assert_eq!(bytes(expected.len(), &write), Some(expected.clone()));
            assert_eq!(bytes(expected.len() - 1, &write), None);
        }
    }
}
