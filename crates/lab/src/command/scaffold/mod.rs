//! The command `new-scheduler`: writes a small crate with a scheduler, and the lab around it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::command::cli::{Failure, cannot};
use crate::file::scheduler_set::Schedulers;

/// The arguments of `new-scheduler`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The name of the scheduler and of its package: small letters, digits, _ and -.
    name: String,
    /// The folder to write, which must not exist [default: NAME].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// A checkout of mpquic to build against [default: the one around the current folder, or else the one that this
    /// program was built from]. The crates are in no registry.
    #[arg(long, value_name = "DIR")]
    checkout: Option<PathBuf>,
}

/// The files, and what they are made of. The scheduler is called `my_scheduler` there, so that its code compiles as it stands:
/// `examples/own_scheduler.rs`.
const FILES: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("Cargo.toml.txt")),
    ("arena.toml", include_str!("arena.toml.txt")),
    ("src/lib.rs", include_str!("lib.rs")),
    ("src/main.rs", include_str!("main.rs")),
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
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checkout = checkout(arguments.checkout.as_deref(), &here, own)?;
    write(&folder, name, &checkout).map_err(|error| cannot("write", &folder, &error))?;
    writeln!(
        out,
        "wrote {}\nIt builds against {}: keep that, or change the paths in Cargo.toml.\n  cd {}\n  cargo test\n  cargo run --release -- arena arena.toml\n      the leaderboard: target/lab/arena/arena.html",
        FILES
            .map(|(file, _)| folder.join(file).display().to_string())
            .join(", "),
        checkout.display(),
        folder.display()
    )?;
    Ok(())
}

/// The checkout to build against: the one that is given, or that around the current folder, or that around the package of this
/// program.
fn checkout(given: Option<&Path>, here: &Path, own: &Path) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        if !is_checkout(given) {
            let fault = format!(
                "{} is not a checkout of mpquic: it has no crates/lab",
                given.display()
            );
            return Err(Failure::Usage(fault));
        }
        return given
            .canonicalize()
            .map_err(|error| cannot("read", given, &error));
    }
    around(here).or_else(|| around(own)).ok_or_else(|| {
        Failure::usage(
            "no checkout of mpquic around this folder, and its crates are in no registry: \
             give --checkout DIR, where you cloned mpquic",
        )
    })
}

/// The checkout that a folder is in.
fn around(folder: &Path) -> Option<PathBuf> {
    let mut folders = folder.ancestors();
    folders
        .find(|folder| is_checkout(folder))
        .map(Path::to_owned)
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
    has("crates/lab/Cargo.toml") && has("crates/sched/Cargo.toml")
}

fn write(folder: &Path, name: &str, checkout: &Path) -> io::Result<()> {
    let source = |part: &str| {
        let path = checkout.join("crates").join(part).display().to_string();
        // A literal string of TOML, for paths with backslashes.
        format!("path = '{path}'")
    };
    let replacements = [
        ("{source_sched}", source("sched")),
        ("{source_lab}", source("lab")),
        ("my_scheduler::", name.replace('-', "_") + "::"),
        ("my_scheduler", name.to_owned()),
        ("MyScheduler", type_name(name)),
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
    fn the_checkout_is_the_one_around_or_that_of_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let [one, two, none] = ["one", "two", "none"].map(|name| dir.join(name));
        fs::create_dir(&none).unwrap();
        for checkout in [&one, &two] {
            for part in ["lab", "sched"] {
                let folder = checkout.join("crates").join(part);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("Cargo.toml"), "").unwrap();
            }
        }
        let lab = |checkout: &Path| checkout.join("crates/lab");
        for (given, here, own, expected) in [
            (Some(&*one), &none, &none, Ok(&one)),
            (None, &lab(&one), &lab(&two), Ok(&one)),
            (None, &none, &lab(&two), Ok(&two)),
            (None, &none, &none, Err("give --checkout DIR")),
            (Some(&*none), &one, &one, Err("is not a checkout")),
        ] {
            match (checkout(given, here, own), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, *expected),
                (Err(Failure::Usage(fault)), Err(why)) => assert!(fault.contains(why), "{fault}"),
                (_, expected) => panic!("expected {expected:?}"),
            }
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
