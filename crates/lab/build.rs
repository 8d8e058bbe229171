//! Hashes the sources that decide what a simulated run does, so that the lab tells one build from another.

use std::env;
use std::fs;
use std::hash::Hasher as _;
use std::io;
use std::path::{Path, PathBuf};

use siphasher::sip128::{Hasher128 as _, SipHasher13};

fn main() -> io::Result<()> {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let crates = own.parent().unwrap_or(&own);
    let in_workspace = crates.join("proto").join("Cargo.toml").is_file();
    let mut files = Vec::new();
    if in_workspace {
        for folder in ours(&own, crates)? {
            package(&folder, &mut files)?;
        }
        let root = crates.parent().unwrap_or(crates);
        collect(&root.join("models"), &mut files)?;
        files.push(root.join("Cargo.lock"));
    } else {
        package(&own, &mut files)?;
        files.push(own.join("Cargo.lock"));
    }
    files.retain(|file| file.is_file());
    let base = if in_workspace {
        crates.parent().unwrap_or(crates)
    } else {
        &own
    };
    let mut named: Vec<_> = files
        .iter()
        .map(|file| (name_of(file, base), file))
        .collect();
    named.sort();
    let mut hasher = SipHasher13::new();
    for (name, file) in named {
        println!("cargo:rerun-if-changed={}", file.display());
        // A checkout may have changed the ends of lines.
        let content: Vec<u8> = fs::read(file)?
            .into_iter()
            .filter(|byte| *byte != b'\r')
            .collect();
        hasher.write(name.as_bytes());
        hasher.write_u64(content.len() as u64);
        hasher.write(&content);
    }
    println!(
        "cargo:rustc-env=MPQUIC_SOURCES={:016x}",
        hasher.finish128().h1
    );
    Ok(())
}

/// The folders of the lab and of all crates of this repository that it is built from. In a published package, the others are not
/// there: their versions are in the lock file.
fn ours(lab: &Path, crates: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![lab.to_owned()];
    let mut read = 0;
    while let Some(folder) = folders.get(read) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
        read += 1;
        for line in manifest.lines() {
            let Some(rest) = line.strip_prefix("mpquic-") else {
                continue;
            };
            let name: String = rest
                .chars()
                .take_while(|char| char.is_ascii_alphanumeric() || *char == '-')
                .collect();
            let folder = crates.join(name);
            if folder.is_dir() && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    Ok(folders)
}

/// The files of a package that are compiled into it.
fn package(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    files.push(folder.join("Cargo.toml"));
    for part in ["certs", "data", "src"] {
        collect(&folder.join(part), files)?;
    }
    Ok(())
}

/// All files below a folder, if there is one. New files are noticed, too.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The path below the base with slashes, the same on all systems.
fn name_of(file: &Path, base: &Path) -> String {
    let below = file.strip_prefix(base).unwrap_or(file);
    let parts = below.components();
    let parts = parts.map(|part| part.as_os_str().to_string_lossy().into_owned());
    parts.collect::<Vec<_>>().join("/")
}
