//! The Rust blocks that the tests of documentation compile and do not run: a program that does.
//!
//! Those are blocks with `no_run`, and blocks with functions that nothing calls. All others run with `cargo test`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use syn::{Item, ItemFn};

use crate::blocks::Block;
use crate::cargo;

const HARNESS: &str = include_str!("../harness/main.rs");

/// How the program calls a block.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Main,
    /// Name, whether it is asynchronous, how many arguments.
    Functions(Vec<(String, bool, usize)>),
    Statements,
}

/// The block as the compiler sees it: without the marks of lines that readers do not see.
fn source(text: &str) -> String {
    let line = |line: &str| {
        let trimmed = line.trim_start();
        let shown = trimmed
            .strip_prefix("# ")
            .or(if trimmed == "#" { Some("") } else { None });
        shown.unwrap_or(line).to_owned() + "\n"
    };
    text.lines().map(line).collect()
}

/// Whether a feature that is off here would have it.
fn is_off(function: &ItemFn) -> bool {
    function.attrs.iter().any(|attribute| {
        let list = attribute
            .path()
            .is_ident("cfg")
            .then(|| attribute.meta.require_list().ok())
            .flatten();
        list.is_some_and(|list| list.tokens.to_string().starts_with("not"))
    })
}

fn call(block: &Block) -> Option<Call> {
    let Ok(file) = syn::parse_file(&source(&block.text)) else {
        return block.has("no_run").then_some(Call::Statements);
    };
    let functions = file.items.iter().filter_map(|item| match item {
        Item::Fn(function) if !is_off(function) => Some(function),
        _ => None,
    });
    let functions: Vec<_> = functions.collect();
    if functions
        .iter()
        .any(|function| function.sig.ident == "main")
    {
        return block.has("no_run").then_some(Call::Main);
    }
    let read = |function: &&ItemFn| {
        let signature = &function.sig;
        (
            signature.ident.to_string(),
            signature.asyncness.is_some(),
            signature.inputs.len(),
        )
    };
    let functions: Vec<_> = functions.iter().map(read).collect();
    (!functions.is_empty()).then_some(Call::Functions(functions))
}

/// Whether a block needs the addresses of the pages.
pub fn needs_machines(block: &Block) -> bool {
    ["192.168.1.", "10.64.3.", "203.0.113.", "198.51.100."]
        .iter()
        .any(|address| block.text.contains(address))
}

/// Whether the program runs the block.
pub fn runs(block: &Block) -> bool {
    block.language() == "rust" && block.said("skip").is_none() && call(block).is_some()
}

fn waits(text: &str) -> &'static str {
    if text.contains("Endpoint::server(") && text.contains(".accept()") {
        "ClientsOfPort"
    } else if text.contains("endpoint.accept()") {
        "Clients"
    } else if text.contains("events.recv()") || text.contains(".closed().await") {
        "Events"
    } else {
        "Nothing"
    }
}

fn module(block: &Block, call: &Call) -> String {
    let source = source(&block.text);
    let mut text =
        format!("// {block}\n#![allow(dead_code, unused, reason = \"it is a page's\")]\n");
    match call {
        Call::Main => {
            text += &source;
            text += "\npub fn book() -> Result<(), String> { crate::Ended::ended(main()) }\n";
        }
        Call::Statements => {
            let _ = write!(
                text,
                "pub fn book() -> Result<(), String> {{ crate::Ended::ended((|| {{\n{source}\n}})()) }}\n"
            );
        }
        Call::Functions(functions) => {
            text += &source;
            text += "\npub fn book(fixture: &'static crate::Fixture) -> crate::Running {\n    Box::pin(async move {\n";
            for (name, is_async, count) in functions {
                let arguments = vec!["crate::Make::make(fixture)"; *count].join(", ");
                let wait = if *is_async { ".await" } else { "" };
                let _ = writeln!(
                    text,
                    "        crate::Ended::ended({name}({arguments}){wait})?;"
                );
            }
            text += "        Ok(())\n    })\n}\n";
        }
    }
    text
}

/// Writes the program below `target`, and builds it with the profile of the repository. Returns it.
pub fn build(root: &Path, target: &Path, blocks: &[Block]) -> Result<PathBuf, String> {
    let folder = target.join("book-blocks");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        // What has not changed is not compiled again.
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(folder.join("src"))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut list = String::from("const BLOCKS: &[(&str, Block)] = &[\n");
    let mut modules = String::new();
    for (index, block) in blocks.iter().enumerate() {
        let Some(call) = call(block) else { continue };
        let name = format!("block_{index}");
        write(&format!("src/{name}.rs"), &module(block, &call))?;
        let _ = writeln!(modules, "mod {name};");
        let _ = match call {
            Call::Functions(_) => {
                let waits = waits(&block.text);
                writeln!(
                    list,
                    "    (\"{block}\", Block::Functions(Waits::{waits}, {name}::book)),"
                )
            }
            Call::Main | Call::Statements => {
                writeln!(list, "    (\"{block}\", Block::Main({name}::book)),")
            }
        };
    }
    write("src/blocks.rs", &format!("{modules}{list}];\n"))?;
    write("src/main.rs", HARNESS)?;
    write("Cargo.toml", &manifest(root)?)?;
    let lock = fs::read_to_string(root.join("Cargo.lock"))
        .map_err(|error| format!("Cargo.lock: {error}"))?;
    if !folder.join("Cargo.lock").exists() {
        write("Cargo.lock", &lock)?;
    }
    let mut command = Command::new(cargo::program());
    cargo::forget_own_package(&mut command);
    let status = command
        .args(["build", "--quiet", "--offline"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", target)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(
            "the Rust blocks of the pages do not compile as one program: see above".to_owned(),
        );
    }
    Ok(target.join("debug/mpquic-book-blocks"))
}

/// The manifest of the program: the features that pages speak of, and the profiles of the repository, so that what the tests
/// built is not built again.
fn manifest(root: &Path) -> Result<String, String> {
    let read = |path: PathBuf| {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.parse::<toml::Table>()
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    let of_root = read(root.join("Cargo.toml"))?;
    let shared = of_root
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    let version = |name: &str| {
        let found = shared.and_then(|shared| shared.get(name)).cloned();
        found
            .map(|found| format!("{name} = {found}\n"))
            .ok_or_else(|| format!("Cargo.toml has no {name}"))
    };
    let crates = root.join("crates");
    let crates = crates.display();
    let mut profiles = toml::Table::new();
    if let Some(profile) = of_root.get("profile") {
        profiles.insert("profile".to_owned(), profile.clone());
    }
    Ok(format!(
        "[package]
name = \"mpquic-book-blocks\"
version = \"0.0.0\"
edition = \"2024\"
publish = false

[workspace]

[features]
default = [\"interfaces\", \"metrics\", \"qlog\"]
interfaces = []
metrics = []
qlog = []

[dependencies]
mpquic = {{ path = \"{crates}/mpquic\", features = [\"interfaces\", \"metrics\", \"qlog\", \"quic-lb\", \"record\"] }}
mpquic-infer = {{ path = \"{crates}/infer\" }}
tokio = {{ version = \"1\", features = [\"macros\", \"net\", \"rt-multi-thread\", \"sync\", \"time\"] }}
{}
{profiles}",
        version("rcgen")?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(info: &str, text: &str) -> Block {
        Block {
            page: "page.md".into(),
            line: 1,
            info: info.to_owned(),
            text: text.to_owned(),
            comment: None,
        }
    }

    #[test]
    fn what_nothing_would_call_is_called() {
        let uncalled = block(
            "rust",
            "use std::io;\nasync fn run(a: u8, b: u8) -> io::Result<()> { Ok(()) }\n",
        );
        assert_eq!(
            call(&uncalled),
            Some(Call::Functions(vec![("run".to_owned(), true, 2)]))
        );
        let text = "# #[cfg(feature = \"x\")]\n# fn main() {\nf();\n# }\n# #[cfg(not(feature = \"x\"))]\n# fn main() {}\n";
        assert_eq!(call(&block("rust,no_run", text)), Some(Call::Main));
        assert_eq!(
            call(&block("rust,no_run", "let a = 1;\nf(a);\n")),
            Some(Call::Statements)
        );
        // These run with `cargo test`.
        assert_eq!(call(&block("rust", "fn main() {}\n")), None);
        assert_eq!(call(&block("rust", "let a = 1;\n")), None);
    }
}
