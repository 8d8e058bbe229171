//! Runs a fuzz target for a while, with no more than a stable toolchain: mutates the corpus, keeps what behaves in a new
//! way, and writes down what panics.
//!
//! ```text
//! cargo run -p mpquic-hostile --example fuzz -- connection --minutes 30
//! cargo run -p mpquic-hostile --example fuzz -- connection --replay fuzz/artifacts/connection/...
//! ```

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use mpquic_hostile::fuzz::{self, Features};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Runs a fuzz target.
#[derive(Debug, Parser)]
struct Options {
    /// The target.
    #[arg(value_parser = fuzz::TARGETS.iter().copied().collect::<Vec<_>>())]
    target: String,
    /// For how long.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Where random numbers begin. The default differs from run to run.
    #[arg(long)]
    seed: Option<u64>,
    /// The longest input.
    #[arg(long, default_value_t = 600)]
    max_len: usize,
    /// Adds inputs that behave in a new way to the corpus on disk, at most so many.
    #[arg(long, default_value_t = 0)]
    save: usize,
    /// Runs this file only.
    #[arg(long)]
    replay: Option<PathBuf>,
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn main() -> ExitCode {
    let options = Options::parse();
    let Some(run) = fuzz::target(&options.target) else {
        return ExitCode::FAILURE;
    };
    if let Some(file) = &options.replay {
        match fs::read(file) {
            Ok(data) => println!("{} features", run(&data).len()),
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                return ExitCode::FAILURE;
            }
        }
        return ExitCode::SUCCESS;
    }
    std::panic::set_hook(Box::new(|info| {
        PANIC.with_borrow_mut(|text| *text = info.to_string());
    }));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let seed = options.seed.unwrap_or_else(|| {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        since.as_nanos() as u64
    });
    let mut rng = StdRng::seed_from_u64(seed);
    let folder = root.join("corpus").join(&options.target);
    let mut corpus = read_all(&folder);
    let stored = corpus.len();
    if corpus.is_empty() {
        corpus.push(vec![0; 16]);
    }
    let mut seen = Features::new();
    let (mut runs, mut saved) = (0u64, 0);
    let begin = Instant::now();
    let end = Duration::from_secs_f64(60.0 * options.minutes.max(0.0));
    let mut told = Instant::now();
    let mut first = 0..corpus.len();
    println!("{}: {stored} inputs, seed {seed}", options.target);
    while begin.elapsed() < end {
        let is_stored = first.next();
        let data = match is_stored {
            Some(at) => corpus[at].clone(),
            None => mutate(&mut rng, &corpus, options.max_len),
        };
        runs += 1;
        match catch_unwind(AssertUnwindSafe(|| run(&data))) {
            Ok(features) => {
                let new = features.difference(&seen).count();
                seen.extend(features);
                if new > 0 && is_stored.is_none() {
                    if saved < options.save {
                        saved += usize::from(write(&folder, "new", &data).is_ok());
                    }
                    corpus.push(data);
                }
            }
            Err(_) => {
                let small = shrink(run, data);
                let why = PANIC.with_borrow(Clone::clone);
                let file = write(
                    &root.join("artifacts").join(&options.target),
                    "crash",
                    &small,
                );
                println!("run {runs}, seed {seed}: {why}\n{small:?}\nwritten to {file:?}");
                return ExitCode::FAILURE;
            }
        }
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            println!(
                "{runs} runs, {} inputs, {} features",
                corpus.len(),
                seen.len()
            );
        }
    }
    println!(
        "{}: {runs} runs in {:.0} s without a finding, {} inputs, {} features",
        options.target,
        begin.elapsed().as_secs_f64(),
        corpus.len(),
        seen.len()
    );
    ExitCode::SUCCESS
}

fn read_all(folder: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
        .iter()
        .filter_map(|file| fs::read(file).ok())
        .collect()
}

fn write(folder: &Path, prefix: &str, data: &[u8]) -> std::io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let sum = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let file = folder.join(format!("{prefix}-{sum:016x}"));
    fs::write(&file, data)?;
    Ok(file)
}

/// Leaves out pieces for as long as it still panics.
fn shrink(run: fn(&[u8]) -> Features, mut data: Vec<u8>) -> Vec<u8> {
    let panics = |data: &[u8]| catch_unwind(AssertUnwindSafe(|| run(data))).is_err();
    let mut size = data.len() / 2;
    let begin = Instant::now();
    while size > 0 && begin.elapsed() < Duration::from_secs(60) {
        let mut at = 0;
        while at < data.len() {
            let mut shorter = data.clone();
            shorter.drain(at..(at + size).min(data.len()));
            if panics(&shorter) {
                data = shorter;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    // So that the message is that of the input that is written down.
    panics(&data);
    data
}

fn mutate(rng: &mut StdRng, corpus: &[Vec<u8>], max_len: usize) -> Vec<u8> {
    let mut data = corpus[rng.random_range(0..corpus.len())].clone();
    for _ in 0..1 << rng.random_range(0..5) {
        let at = rng.random_range(0..=data.len());
        match rng.random_range(0..8) {
            0 if at < data.len() => data[at] ^= 1 << rng.random_range(0..8),
            1 | 2 if at < data.len() => data[at] = rng.random(),
            3 => data.insert(at, rng.random()),
            4 => {
                let len = rng.random_range(1..24);
                let new: Vec<u8> = (0..len).map(|_| rng.random()).collect();
                data.splice(at..at, new);
            }
            5 => {
                let end = (at + rng.random_range(0..12)).min(data.len());
                data.drain(at..end);
            }
            6 => {
                // A piece of another one.
                let other = &corpus[rng.random_range(0..corpus.len())];
                let from = rng.random_range(0..=other.len());
                let to = (from + rng.random_range(0..64)).min(other.len());
                data.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                // The same again.
                let end = (at + rng.random_range(0..32)).min(data.len());
                let again = data[at..end].to_vec();
                data.splice(at..at, again);
            }
        }
    }
    data.truncate(max_len);
    let distinct: BTreeSet<_> = data.iter().collect();
    if distinct.is_empty() {
        data.push(rng.random());
    }
    data
}
