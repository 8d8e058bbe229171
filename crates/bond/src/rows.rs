//! The rows of the screen: one per link. A row keeps its number while links come and go, since keys are for numbers.

use std::net::IpAddr;
use std::time::Duration;

use crate::report::{LinkReport, Report};

/// Rows that have a key.
const ROWS: usize = 9;

/// One link.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) local: IpAddr,
    pub(crate) interface: Option<String>,
    /// `None` while it is gone.
    pub(crate) now: Option<Figures>,
}

/// What a link does, over all of its paths.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Figures {
    /// Bytes received and sent since the report before.
    pub(crate) down: u64,
    pub(crate) up: u64,
    /// The shortest RTT of its paths.
    pub(crate) rtt: Duration,
    pub(crate) sent_packets: u64,
    pub(crate) lost_packets: u64,
    pub(crate) out: bool,
    pub(crate) last: bool,
}

/// All links that were seen.
#[derive(Debug, Default)]
pub(crate) struct Rows(Vec<Row>);

impl Rows {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Row> {
        self.0.iter()
    }

    /// The link with this key, if it is there.
    pub(crate) fn get(&self, key: usize) -> Option<&Row> {
        self.0.get(key).filter(|row| row.now.is_some())
    }

    /// Takes a new report.
    pub(crate) fn update(&mut self, before: &Report, now: &Report) {
        for row in &mut self.0 {
            row.now = None;
        }
        for link in &now.links {
            let row = self.row_of(link);
            row.local = link.local;
            row.interface.clone_from(&link.interface);
            let earlier = before.links.iter().find(|other| other.path == link.path);
            let earlier = earlier.filter(|earlier| earlier.local == link.local);
            let (received, sent) = earlier.map_or((0, 0), |link| (link.received, link.sent));
            let first = row.now.is_none();
            let figures = row.now.get_or_insert_default();
            figures.down += link.received.saturating_sub(received);
            figures.up += link.sent.saturating_sub(sent);
            figures.rtt = if first {
                link.rtt
            } else {
                figures.rtt.min(link.rtt)
            };
            figures.sent_packets += link.sent_packets;
            figures.lost_packets += link.lost_packets;
            figures.out = link.out && (first || figures.out);
            figures.last = link.last && (first || figures.last);
        }
    }

    /// The row of a link: that of its address, that of the interface if its address is gone, or a new one. If all keys are taken, one
    /// that is gone gives its own.
    fn row_of(&mut self, link: &LinkReport) -> &mut Row {
        let family = link.local.is_ipv4();
        let same = self.0.iter().position(|row| row.local == link.local);
        let moved = || {
            self.0.iter().position(|row| {
                row.now.is_none()
                    && row.interface.is_some()
                    && row.interface == link.interface
                    && row.local.is_ipv4() == family
            })
        };
        let gone = || {
            let gone = self.0.iter().position(|row| row.now.is_none());
            gone.filter(|_| self.0.len() >= ROWS)
        };
        let index = same.or_else(moved).or_else(gone).unwrap_or_else(|| {
            self.0.push(Row {
                local: link.local,
                interface: None,
                now: None,
            });
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn link(path: u32, interface: &str, ip: [u8; 4], received: u64) -> LinkReport {
        LinkReport {
            local: ip.into(),
            interface: Some(interface.to_owned()),
            path,
            out: false,
            last: false,
            rtt: Duration::from_millis(20),
            sent: 0,
            received,
            sent_packets: 100,
            lost_packets: 1,
        }
    }

    pub(crate) fn report(links: &[LinkReport]) -> Report {
        let mut report = Report::default();
        report.links.extend_from_slice(links);
        report
    }

    fn shown(rows: &Rows) -> Vec<(String, bool)> {
        let row = |row: &Row| (row.local.to_string(), row.now.is_some());
        rows.iter().map(row).collect()
    }

    #[test]
    fn a_row_keeps_its_number_when_others_vanish() {
        let (wlan, lte, eth) = (
            link(0, "wlan0", [10, 0, 0, 1], 0),
            link(1, "wwan0", [10, 0, 1, 1], 0),
            link(2, "eth0", [10, 0, 2, 1], 0),
        );
        let mut rows = Rows::default();
        rows.update(
            &Report::default(),
            &report(&[wlan, lte.clone(), eth.clone()]),
        );
        rows.update(&Report::default(), &report(&[eth.clone(), lte.clone()]));
        let is = |ip: &str, here| (ip.to_owned(), here);
        assert_eq!(
            shown(&rows),
            [
                is("10.0.0.1", false),
                is("10.0.1.1", true),
                is("10.0.2.1", true)
            ]
        );
        assert!(rows.get(0).is_none());
        assert_eq!(rows.get(1).map(|row| row.local), Some([10, 0, 1, 1].into()));
        // It is back with another address.
        let back = link(3, "wlan0", [10, 0, 0, 9], 0);
        rows.update(&Report::default(), &report(&[eth, back, lte]));
        assert_eq!(shown(&rows)[0], is("10.0.0.9", true));
        assert_eq!(shown(&rows).len(), 3);
        // A new one, beside those that are gone.
        rows.update(
            &Report::default(),
            &report(&[link(4, "eth1", [10, 0, 3, 1], 0)]),
        );
        assert_eq!(shown(&rows)[3], is("10.0.3.1", true));
    }

    #[test]
    fn no_more_rows_than_keys_while_some_are_gone() {
        let mut rows = Rows::default();
        for number in 0..20 {
            rows.update(
                &Report::default(),
                &report(&[link(0, &format!("eth{number}"), [10, 0, 0, number], 0)]),
            );
        }
        assert_eq!(rows.iter().count(), ROWS);
    }

    #[test]
    fn paths_of_a_link_are_one_row() {
        let mut second = link(1, "eth0", [10, 0, 0, 1], 7);
        second.rtt = Duration::from_millis(5);
        let mut rows = Rows::default();
        rows.update(
            &report(&[link(0, "eth0", [10, 0, 0, 1], 100)]),
            &report(&[link(0, "eth0", [10, 0, 0, 1], 150), second]),
        );
        let figures = rows.get(0).unwrap().now.unwrap();
        assert_eq!((figures.down, figures.sent_packets), (57, 200));
        assert_eq!(figures.rtt, Duration::from_millis(5));
        assert_eq!(rows.iter().count(), 1);
    }
}
