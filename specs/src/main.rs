//! The command line of the report: prints it; fails if a citation quotes what its section does not say.

use std::path::Path;
use std::process::ExitCode;

use mpquic_specs::report::{Options, report};

const USAGE: &str = "\
Usage: cargo run -p mpquic-specs -- [RFC...] [--open]
  prints for each RFC how many requirements the code meets and tests
  RFC     also lists each requirement of this RFC with the lines that cite it
  --open  lists only those that are missing or not tested
Exit status: 0 all quotes were found; 1 a quote is not in its section, or a deviation
has no exception; 2 a file cannot be read.";

fn main() -> ExitCode {
    let mut options = Options::default();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--open" => options.open_only = true,
            help if help.starts_with('-') => {
                println!("{USAGE}");
                return ExitCode::from(2);
            }
            rfc => options.listed.push(rfc.to_owned()),
        }
    }
    match mpquic_specs::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")) {
        Ok(coverage) => {
            print!("{}", report(&coverage, &options));
            if coverage.wrong.is_empty() && coverage.unexplained().is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
