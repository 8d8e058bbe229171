//! Congestion control: one controller per connection with a state per path; does not detect losses.

/// Which congestion controller a connection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum CongestionControl {
    /// RFC 9002 section 7.
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
}
