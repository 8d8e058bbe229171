//! Builds the documentation as a book into `target/book`, and fails if a link of any page of the repository leads
//! nowhere, if a page of `docs/` is not in the book, or if a Rust block that is not run does not say why.
//!
//! `mpquic-book run [PAGE...]` runs what the blocks of the pages say, with what `cargo test --workspace --no-run` has built.

mod blocks;
mod cargo;
mod documents;
mod links;
mod python;
mod rust_blocks;
mod stand_ins;
mod world;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mdbook_driver::MDBook;

/// The repository's root, two folders above this package.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// The blocks of pages and of the crates' documentation that are not run and do not say why.
fn without_reason(root: &Path) -> io::Result<Vec<String>> {
    let mut silent = Vec::new();
    for page in blocks::pages(root)? {
        let (blocks, _) = blocks::of_page(&page, &fs::read_to_string(root.join(&page))?);
        silent.extend(blocks.iter().filter(|block| blocks::without_reason(block)).map(|block| {
            format!("{block}: `{}` without a reason: put `<!-- no_run: REASON -->` directly before it", block.info)
        }));
    }
    let of_sources = blocks::of_sources(root)?;
    silent.extend(
        of_sources
            .iter()
            .filter(|block| blocks::without_reason(block))
            .map(|block| {
                format!(
                    "{block}: `{}` without a reason: make `# // no_run: REASON` its first line",
                    block.info
                )
            }),
    );
    Ok(silent)
}

fn main() -> ExitCode {
    if let Some(code) = stand_ins::main() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => return book(),
        ["run", ..] => documents::run(&root(), &arguments[1..]),
        ["inside", page] => documents::inside(Path::new(page)),
        _ => Err("expected nothing, or `run [PAGE...]`".to_owned()),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn book() -> ExitCode {
    let root = root();
    let pages = match links::pages(&root) {
        Ok(pages) => pages,
        Err(error) => {
            eprintln!("the pages of {} cannot be read: {error}", root.display());
            return ExitCode::FAILURE;
        }
    };
    let mut faults = links::broken(&pages);
    faults.extend(links::missing_in_book(&pages, &root.join("docs")));
    let mut faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    match without_reason(&root) {
        Ok(mut silent) => faults.append(&mut silent),
        Err(error) => faults.push(format!("the sources cannot be read: {error}")),
    }
    for fault in &faults {
        eprintln!("{fault}");
    }
    let book = MDBook::load(root.join("docs")).and_then(|book| book.build());
    if let Err(error) = &book {
        eprintln!("the book cannot be built: {error:#}");
    }
    if !faults.is_empty() || book.is_err() {
        return ExitCode::FAILURE;
    }
    println!(
        "{} pages, no broken link; the book is in target/book",
        pages.len()
    );
    ExitCode::SUCCESS
}
