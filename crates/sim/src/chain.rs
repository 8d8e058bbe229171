//! What a direction of a path crosses: its own links and shared ones, in order.

use crate::link::LinkConfig;

/// A link that several paths, or both directions of one path, can use: see
/// [`NetworkBuilder::shared_link`](crate::NetworkBuilder::shared_link).
///
/// It has one queue and one rate for all packets, whatever their direction, and one seed for all
/// its random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedLink(pub(crate) usize);

impl SharedLink {
    /// The link's number, in the order in which the builder created the links.
    pub const fn number(self) -> usize {
        self.0
    }
}

/// One link in a direction of a path.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "a network has a few of them, and they are gone once it is built"
)]
pub enum Hop {
    /// A link that only this direction of this path uses.
    Own(LinkConfig),
    /// A link that others may use, too.
    Shared(SharedLink),
}

impl From<LinkConfig> for Hop {
    fn from(config: LinkConfig) -> Self {
        Self::Own(config)
    }
}

impl From<SharedLink> for Hop {
    fn from(link: SharedLink) -> Self {
        Self::Shared(link)
    }
}
