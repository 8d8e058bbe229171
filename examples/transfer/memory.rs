//! What schedulers learn, kept in a file between runs.

use std::path::{Path, PathBuf};

use mpquic::sched::memory::{MemoryError, Store};

/// A memory and its file.
pub(crate) struct Memory {
    pub(crate) store: Store,
    file: PathBuf,
    /// Whether the file is not a memory, or is damaged.
    refused: bool,
}

impl Memory {
    /// Loads a file. If the file is invalid, also returns the error. Learning then starts afresh,
    /// since the program can run without earlier experience.
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

    /// Loads a file, and prints an error to stderr.
    pub(crate) fn load_or_tell(file: &Path) -> Self {
        let (memory, refusal) = Self::load(file);
        if let Some(refusal) = refusal {
            note!("warning: {refusal}; learning starts fresh");
        }
        memory
    }

    /// Writes the memory to its file. An invalid file is first renamed by appending `.refused`, in
    /// case the user named the wrong file.
    pub(crate) fn save(&self) -> Result<(), MemoryError> {
        if self.refused {
            let mut aside = self.file.clone().into_os_string();
            aside.push(".refused");
            // If the file cannot be renamed, it can hardly be replaced, and that error is reported.
            let moved = std::fs::rename(&self.file, aside);
            moved.map_err(|source| MemoryError::Write {
                path: self.file.clone(),
                source,
            })?;
        }
        self.store.save(&self.file)
    }
}
