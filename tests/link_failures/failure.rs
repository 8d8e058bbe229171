//! The failures: which links fail when.

use std::net::SocketAddr;
use std::time::Duration;

use mpquic_sim::{Action, LinkConfig, Network, content};

use crate::support::ms;

/// The paths of all downloads. Of a single path, the first.
pub(crate) const RATES: [u64; 2] = [20_000_000, 10_000_000];
pub(crate) const DELAYS: [Duration; 2] = [ms(20), ms(40)];

pub(crate) fn link(path: usize) -> LinkConfig {
    LinkConfig::new(RATES[path], DELAYS[path])
}

/// How long both paths are down together.
pub(crate) const BOTH_DOWN_FOR: Duration = ms(2000);
/// How long one path is down.
pub(crate) const DOWN_FOR: Duration = ms(3000);
/// Flaps: down for so long, up for so long.
pub(crate) const FLAP: Duration = ms(500);
const FLAPS: u32 = 4;
/// Between two rebindings.
const REBINDS: Duration = ms(1000);

/// What happens to the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    Nothing,
    /// The path is down for a while.
    Down(usize),
    /// It never comes back.
    Dead(usize),
    /// Both are down for a while.
    BothDown,
    /// The path goes down and up again, several times.
    Flaps(usize),
    /// A tenth of its rate is left.
    Slow(usize),
    /// NAT rebindings, of one client address after the other.
    Rebinds(u32),
}

impl Failure {
    /// Those of a connection with so many paths.
    pub(crate) fn all(paths: usize) -> Vec<Self> {
        use Failure::*;
        let mut all = vec![Nothing];
        for path in 0..paths {
            all.extend([Down(path), Flaps(path), Slow(path)]);
            if paths > 1 {
                all.push(Dead(path));
            }
        }
        if paths > 1 {
            all.push(BothDown);
        }
        all
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Nothing => "nothing".into(),
            Self::Down(path) => format!("path {path} down 3 s"),
            Self::Dead(path) => format!("path {path} dead"),
            Self::BothDown => "both down 2 s".into(),
            Self::Flaps(path) => format!("path {path} flaps 500 ms"),
            Self::Slow(path) => format!("path {path} rate/10"),
            Self::Rebinds(count) => format!("{count} rebindings"),
        }
    }

    /// When it begins: another instant with each seed.
    pub(crate) fn begins(seed: u64) -> Duration {
        ms(1000) + Duration::from_micros(draw(seed, 500_000))
    }

    /// The longest time without newly delivered bytes that it may cost a connection with so many paths.
    pub(crate) fn longest_stall(self, paths: usize) -> Duration {
        match (self, paths) {
            // The return is noticed an eighth of the outage late, and then slow start begins.
            (Self::Down(_), 1) => DOWN_FOR + ms(450),
            (Self::Flaps(_), 1) => FLAP + ms(250),
            // What Linux' MPTCP took on such links.
            (Self::BothDown, _) => BOTH_DOWN_FOR + ms(432),
            // What comes next may just have been sent here: a full queue of 100 packets takes 540 ms at the faster path's
            // new rate and 1,080 at that of the slower one, and no acknowledgement has told of it.
            // Where there is no other path, it may be lost once more at the end of the same queue.
            (Self::Slow(0), 1) => ms(2 * 540 + 310),
            (Self::Slow(path), _) => ms(540 * (path as u64 + 1) + 310),
            // One PTO of the dead path, and the full queue of the other one.
            _ => ms(305),
        }
    }

    /// The time in which the links could carry so many bytes if no bit of their rate was lost. Nothing is faster.
    pub(crate) fn bound(self, seed: u64, paths: usize, bytes: u64) -> Duration {
        let begins = Self::begins(seed);
        // The failure in slots of so many ms, the rest at once.
        let slot = ms(10);
        let mut left = bytes as f64 * 8.0;
        let mut now = Duration::ZERO;
        loop {
            let rate: f64 = (0..paths)
                .map(|path| {
                    let since = now.checked_sub(begins);
                    let share = since.map_or(1.0, |since| self.share_left(path, since));
                    RATES[path] as f64 * share
                })
                .sum();
            let carried = rate * slot.as_secs_f64();
            if carried >= left {
                return now + slot.mul_f64(left / carried) + DELAYS[0];
            }
            left -= carried;
            now += slot;
        }
    }

    /// What share of a path's rate is left so long after the failure began.
    fn share_left(self, path: usize, since: Duration) -> f64 {
        let down = match self {
            Self::Nothing | Self::Rebinds(_) => false,
            Self::Down(failed) => failed == path && since < DOWN_FOR,
            Self::Dead(failed) => failed == path,
            Self::BothDown => since < BOTH_DOWN_FOR,
            Self::Flaps(failed) => {
                let half = since.as_millis() / FLAP.as_millis();
                failed == path && half.is_multiple_of(2) && half < 2 * u128::from(FLAPS)
            }
            Self::Slow(failed) if failed == path => return 0.1,
            Self::Slow(_) => false,
        };
        if down { 0.0 } else { 1.0 }
    }

    /// By how much a download may take longer than that: headers are 5 % of what the links carry, two round trips and
    /// slow start come before the first full window. After a flap, the window must grow anew.
    pub(crate) fn slack(self) -> f64 {
        match self {
            Self::Flaps(_) => 1.4,
            Self::Slow(_) => 1.35,
            _ => 1.2,
        }
    }

    /// Plans it.
    pub(crate) fn plan(self, seed: u64, paths: usize, network: &mut Network) {
        let begins = Self::begins(seed);
        let up = |path, up| Action::SetLinkUp {
            path,
            from: None,
            up,
        };
        match self {
            Self::Nothing => {}
            Self::Down(path) => {
                network.at(begins, up(path, false));
                network.at(begins + DOWN_FOR, up(path, true));
            }
            Self::Dead(path) => {
                network.at(begins, up(path, false));
            }
            Self::BothDown => {
                for path in 0..paths {
                    network.at(begins, up(path, false));
                    network.at(begins + BOTH_DOWN_FOR, up(path, true));
                }
            }
            Self::Flaps(path) => {
                for flap in 0..FLAPS {
                    network.at(begins + 2 * flap * FLAP, up(path, false));
                    network.at(begins + (2 * flap + 1) * FLAP, up(path, true));
                }
            }
            Self::Slow(path) => {
                let rate = Some(RATES[path] / 10);
                network.at(
                    begins,
                    Action::SetLinkRate {
                        path,
                        from: None,
                        rate,
                    },
                );
            }
            Self::Rebinds(count) => {
                for number in 0..count {
                    let client = number as usize % paths;
                    // The same router, another port.
                    let outside =
                        SocketAddr::from(([10, 0, client as u8, 2], 50_001 + number as u16));
                    network.at(
                        begins + number * REBINDS,
                        Action::Rebind { client, outside },
                    );
                }
            }
        }
    }
}

/// When a path is down in this second of a soak: for 100 to 900 ms.
pub(crate) fn outage(seed: u64, second: u64) -> (Duration, Duration) {
    let drawn = draw((seed * 60 + second) ^ 0x5eed, 800);
    let from = ms(1000 * second + drawn / 8);
    (from, from + ms(100 + drawn))
}

/// A number from 0 to `bound`, exclusive.
pub(crate) fn draw(seed: u64, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    content::fill(seed, 0, &mut bytes);
    u64::from_le_bytes(bytes) % bound
}
