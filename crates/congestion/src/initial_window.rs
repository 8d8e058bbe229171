//! The window with which a path begins, and the least that any window gets.

/// The congestion window of a new path.
///
/// The smallest window that RFC 9002 section 7.2 knows, two datagrams, is kept in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum InitialWindow {
    /// RFC 9002 section 7.2: ten datagrams, but no more than the larger of 14,720 bytes and two
    /// datagrams.
    #[default]
    Rfc9002,
    /// So many datagrams of the size that the path takes: from 2 to 65,536.
    Packets(u32),
    /// So many bytes: from 2400 to 2^30.
    Bytes(u64),
}

impl InitialWindow {
    /// The window, bytes, of a path that takes datagrams of `mtu` bytes.
    #[inline]
    pub const fn bytes(self, mtu: u16) -> u64 {
        let size = mtu as u64;
        let window = match self {
            Self::Rfc9002 => {
                //= specs/rfc9002.txt#section-7.2
                //# Endpoints SHOULD use an initial congestion window of ten times the maximum
                //# datagram size (max_datagram_size), while limiting the window to the larger of
                //# 14,720 bytes or twice the maximum datagram size.
                let limit = if 2 * size > 14_720 { 2 * size } else { 14_720 };
                if 10 * size < limit { 10 * size } else { limit }
            }
            Self::Packets(count) => count as u64 * size,
            Self::Bytes(bytes) => bytes,
        };
        let minimum = minimum_window(mtu);
        if window > minimum { window } else { minimum }
    }

    /// The window after a change of the path's largest datagram. `begun`: it is no longer in the
    /// first slow start.
    ///
    /// RFC 9002 section 7.2: the initial window follows the size, as long as it is the window.
    pub(super) const fn on_mtu_update(self, window: u64, begun: bool, old: u16, new: u16) -> u64 {
        if !begun && window == self.bytes(old) {
            //= specs/rfc9002.txt#section-7.2
            //# If the maximum datagram size changes during the connection, the initial congestion
            //# window SHOULD be recalculated with the new size.
            return self.bytes(new);
        }
        //= specs/rfc8899.txt#section-3
        //# An update to the PLPMTU (or MPS) MUST NOT increase the congestion window measured in
        //# bytes [RFC4821].
        let minimum = minimum_window(new);
        if window > minimum { window } else { minimum }
    }

    /// What is wrong with it: the number, and what would be right.
    pub const fn out_of_range(self) -> Option<(u64, &'static str)> {
        match self {
            Self::Packets(count) if count < 2 || count > 65_536 => {
                Some((count as u64, "2 to 65536 packets"))
            }
            Self::Bytes(bytes) if bytes < 2400 || bytes > 1 << 30 => {
                Some((bytes, "2400 to 2^30 bytes"))
            }
            _ => None,
        }
    }
}

/// The smallest congestion window, bytes: two datagrams (RFC 9002 section 7.2).
#[inline]
pub const fn minimum_window(mtu: u16) -> u64 {
    // A window of zero would divide by zero; no path has such an MTU.
    let window = 2 * mtu as u64;
    if window > 0 { window } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= specs/rfc9002.txt#section-7.2
    //= type=test
    //# Endpoints SHOULD use an initial congestion window of ten times the maximum datagram size
    //# (max_datagram_size), while limiting the window to the larger of 14,720 bytes or twice the
    //# maximum datagram size.
    #[test]
    fn section_7_2() {
        let rfc = InitialWindow::default();
        assert_eq!(rfc.bytes(1200), 12_000);
        assert_eq!(rfc.bytes(1472), 14_720);
        assert_eq!(rfc.bytes(1500), 14_720);
        assert_eq!(rfc.bytes(9000), 18_000);
        assert_eq!(minimum_window(1200), 2400);
    }

    #[test]
    fn follows_the_mtu_until_it_is_used() {
        let packets = InitialWindow::Packets(32);
        assert_eq!(packets.on_mtu_update(38_400, false, 1200, 1400), 44_800);
        assert_eq!(packets.on_mtu_update(38_400, true, 1200, 1400), 38_400);
        assert_eq!(packets.on_mtu_update(39_600, false, 1200, 1400), 39_600);
        assert_eq!(packets.on_mtu_update(2400, true, 1200, 1400), 2800);
    }

    #[test]
    fn in_packets_and_in_bytes() {
        assert_eq!(InitialWindow::Packets(32).bytes(1200), 38_400);
        assert_eq!(InitialWindow::Packets(32).bytes(1452), 46_464);
        assert_eq!(InitialWindow::Bytes(30_000).bytes(1452), 30_000);
        assert_eq!(
            InitialWindow::Bytes(2400).bytes(1452),
            2904,
            "two datagrams"
        );
        assert!(InitialWindow::Packets(1).out_of_range().is_some());
        assert!(InitialWindow::Bytes(1 << 40).out_of_range().is_some());
        assert_eq!(InitialWindow::Packets(2).out_of_range(), None);
    }
}
