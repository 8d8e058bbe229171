//! Builds the documentation as a book into `target/book`, and fails if a link of any page of the repository leads
//! nowhere, or if a page of `docs/` is not in the book.

mod links;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mdbook_driver::MDBook;

/// The repository's root, two folders above this package.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

fn main() -> ExitCode {
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
