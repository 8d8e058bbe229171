//! Counts the fields of a HEADERS frame as it comes (RFC 9204 section 4.5). What they say is h3's matter.

/// How many fields a `HeaderMap` of `http` 1 has room for. h3 0.0.8 makes one for all fields that a message has, without asking whether
/// it can be made: with one more, it panics. A field takes no more than a byte of a frame.
pub(crate) const MOST_FIELDS: usize = 24_576;

/// Where in its fields a frame is.
#[derive(Debug)]
pub(crate) struct Fields {
    count: usize,
    at: At,
}

/// What the next byte is.
#[derive(Debug, Clone, Copy)]
enum At {
    /// The first of an integer.
    Begin(Part),
    /// Another one of an integer, with its bits from here on.
    Integer { value: u64, shift: u32, of: Part },
    /// One of so many that are no integer.
    Text { left: u64, of: Part },
}

/// To what an integer or a text belongs.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// The insert count of the section.
    InsertCount,
    /// The base of the section.
    Base,
    /// A line: an index in a table that is all of it.
    Line,
    /// A line: an index, which names a field with a value.
    NameIndex,
    /// A line: the length of the name, or the name.
    Name,
    /// The length of a value, or the value.
    Value,
}

impl Fields {
    pub(crate) const fn new() -> Self {
        Self {
            count: 0,
            at: At::Begin(Part::InsertCount),
        }
    }

    /// More bytes of the frame. Whether there are no more fields than [`MOST_FIELDS`].
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> bool {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let At::Text { left, of } = self.at {
                let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                bytes = &bytes[count..];
                self.text(left - count as u64, of);
                continue;
            }
            bytes = rest;
            match self.at {
                At::Begin(of) => self.begin(byte, of),
                At::Integer { value, shift, of } => {
                    // One that does not fit is beyond any frame.
                    let more = u64::from(byte & 0x7f)
                        .checked_shl(shift)
                        .unwrap_or(u64::MAX);
                    let value = value.saturating_add(more);
                    match byte & 0x80 {
                        0 => self.end(value, of),
                        _ => {
                            let shift = shift.saturating_add(7);
                            self.at = At::Integer { value, shift, of };
                        }
                    }
                }
                At::Text { .. } => {}
            }
        }
        self.count <= MOST_FIELDS
    }

    /// The first byte of an integer: the low bits of it.
    fn begin(&mut self, byte: u8, of: Part) {
        let (of, bits) = match (of, byte.leading_zeros()) {
            (Part::InsertCount, _) => (of, 8),
            (Part::Base | Part::Value, _) => (of, 7),
            // The first byte of a line says what it is.
            (_, 0) => (Part::Line, 6),
            (_, 1) => (Part::NameIndex, 4),
            (_, 2) => (Part::Name, 3),
            // Of the dynamic table, which h3 has none of: it refuses both.
            (_, 3) => (Part::Line, 4),
            _ => (Part::NameIndex, 3),
        };
        self.count += usize::from(matches!(of, Part::Line | Part::NameIndex | Part::Name));
        let most = 0xff >> (8 - bits);
        let value = u64::from(byte & most);
        match byte & most == most {
            true => {
                self.at = At::Integer {
                    value,
                    shift: 0,
                    of,
                }
            }
            false => self.end(value, of),
        }
    }

    /// An integer is complete.
    const fn end(&mut self, value: u64, of: Part) {
        match of {
            Part::InsertCount => self.at = At::Begin(Part::Base),
            Part::Base | Part::Line => self.at = At::Begin(Part::Line),
            Part::NameIndex => self.at = At::Begin(Part::Value),
            Part::Name | Part::Value => self.text(value, of),
        }
    }

    /// So much of a name or a value is still to come.
    const fn text(&mut self, left: u64, of: Part) {
        self.at = match (left, of) {
            (0, Part::Name) => At::Begin(Part::Value),
            (0, _) => At::Begin(Part::Line),
            _ => At::Text { left, of },
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An integer after a prefix of so many bits (RFC 9204 section 4.1.1).
    fn integer(into: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
        let most = (1 << bits) - 1;
        if value < most {
            into.push(first | value as u8);
            return;
        }
        into.push(first | most as u8);
        let mut rest = value - most;
        while rest >= 128 {
            into.push(0x80 | rest as u8);
            rest >>= 7;
        }
        into.push(rest as u8);
    }

    fn text(into: &mut Vec<u8>, first: u8, bits: u32, length: usize) {
        integer(into, first, bits, length);
        into.extend(std::iter::repeat_n(0xc0, length));
    }

    proptest! {
        #[test]
        fn each_line_counts_once_however_it_comes(
            lines in prop::collection::vec((0..5, 0_usize..400, 0_usize..400), 0..60),
            sizes in prop::collection::vec(1_usize..40, 1..10),
        ) {
            let mut section = vec![0, 0];
            for (kind, a, b) in &lines {
                match kind {
                    0 => integer(&mut section, 0xc0, 6, *a),
                    1 => {
                        integer(&mut section, 0x50, 4, *a);
                        text(&mut section, 0, 7, *b);
                    }
                    2 => {
                        text(&mut section, 0x20, 3, *a);
                        text(&mut section, 0x80, 7, *b);
                    }
                    3 => integer(&mut section, 0x10, 4, *a),
                    _ => {
                        integer(&mut section, 0, 3, *a);
                        text(&mut section, 0, 7, *b);
                    }
                }
            }
            let (mut fields, mut rest) = (Fields::new(), &section[..]);
            for size in sizes.iter().cycle() {
                let (piece, later) = rest.split_at(rest.len().min(*size));
                prop_assert!(fields.take(piece));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(fields.count, lines.len());
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut fields = Fields::new();
            prop_assert!(fields.take(&bytes));
            prop_assert!(fields.count <= bytes.len());
        }
    }

    #[test]
    fn one_more_than_a_map_has_room_for() {
        let mut fields = Fields::new();
        assert!(fields.take(&[0, 0]));
        assert!(fields.take(&vec![0xc1; MOST_FIELDS]));
        assert!(!fields.take(&[0xc1]));
    }

    #[test]
    fn the_map_has_room_for_them() {
        assert!(http::HeaderMap::<()>::try_with_capacity(MOST_FIELDS).is_ok());
        assert!(http::HeaderMap::<()>::try_with_capacity(MOST_FIELDS + 1).is_err());
    }
}
