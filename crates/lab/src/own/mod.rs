//! Schedulers that only experiments need: rules that know what no connection knows, or that a paper varies; not for use.

use mpquic_sched::{Registry, RegistryError};

mod fstream;
mod kept;
mod split;

pub use kept::{Kept, KeptConfig};

/// Their names, in alphabetical order.
pub const NAMES: [&str; 3] = ["fstream", "kept", "split"];

/// Adds them to a registry, under [`NAMES`].
///
/// # Errors
///
/// [`RegistryError::NameTaken`].
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry
        .register("fstream", fstream::FStream::new)?
        .register_checked("kept", KeptConfig::check, Kept::new)?
        .register_checked("split", split::SplitConfig::check, split::Split::new)?;
    Ok(())
}
