//! What schedulers learn, kept in a file between runs; knows no scheduler.

use std::path::{Path, PathBuf};

use mpquic::sched::memory::{MemoryError, Store};

/// A memory, and the file that it came from and goes to.
pub(crate) struct Memory {
    pub(crate) store: Store,
    file: PathBuf,
    /// Whether what is in the file is not ours, or no longer good.
    refused: bool,
}

impl Memory {
    /// What the file holds. If it is refused, says why; learning starts fresh then, which is no
    /// reason not to start at all.
    pub(crate) fn load(file: &Path) -> (Self, Option<MemoryError>) {
        let (store, refusal) = match Store::load(file) {
            Ok(store) => (store, None),
            Err(refusal) => (Store::new(), Some(refusal)),
        };
        let memory = Self {
            store,
            file: file.to_owned(),
            refused: refusal.is_some(),
        };
        (memory, refusal)
    }

    /// The same, and what there is to say goes to stderr.
    pub(crate) fn load_or_tell(file: &Path) -> Self {
        let (memory, refusal) = Self::load(file);
        if let Some(refusal) = refusal {
            eprintln!("warning: {refusal}; learning starts fresh");
        }
        memory
    }

    /// Writes it back. A file that was refused is kept beside it, with `.refused` added to its name:
    /// whoever named the wrong file shall not lose it.
    pub(crate) fn save(&self) -> Result<(), MemoryError> {
        if self.refused {
            let mut aside = self.file.clone().into_os_string();
            aside.push(".refused");
            // If it cannot be moved, it can hardly be replaced, which says so.
            let moved = std::fs::rename(&self.file, aside);
            moved.map_err(|source| MemoryError::Write {
                path: self.file.clone(),
                source,
            })?;
        }
        self.store.save(&self.file)
    }
}
