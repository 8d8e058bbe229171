//! The links between the repository's Markdown pages: which there are, and which lead nowhere.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Folders without pages of ours: build outputs, packages of others, texts of standards.
const SKIPPED: [&str; 5] = ["target", ".git", "node_modules", ".venv", "results.local"];

/// What a page has that links can lead to, and where its own links lead.
#[derive(Debug, Default)]
pub struct Page {
    anchors: HashSet<String>,
    /// Line of the page, and target as written.
    links: Vec<(usize, String)>,
}

/// A link that leads nowhere, or a page that no reader finds.
#[derive(Debug)]
pub struct Fault {
    page: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.page.display(), self.line, self.what)
    }
}

/// All pages below `root`, by path.
pub fn pages(root: &Path) -> io::Result<BTreeMap<PathBuf, Page>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name();
            if kind.is_dir() {
                if !SKIPPED.iter().any(|skipped| name == *skipped) {
                    folders.push(path);
                }
            } else if kind.is_file() && path.extension().is_some_and(|end| end == "md") {
                let text = fs::read_to_string(&path)?;
                found.insert(path, parse(&text));
            }
        }
    }
    Ok(found)
}

fn parse(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    let mut seen: HashMap<String, usize> = HashMap::new();
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                let count = seen.entry(slug.clone()).or_default();
                // The second heading of a name gets a number, as everywhere.
                page.anchors.insert(match *count {
                    0 => slug,
                    more => format!("{slug}-{more}"),
                });
                *count += 1;
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let line = text[..range.start].matches('\n').count() + 1;
                page.links.push((line, dest_url.into_string()));
            }
            _ => {}
        }
    }
    page
}

/// The anchor of a heading: lower case, no punctuation, a hyphen for each space.
fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let hyphen = |c: char| if c == ' ' { '-' } else { c };
    let slug = heading.trim().chars().filter(kept).map(hyphen);
    slug.flat_map(char::to_lowercase).collect()
}

/// Links into the web are not followed: this runs without a network.
fn leaves(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// `path` without `.` and `..`, so that two ways to a page are the same.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// The links that lead to no file, or to no heading of a page.
pub fn broken(pages: &BTreeMap<PathBuf, Page>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, page) in pages {
        for (line, target) in page.links.iter().filter(|(_, target)| !leaves(target)) {
            let (file, anchor) = match target.split_once('#') {
                Some((file, anchor)) => (file, Some(anchor)),
                None => (target.as_str(), None),
            };
            let to = match path.parent() {
                Some(folder) if !file.is_empty() => normal(&folder.join(file)),
                _ => path.clone(),
            };
            let what = if !pages.contains_key(&to) && !to.exists() {
                format!("{target} leads to no file")
            } else if let (Some(anchor), Some(page)) = (anchor, pages.get(&to))
                && !page.anchors.contains(anchor)
            {
                format!("{target} leads to no heading of that page")
            } else {
                continue;
            };
            faults.push(Fault {
                page: path.clone(),
                line: *line,
                what,
            });
        }
    }
    faults
}

/// The pages below `docs` that its `SUMMARY.md` does not name.
pub fn missing_in_book(pages: &BTreeMap<PathBuf, Page>, docs: &Path) -> Vec<Fault> {
    let summary = docs.join("SUMMARY.md");
    let named: HashSet<PathBuf> = pages.get(&summary).map_or_else(HashSet::new, |page| {
        let targets = page.links.iter().map(|(_, target)| target);
        targets.map(|target| normal(&docs.join(target))).collect()
    });
    let of_book = pages
        .keys()
        .filter(|path| path.starts_with(docs) && **path != summary);
    let missing = of_book.filter(|path| !named.contains(*path));
    missing
        .map(|path| Fault {
            page: path.clone(),
            line: 1,
            what: "is not in docs/SUMMARY.md".to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> BTreeMap<PathBuf, Page> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("page.md");
        BTreeMap::from([(path, parse(text))])
    }

    #[test]
    fn tells_links_that_lead_somewhere_from_those_that_do_not() {
        let good = "# A `word`, and more\n[x](#a-word-and-more) [y](Cargo.toml) [z](https://example.com/none)";
        assert!(broken(&page(good)).is_empty());
        let bad = broken(&page("# One\n\n[x](#two)\n[y](none.md)\n"));
        let said: Vec<_> = bad
            .iter()
            .map(|fault| (fault.line, fault.what.clone()))
            .collect();
        assert_eq!(
            said,
            [
                (3, "#two leads to no heading of that page".to_owned()),
                (4, "none.md leads to no file".to_owned()),
            ]
        );
    }

    #[test]
    fn the_second_heading_of_a_name_has_a_number() {
        assert!(broken(&page("# One\n# One\n[x](#one) [y](#one-1)")).is_empty());
        assert_eq!(broken(&page("# One\n[y](#one-1)")).len(), 1);
    }

    #[test]
    fn a_page_that_the_summary_does_not_name_is_found() {
        let docs = Path::new("/docs");
        let pages = BTreeMap::from([
            (docs.join("SUMMARY.md"), parse("[a](guide/a.md)")),
            (docs.join("guide/a.md"), parse("# A")),
            (docs.join("guide/b.md"), parse("# B")),
        ]);
        let missing = missing_in_book(&pages, docs);
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].page, docs.join("guide/b.md"));
    }
}
