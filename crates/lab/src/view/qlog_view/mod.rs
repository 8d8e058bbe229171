//! The command that draws connections from their qlog files; reading is in `read`, the picture in the report's `look`.

mod read;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use mpquic_proto::Escaped;

use crate::command::cli::{Failure, cannot};
use crate::file as files;
use crate::view::report;
use crate::view::text::Align::{Left, Right};
use crate::view::text::{significant, table};
#[cfg(test)]
pub(crate) use read::Life;
pub(crate) use read::{Seen, SeenPath};

/// The byte between the texts of a sequence (RFC 7464).
const SEPARATOR: u8 = 0x1e;

/// What is drawn, and where to.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// qlog files of connections, as JSON text sequences (.sqlog).
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The file to write [default: the first file with the ending .html].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Reads the files, writes the picture, and prints a table of the paths.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    let mut all = Vec::new();
    for file in &arguments.files {
        let texts = files::pieces(file, SEPARATOR, files::QLOG);
        let texts = texts.map_err(|error| cannot("read", file, &error))?;
        let seen = Seen::read(texts)
            .map_err(|fault| Failure::Usage(format!("{}: {fault}", file.display())))?;
        writeln!(out, "{}", summary(&seen))?;
        all.push(seen);
    }
    let first = arguments
        .files
        .first()
        .map_or_else(|| Path::new(""), PathBuf::as_path);
    let page = arguments
        .out
        .clone()
        .unwrap_or_else(|| first.with_extension("html"));
    std::fs::write(&page, report::look(&all))
        .map_err(|error| Failure::Run(format!("cannot write {}: {error}", page.display())))?;
    writeln!(out, "Picture: {}", page.display())?;
    Ok(())
}

/// A connection in a few lines.
fn summary(seen: &Seen) -> String {
    let heads = [
        ("path", Left),
        ("addresses", Left),
        ("sent [kB]", Right),
        ("received [kB]", Right),
        ("packets lost", Right),
        ("RTT [ms]", Right),
        ("state", Left),
    ];
    let rows: Vec<_> = seen.paths.iter().map(|path| row(seen, path)).collect();
    let mut text = format!(
        "{} ({}), {} s, {} events\n{}",
        Escaped::new(&seen.title),
        Escaped::new(&seen.side),
        significant(seen.end_s, 3),
        seen.events,
        table(&heads, &rows)
    );
    if seen.left_out > 0 {
        text += &format!(
            "{} records are missing: the writer could not keep up\n",
            seen.left_out
        );
    }
    if let Some(reason) = &seen.closed {
        text += &format!("end: {}\n", Escaped::new(reason));
    }
    text
}

fn row(seen: &Seen, path: &SeenPath) -> Vec<String> {
    let state = seen.life.iter().rev().find(|life| life.path == path.id);
    vec![
        path.id.to_string(),
        path.addresses.clone(),
        significant(path.sent_bytes as f64 / 1e3, 4),
        significant(path.received_bytes as f64 / 1e3, 4),
        path.lost.to_string(),
        path.smoothed_rtt
            .last()
            .map_or_else(String::new, |(_, ms)| significant(*ms, 3)),
        state.map_or_else(String::new, |life| life.what.clone()),
    ]
}
