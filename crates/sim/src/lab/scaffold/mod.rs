//! The command `new-scheduler`: writes a small crate with a scheduler, and the lab around it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::cli::{Failure, cannot};
use super::roster::Schedulers;

/// The arguments of `new-scheduler`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The name of the scheduler and of its package: small letters, digits, _ and -.
    name: String,
    /// The folder to write, which must not exist [default: NAME].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// A checkout of mpquic to build against [default: the one around the current folder; without one, the published crates].
    #[arg(long, value_name = "DIR")]
    checkout: Option<PathBuf>,
}

/// The files, and the templates that they are made of.
const FILES: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("Cargo.toml.txt")),
    ("arena.toml", include_str!("arena.toml.txt")),
    ("src/lib.rs", include_str!("lib.rs.txt")),
    ("src/main.rs", include_str!("main.rs.txt")),
];

/// Words that Rust or Cargo do not take for the name of a crate.
const RESERVED: [&str; 46] = [
    "abstract", "as", "async", "await", "become", "box", "break", "build", "const", "continue",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "match", "mod", "move", "mut", "override", "pub", "ref", "return", "self",
    "static", "struct", "super", "test", "trait", "true", "try", "type", "unsafe", "use", "where",
    "while",
];

/// Executes the command.
pub(crate) fn run(
    arguments: &Arguments,
    schedulers: &Schedulers,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let name = &*arguments.name;
    check(name, schedulers)?;
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => PathBuf::from(name),
    };
    if folder.exists() {
        let fault = format!("{} exists, expected a new folder", folder.display());
        return Err(Failure::Usage(fault));
    }
    let here = std::env::current_dir()?;
    let checkout = match &arguments.checkout {
        Some(checkout) if is_checkout(checkout) => Some(
            checkout
                .canonicalize()
                .map_err(|error| cannot("read", checkout, &error))?,
        ),
        Some(other) => {
            let fault = format!(
                "{} is not a checkout of mpquic: it has no crates/sim",
                other.display()
            );
            return Err(Failure::Usage(fault));
        }
        None => here
            .ancestors()
            .find(|folder| is_checkout(folder))
            .map(Path::to_owned),
    };
    write(&folder, name, checkout.as_deref()).map_err(|error| cannot("write", &folder, &error))?;
    writeln!(
        out,
        "wrote {}\n  cd {}\n  cargo test\n  cargo run --release -- arena arena.toml\n      the leaderboard: target/lab/arena/arena.html",
        FILES
            .map(|(file, _)| folder.join(file).display().to_string())
            .join(", "),
        folder.display()
    )?;
    Ok(())
}

fn check(name: &str, schedulers: &Schedulers) -> Result<(), Failure> {
    let fits = name.len() <= 40
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c));
    if !fits || RESERVED.contains(&name) {
        return Err(Failure::Usage(format!(
            "`{name}` cannot be the name of a crate, expected small letters, digits, _ and -, as my_scheduler"
        )));
    }
    let registry = schedulers.registry();
    if registry.names().any(|known| known == name)
        || registry.factory(name, &serde_json::Value::Null).is_ok()
    {
        return Err(Failure::Usage(format!(
            "there is a scheduler `{name}` already, expected another name"
        )));
    }
    Ok(())
}

fn is_checkout(folder: &Path) -> bool {
    let has = |file: &str| folder.join(file).is_file();
    has("crates/sim/Cargo.toml") && has("crates/sched/Cargo.toml")
}

fn write(folder: &Path, name: &str, checkout: Option<&Path>) -> io::Result<()> {
    let source = |part: &str| match checkout {
        Some(checkout) => {
            let path = checkout.join("crates").join(part).display().to_string();
            // A literal string of TOML, for paths with backslashes.
            format!("path = '{path}'")
        }
        None => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
    };
    let replacements = [
        ("{source_sched}", source("sched")),
        ("{source_sim}", source("sim")),
        ("{crate}", name.replace('-', "_")),
        ("{Type}", type_name(name)),
        ("{name}", name.to_owned()),
    ];
    fs::create_dir_all(folder.join("src"))?;
    for (file, template) in FILES {
        let text = replacements
            .iter()
            .fold(template.to_owned(), |text, (place, value)| {
                text.replace(place, value)
            });
        fs::write(folder.join(file), text)?;
    }
    Ok(())
}

/// The name of the type: `my_scheduler` is `MyScheduler`.
fn type_name(name: &str) -> String {
    let parts = name.split(['_', '-']).filter(|part| !part.is_empty());
    let capitalised = parts.map(|part| part[..1].to_ascii_uppercase() + &part[1..]);
    let name: String = capitalised.collect();
    // In scope in the file that is made, or in every file.
    match &*name {
        "Config" | "Waiting" | "Advice" | "Context" | "Decision" | "Registry" | "Scheduler"
        | "Self" | "Option" | "Result" | "String" | "Vec" | "Box" | "Default" | "Ok" | "Err"
        | "Some" | "None" => {
            format!("{name}Scheduler")
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_types() {
        for (name, expected) in [
            ("mine", "Mine"),
            ("my_own-1", "MyOwn1"),
            ("scheduler", "SchedulerScheduler"),
        ] {
            assert_eq!(type_name(name), expected);
        }
    }

    #[test]
    fn names_that_are_no_crates_or_taken_are_refused() {
        let known = Schedulers::default();
        for name in [
            "", "Mine", "1st", "a b", "../x", "fn", "minrtt", "rr", "split", "test",
        ] {
            assert!(check(name, &known).is_err(), "{name}");
        }
        for name in ["mine", "my-scheduler", "x_2"] {
            assert!(check(name, &known).is_ok(), "{name}");
        }
    }
}
