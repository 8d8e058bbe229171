//! From two files to a graph that is safe to build: bounds, hash, structure, cost. What runs it is `engine`'s and
//! `plan`'s.
//!
//! The order matters: nothing is decoded before the wire walk has bounded what decoding can allocate, nothing is
//! handed to tract before the structure and the cost of every operator are known, because tract evaluates what is
//! constant while it loads.

mod axes;
mod cost;
mod error;
mod limits;
mod structure;
mod typed;
mod weights;
mod wire;

use std::{
    fs::{self, Metadata, OpenOptions},
    io::{self, Read},
    path::Path,
};

use prost::Message;
use sha2::{Digest, Sha256};
use tract_onnx::{pb::ModelProto, prelude::TypedModel};

pub use error::LoadError;
pub use limits::Limits;
pub(crate) use typed::guarded;

use crate::Card;

/// Refuses what may have no end, or would be waited for.
fn regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let what = match found.is_dir() {
        true => "a folder",
        false => "a pipe or a device",
    };
    let fault = format!("{what}, expected a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, fault))
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read_bounded(path: &Path, limit: usize) -> Result<Vec<u8>, LoadError> {
    let io = |source| LoadError::Io {
        path: path.to_owned(),
        source,
    };
    // Before it is opened: opening a pipe waits for whoever writes to it.
    fs::metadata(path)
        .and_then(|found| regular(&found))
        .map_err(io)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // It may be another one by now. Regular files do not know this flag.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path).map_err(io)?;
    file.metadata()
        .and_then(|found| regular(&found))
        .map_err(io)?;
    let mut bytes = Vec::new();
    // One more than allowed, so that a file that grows while it is read, or has no size, is noticed.
    file.take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    if bytes.len() > limit {
        return Err(LoadError::FileSize {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(bytes)
}

/// The typed graph of an ONNX file that fits its card and stays within the limits.
pub(crate) fn graph(onnx: &[u8], card: &Card, limits: &Limits) -> Result<TypedModel, LoadError> {
    if onnx.len() > limits.file_bytes {
        return Err(LoadError::Limit {
            at: "file".into(),
            what: "bytes",
            found: onnx.len() as u64,
            limit: limits.file_bytes as u64,
        });
    }
    let found = hex(&Sha256::digest(onnx));
    if !card.onnx_sha256.eq_ignore_ascii_case(&found) {
        return Err(LoadError::Hash {
            expected: card.onnx_sha256.to_ascii_lowercase(),
            found,
        });
    }
    wire::walk(onnx, limits)?;
    let proto = ModelProto::decode(onnx).map_err(|error| LoadError::Decode {
        message: error.to_string(),
    })?;
    let graph = structure::check(&proto, card, limits)?;
    cost::check(graph, card, limits)?;
    typed::build(&proto, card)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
