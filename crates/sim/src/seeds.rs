//! Assigns the words of a network's random stream. Adding something to a network does not change
//! what the rest of it draws.

use mpquic_proto::Side;

use crate::content;
use crate::fabric::index;

/// Words 0 to 7 belong to the endpoints of the first flow. The first links of each path's chains
/// follow.
const FIRST_LINKS: u64 = 8;
/// The other links of the chains.
const FURTHER_LINKS: u64 = 1 << 32;
const SHARED_LINKS: u64 = 2 << 32;
/// The endpoints of cross traffic.
const CROSS_ENDPOINTS: u64 = 3 << 32;
const PHASES: u64 = 4 << 32;
/// The most links that one direction may have.
pub(crate) const MAX_HOPS: usize = 16;

/// The seed of a flow's endpoint; the flow under test is flow 0.
pub(crate) fn endpoint(seed: u64, flow: usize, side: Side) -> [u8; 32] {
    let base = match flow.checked_sub(1) {
        None => 0,
        Some(cross) => CROSS_ENDPOINTS + 8 * cross as u64,
    };
    let mut bytes = [0; 32];
    content::fill(seed, 8 * (base + 4 * index(side) as u64), &mut bytes);
    bytes
}

/// The seed of a link that belongs to one path.
pub(crate) const fn link(seed: u64, path: usize, direction: usize, hop: usize) -> u64 {
    let place = match hop {
        0 => FIRST_LINKS + 2 * path as u64 + direction as u64,
        _ => FURTHER_LINKS + (MAX_HOPS * (2 * path + direction) + hop) as u64,
    };
    content::word(seed, place)
}

/// The seed of a shared link.
pub(crate) const fn shared_link(seed: u64, number: usize) -> u64 {
    content::word(seed, SHARED_LINKS + number as u64)
}

/// The word that determines the phase of a flow of cross traffic.
pub(crate) const fn phase(seed: u64, cross: usize) -> u64 {
    content::word(seed, PHASES + cross as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_seeds_differ() {
        let mut seeds = Vec::new();
        for number in 0..9 {
            for side in [Side::Client, Side::Server] {
                for word in endpoint(7, number, side).chunks(8) {
                    seeds.push(u64::from_le_bytes(word.try_into().unwrap()));
                }
                for hop in 0..MAX_HOPS {
                    seeds.push(link(7, number, index(side), hop));
                }
            }
            seeds.extend([shared_link(7, number), phase(7, number)]);
        }
        let count = seeds.len();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), count);
    }
}
