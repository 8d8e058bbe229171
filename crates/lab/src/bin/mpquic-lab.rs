//! The `mpquic-lab` binary. The library has its code.

use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let code = mpquic_lab::cli::main(std::env::args_os(), &mut out, &mut err);
    ExitCode::from(code)
}
