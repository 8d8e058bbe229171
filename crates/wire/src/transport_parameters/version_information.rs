//! The parameter version_information (RFC 9368 section 3): a value and its codec.

use rand::Rng;
use smallvec::SmallVec;

use crate::TransportError;
use crate::packet::varint::Reader;
use crate::packet::{Version, reserved_version};

/// Which version the sender uses, and which others it would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionInformation {
    /// Chosen Version.
    pub chosen: u32,
    /// Only ever sent: whoever receives it has no choice left to make.
    available: SmallVec<[u32; 4]>,
}

impl VersionInformation {
    /// With a reserved version among those available, which every receiver must skip.
    pub fn new(
        chosen: Version,
        available: impl IntoIterator<Item = Version>,
        rng: &mut impl Rng,
    ) -> Self {
        let mut available: SmallVec<[u32; 4]> =
            available.into_iter().map(Version::number).collect();
        available.push(reserved_version(rng));
        Self {
            chosen: chosen.number(),
            available,
        }
    }

    /// `None` if it is cut off, or if one of its versions is 0 (section 3).
    pub(super) fn decode(value: Reader<'_>) -> Option<Self> {
        let (versions, []) = value.rest().as_chunks::<4>() else {
            return None;
        };
        let mut versions = versions.iter().map(|bytes| u32::from_be_bytes(*bytes));
        let chosen = versions.next()?;
        let mut known = SmallVec::new();
        for version in versions {
            if version == 0 {
                return None;
            }
            // A peer may list as many as it likes; the few that are spoken are of interest.
            if known.len() < 4 {
                known.push(version);
            }
        }
        (chosen != 0).then_some(Self {
            chosen,
            available: known,
        })
    }

    /// Whether the sender means the version that its packets have. If not, somebody has changed it on the way.
    ///
    /// # Errors
    ///
    /// VERSION_NEGOTIATION_ERROR (RFC 9368 section 4).
    pub fn check(&self, of_packets: Version) -> Result<(), TransportError> {
        if self.chosen == of_packets.number() {
            return Ok(());
        }
        Err(TransportError::version_negotiation(
            "the peer's chosen version is not that of its packets",
        ))
    }

    pub(super) fn value(&self) -> SmallVec<[u8; 20]> {
        let all = std::iter::once(&self.chosen).chain(&self.available);
        all.flat_map(|version| version.to_be_bytes()).collect()
    }
}
