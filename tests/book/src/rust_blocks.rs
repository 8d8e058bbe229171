//! The Rust blocks that the tests of documentation compile and do not run: a program that does.
//!
//! Those are blocks with `no_run`, and blocks with functions that nothing calls. All others run with `cargo test`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
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

/// Writes the program below `target`, and compiles it over the libraries that the tests built. Returns it.
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
    let built = Built::read(root)?;
    let program = program(target);
    let mut rustc = Command::new(cargo::rustc());
    rustc.args([
        "--edition",
        "2024",
        "--crate-name",
        "mpquic_book_blocks",
        "-o",
    ]);
    rustc.arg(&program).arg(folder.join("src/main.rs"));
    rustc.arg("-L").arg(built.dependencies(target));
    for folder in &built.linked {
        rustc.args(["-L", folder]);
    }
    for name in LIBRARIES {
        let library = built.file_of(name)?;
        rustc.args(["--extern", &format!("{name}={library}")]);
    }
    for feature in FEATURES {
        built.has_feature(feature)?;
        rustc.args(["--cfg", &format!("feature=\"{feature}\"")]);
    }
    let status = rustc
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("rustc: {error}"))?;
    if !status.success() {
        return Err(
            "the Rust blocks of the pages do not compile as one program: see above".to_owned(),
        );
    }
    Ok(program)
}

/// Where the program is.
pub fn program(target: &Path) -> PathBuf {
    target.join("book-blocks/mpquic-book-blocks")
}

/// What the blocks may use.
const LIBRARIES: [&str; 4] = ["mpquic", "mpquic_infer", "rcgen", "tokio"];
/// The features of `mpquic` that pages speak of.
const FEATURES: [&str; 5] = ["interfaces", "metrics", "qlog", "quic-lb", "record"];

/// What `cargo test --workspace --no-run` built, as cargo tells: the program is made of that, and none of it is built again.
struct Built {
    libraries: Vec<Library>,
    /// Where build scripts say that libraries of the system are.
    linked: Vec<String>,
}

struct Library {
    name: String,
    file: String,
    features: Vec<String>,
}

impl Built {
    fn read(root: &Path) -> Result<Self, String> {
        let mut command = Command::new(cargo::program());
        cargo::forget_own_package(&mut command);
        let output = command
            .args([
                "test",
                "--workspace",
                "--locked",
                "--no-run",
                "--quiet",
                "--message-format=json",
            ])
            .current_dir(root)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            return Err("the workspace does not build: see above".to_owned());
        }
        let strings = |value: &Value| -> Vec<String> {
            let all = value.as_array().into_iter().flatten();
            all.filter_map(|one| one.as_str().map(str::to_owned))
                .collect()
        };
        let mut built = Self {
            libraries: Vec::new(),
            linked: Vec::new(),
        };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            if message["reason"] == "build-script-executed" {
                built.linked.extend(strings(&message["linked_paths"]));
            }
            let file = strings(&message["filenames"])
                .into_iter()
                .find(|file| file.ends_with(".rlib"));
            if let (Some(file), Some(name)) = (file, message["target"]["name"].as_str()) {
                built.libraries.push(Library {
                    name: name.replace('-', "_"),
                    file,
                    features: strings(&message["features"]),
                });
            }
        }
        Ok(built)
    }

    /// Of several builds, the one with the most features: those of build scripts and macros have fewer.
    fn of_name(&self, name: &str) -> Result<&Library, String> {
        let all = self.libraries.iter().filter(|library| library.name == name);
        all.max_by_key(|library| library.features.len())
            .ok_or_else(|| format!("the workspace has no library {name}"))
    }

    fn file_of(&self, name: &str) -> Result<&str, String> {
        self.of_name(name).map(|library| library.file.as_str())
    }

    fn has_feature(&self, feature: &str) -> Result<(), String> {
        let library = self.of_name("mpquic")?;
        if library.features.iter().any(|there| there == feature) {
            return Ok(());
        }
        Err(format!(
            "the tests of the workspace have mpquic without its feature {feature}, which pages speak of"
        ))
    }

    fn dependencies(&self, target: &Path) -> std::ffi::OsString {
        let mut path = std::ffi::OsString::from("dependency=");
        path.push(target.join("debug/deps"));
        path
    }
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
