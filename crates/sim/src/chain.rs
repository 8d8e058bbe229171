//! What a direction of a path leads through: its own links and shared ones, in order; carries nothing.

use crate::link::LinkConfig;

/// A link that several paths, or both directions of one, may lead through: see
/// [`NetworkBuilder::shared_link`](crate::NetworkBuilder::shared_link).
///
/// It has one queue and one rate for all that passes, whichever way it goes; what it draws at random
/// is drawn from one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedLink(pub(crate) usize);

impl SharedLink {
    /// Its number, in the order in which the builder made them.
    pub const fn number(self) -> usize {
        self.0
    }
}

/// One link on the way of a path's direction.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "a network has a few of them, and they are gone once it is built"
)]
pub enum Hop {
    /// A link that nothing else leads through.
    Own(LinkConfig),
    /// One that others may lead through, too.
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
