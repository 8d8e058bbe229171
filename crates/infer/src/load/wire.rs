//! A walk over the protobuf bytes of an ONNX file before they are decoded.
//!
//! A two-byte record can become a structure of hundreds of bytes, so the size of the file alone does not bound the
//! memory of decoding. The walk counts the records that decoding would make, and refuses what a policy has no use for
//! (subgraphs: nested messages and loops without a bound).

use super::{Limits, LoadError};

/// The messages of onnx.proto that are walked into; the numbers in [`Message::child`] are its field numbers.
#[derive(Clone, Copy, PartialEq)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TensorType,
    Shape,
    /// Text and numbers only.
    Plain,
}

/// What a length-delimited field holds.
enum Child {
    /// A message to walk into.
    Walk(Message),
    /// Text or packed numbers.
    Bytes,
    /// Something that is refused.
    Refused(&'static str),
}

impl Message {
    fn name(self) -> &'static str {
        match self {
            Self::Model => "the model",
            Self::Graph => "the graph",
            Self::Node => "a node",
            Self::Attribute => "an attribute",
            Self::Tensor => "a tensor",
            Self::Value => "a value's description",
            Self::Type | Self::TensorType => "a type",
            Self::Shape => "a shape",
            Self::Plain => "an entry",
        }
    }

    fn child(self, field: u64) -> Child {
        match (self, field) {
            (Self::Model, 7) => Child::Walk(Self::Graph),
            (Self::Model, 8 | 14) => Child::Walk(Self::Plain),
            (Self::Model, 20) => Child::Refused("training information is"),
            (Self::Model, 25) => Child::Refused("functions are"),
            (Self::Graph, 1) => Child::Walk(Self::Node),
            (Self::Graph, 5) => Child::Walk(Self::Tensor),
            (Self::Graph, 11..=13) => Child::Walk(Self::Value),
            (Self::Graph, 14) => Child::Refused("quantisation is"),
            (Self::Graph, 15) => Child::Refused("sparse weights are"),
            (Self::Node, 5) => Child::Walk(Self::Attribute),
            (Self::Attribute, 5 | 10) => Child::Walk(Self::Tensor),
            (Self::Attribute, 6 | 11) => Child::Refused("subgraphs (If, Loop, Scan) are"),
            (Self::Attribute, 15 | 22 | 23) => Child::Refused("sparse tensors and types are"),
            (Self::Tensor, 3 | 13) => Child::Refused("weights in parts or in other files are"),
            (Self::Value, 2) => Child::Walk(Self::Type),
            (Self::Type, 1) => Child::Walk(Self::TensorType),
            (Self::TensorType, 2) => Child::Walk(Self::Shape),
            (Self::Shape, 1) => Child::Walk(Self::Plain),
            _ => Child::Bytes,
        }
    }
}

/// Checks that the bytes are well-formed down to the fields that decoding makes records of, and counts those.
pub(super) fn walk(bytes: &[u8], limits: &Limits) -> Result<(), LoadError> {
    let mut walk = Walk {
        bytes,
        records: 0,
        limit: limits.records,
    };
    walk.message(Message::Model, 0, bytes.len())
}

struct Walk<'a> {
    bytes: &'a [u8],
    records: usize,
    limit: usize,
}

impl Walk<'_> {
    /// Nests no deeper than `Message::child` leads: model, graph, node, attribute, tensor.
    fn message(&mut self, message: Message, mut at: usize, end: usize) -> Result<(), LoadError> {
        let broken = |offset, problem| {
            Err(LoadError::Wire {
                offset,
                within: message.name(),
                problem,
            })
        };
        while at < end {
            let start = at;
            let Some(key) = self.varint(&mut at, end) else {
                return broken(start, "a field's number is cut off or too long");
            };
            let (field, wire_type) = (key >> 3, key & 7);
            if field == 0 || field > 0x1fff_ffff {
                return broken(start, "a field's number is out of range");
            }
            match wire_type {
                0 => {
                    if self.varint(&mut at, end).is_none() {
                        return broken(start, "a number is cut off or too long");
                    }
                }
                1 | 5 => {
                    let width = if wire_type == 1 { 8 } else { 4 };
                    if end - at < width {
                        return broken(start, "a number is cut off");
                    }
                    at += width;
                }
                2 => {
                    let Some(len) = self.varint(&mut at, end) else {
                        return broken(start, "a length is cut off or too long");
                    };
                    if len > (end - at) as u64 {
                        return broken(start, "a field is longer than what is left of its message");
                    }
                    let inner_end = at + len as usize;
                    self.record()?;
                    match message.child(field) {
                        Child::Walk(inner) => self.message(inner, at, inner_end)?,
                        Child::Bytes => {}
                        Child::Refused(what) => {
                            return Err(LoadError::Unsupported {
                                at: format!("byte {start}, in {}", message.name()),
                                what: what.into(),
                            });
                        }
                    }
                    at = inner_end;
                }
                _ => return broken(start, "a field is of a type that ONNX does not use"),
            }
        }
        Ok(())
    }

    fn record(&mut self) -> Result<(), LoadError> {
        self.records += 1;
        if self.records > self.limit {
            return Err(LoadError::Limit {
                at: "file".into(),
                what: "records",
                found: self.records as u64,
                limit: self.limit as u64,
            });
        }
        Ok(())
    }

    fn varint(&self, at: &mut usize, end: usize) -> Option<u64> {
        let mut value = 0_u64;
        for (i, &byte) in self.bytes[*at..end].iter().take(10).enumerate() {
            if i == 9 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                *at += i + 1;
                return Some(value);
            }
        }
        None
    }
}
