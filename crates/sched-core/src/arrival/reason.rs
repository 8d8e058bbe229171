//! What a decision was, and why: a byte, put into words only for those who ask.

use crate::CopyCause;

/// The newest decision: its number tells what is sent by it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Newest {
    pub(super) number: u64,
    pub(super) copies: bool,
    pub(super) cause: CopyCause,
    pub(super) reason: Reason,
}

/// Why it was what it was.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Reason {
    #[default]
    Soonest,
    Untested,
    NoRoom,
    CopyLate,
    Awaited,
    Meanwhile,
    Tried,
    Alone,
    InTime,
}

impl Reason {
    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Self::Soonest => "arrives first here",
            Self::Untested => "a path without an RTT sample gets one",
            Self::NoRoom => "no path has room",
            Self::CopyLate => "a copy arrives before what is late elsewhere",
            Self::Awaited => "all arrives sooner on a path that is full now",
            Self::Tried => "the path with others' queue gets a copy, to see whether it is gone",
            Self::Alone => "so little goes on each path",
            Self::InTime => "the deadline is missed less often here",
            Self::Meanwhile => "a full path delivers less until this arrives",
        }
    }
}
