//! The blocks of code of the pages that a reader may type: where they are, in which language, and what the page says of them.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// One block, as a reader would copy it.
#[derive(Debug, Clone)]
pub struct Block {
    /// Its page, from the root of the repository.
    pub page: PathBuf,
    /// The line of its fence.
    pub line: usize,
    /// All that the fence says, such as `rust,no_run`.
    pub info: String,
    pub text: String,
    /// The comment directly before it, if there is one.
    pub comment: Option<String>,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.page.display(), self.line)
    }
}

impl Block {
    pub fn language(&self) -> &str {
        self.info.split([',', ' ']).next().unwrap_or_default()
    }

    pub fn has(&self, attribute: &str) -> bool {
        self.info.split([',', ' ']).any(|word| word == attribute)
    }

    /// What the comment before the block says after `name:`.
    pub fn said(&self, name: &str) -> Option<&str> {
        let comment = self.comment.as_deref()?;
        let said = comment.strip_prefix(name)?.strip_prefix(':')?.trim();
        (!said.is_empty()).then_some(said)
    }
}

/// A command within a line of text, such as `cargo run --example x`.
#[derive(Debug)]
pub struct Inline {
    pub page: PathBuf,
    pub line: usize,
    pub text: String,
}

/// The pages whose blocks are run: README, the guide, and the READMEs of the crates.
pub fn pages(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut pages = vec![PathBuf::from("README.md")];
    let mut guide = Vec::new();
    for entry in fs::read_dir(root.join("docs/guide"))? {
        let name = entry?.file_name();
        if Path::new(&name).extension().is_some_and(|end| end == "md") {
            guide.push(Path::new("docs/guide").join(name));
        }
    }
    guide.sort();
    pages.append(&mut guide);
    let mut crates = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let page = Path::new("crates")
            .join(entry?.file_name())
            .join("README.md");
        if root.join(&page).exists() {
            crates.push(page);
        }
    }
    crates.sort();
    pages.append(&mut crates);
    Ok(pages)
}

/// The blocks of a page, and the commands between its words.
pub fn of_page(page: &Path, text: &str) -> (Vec<Block>, Vec<Inline>) {
    let (mut blocks, mut inline) = (Vec::new(), Vec::new());
    let mut open: Option<Block> = None;
    let mut comment: Option<String> = None;
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                open = Some(Block {
                    page: page.to_path_buf(),
                    line: line(range.start),
                    info: info.into_string(),
                    text: String::new(),
                    comment: comment.take(),
                });
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            Event::Text(part) => match &mut open {
                Some(block) => block.text.push_str(&part),
                None => comment = None,
            },
            Event::Code(code) => {
                comment = None;
                inline.push(Inline {
                    page: page.to_path_buf(),
                    line: line(range.start),
                    text: code.into_string(),
                });
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let inside = html.trim().strip_prefix("<!--");
                let inside = inside.and_then(|html| html.strip_suffix("-->"));
                comment = inside.map(|inside| inside.trim().to_owned());
            }
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            Event::Start(Tag::Paragraph | Tag::Heading { .. }) => comment = None,
            _ => {}
        }
    }
    (blocks, inline)
}

/// The blocks in the documentation of a source file that have a fence: lines that begin with `///` or `//!`.
pub fn of_source(file: &Path, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let Some(doc) = doc else {
            open = None;
            continue;
        };
        let doc = doc.strip_prefix(' ').unwrap_or(doc);
        match (doc.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => {
                open = Some(Block {
                    page: file.to_path_buf(),
                    line: index + 1,
                    info: info.trim().to_owned(),
                    text: String::new(),
                    comment: None,
                });
            }
            (None, Some(block)) => {
                block.text.push_str(doc);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The blocks in the documentation of the crates' sources.
pub fn of_sources(root: &Path) -> io::Result<Vec<Block>> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        folders.push(entry?.path().join("src"));
    }
    let mut blocks = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(root).unwrap_or(&path);
                blocks.append(&mut of_source(name, &fs::read_to_string(&path)?));
            }
        }
    }
    blocks.sort_by(|a, b| (&a.page, a.line).cmp(&(&b.page, b.line)));
    Ok(blocks)
}

/// Why the tests of documentation do not run a block: `<!-- no_run: reason -->` directly before it in a page,
/// `// no_run: reason` as its first line in a source file (hidden with `# `, if readers need not see it).
pub fn reason(block: &Block) -> Option<&str> {
    let first = block.text.lines().next().unwrap_or_default().trim();
    let first = first.strip_prefix("# ").unwrap_or(first);
    let inside = first.strip_prefix("// no_run:").map(str::trim);
    inside
        .filter(|reason| !reason.is_empty())
        .or_else(|| block.said("no_run"))
}

/// Whether the tests of documentation do not run a block, and it does not say why.
pub fn without_reason(block: &Block) -> bool {
    let kept = ["no_run", "ignore"].iter().any(|word| block.has(word));
    kept && reason(block).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<Block> {
        of_page(Path::new("page.md"), text).0
    }

    #[test]
    fn finds_blocks_with_what_stands_before_them() {
        let text = "# One\n\n<!-- no_run: needs a phone -->\n```rust,no_run\nf();\n```\n\n- x\n\n  ```sh\n  a\n  b\n  ```\n";
        let found = blocks(text);
        let read: Vec<_> = found
            .iter()
            .map(|b| (b.line, b.language(), &*b.text))
            .collect();
        assert_eq!(read, [(4, "rust", "f();\n"), (10, "sh", "a\nb\n")]);
        assert_eq!(found[0].said("no_run"), Some("needs a phone"));
        assert!(found[1].comment.is_none());
    }

    #[test]
    fn a_comment_belongs_to_the_block_directly_after_it() {
        let found = blocks("<!-- no_run: this -->\n\nWords.\n\n```rust,no_run\nf();\n```\n");
        assert!(without_reason(&found[0]));
    }

    #[test]
    fn commands_between_words_are_found() {
        let text = "Words\n`cargo run`\n\n| a |\n|---|\n| `cargo test` |\n";
        let (_, inline) = of_page(Path::new("page.md"), text);
        let read: Vec<_> = inline.iter().map(|i| (i.line, &*i.text)).collect();
        assert_eq!(read, [(2, "cargo run"), (6, "cargo test")]);
    }

    #[test]
    fn a_block_that_is_not_run_says_why() {
        let bad = [
            "```rust,no_run\nf();\n```",
            "<!-- no_run: -->\n```no_run\nf();\n```",
            "```ignore\nf();\n```",
        ];
        let good = [
            "```rust\nf();\n```",
            "<!-- no_run: x -->\n```rust,no_run\nf();\n```",
        ];
        assert!(bad.iter().all(|text| without_reason(&blocks(text)[0])));
        assert!(!good.iter().any(|text| without_reason(&blocks(text)[0])));
        let source =
            |first: &str| format!("/// ```no_run\n/// {first}\n/// f();\n/// ```\nfn g() {{}}\n");
        let read = |first: &str| of_source(Path::new("a.rs"), &source(first)).remove(0);
        assert!(without_reason(&read("g();")));
        assert!(without_reason(&read("// no_run:")));
        assert!(!without_reason(&read("// no_run: needs a phone")));
        assert!(!without_reason(&read("# // no_run: needs a phone")));
        assert_eq!(read("g();").line, 1);
    }
}
