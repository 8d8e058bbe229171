//! Manual pages and completions of shells, made from the command line that a program has.

use std::path::{Path, PathBuf};

use clap_complete::Shell;

use crate::error::Error;

/// Writes them into a folder, which is made: `NAME.1` and one `NAME-COMMAND.1` for each command, `NAME.bash`, `_NAME` (zsh), `NAME.fish`. Gives
/// the files.
///
/// # Errors
///
/// If one cannot be written.
pub fn write_manual(command: clap::Command, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let wrong = |error| Error::file(folder, error);
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let name = command.get_name().to_owned();
    clap_mangen::generate_to(command.clone(), folder).map_err(wrong)?;
    let mut command = command;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, &name, folder).map_err(wrong)?;
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        files.push(entry.map_err(wrong)?.path());
    }
    files.sort();
    Ok(files)
}
