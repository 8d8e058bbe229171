//! Runs the program for a while: 24 seconds of faults where every seed is wanted, as CI does, and ten seconds otherwise. Where no network namespaces
//! can be made, it says so and does nothing.

use std::process::Command;

#[test]
fn nothing_is_lost_and_nothing_is_left() {
    let every = std::env::var_os("EVERY_SEED").is_some();
    let minutes = if every { "0.4" } else { "0.15" };
    let program = Command::new(env!("CARGO_BIN_EXE_mpquic-chaos"))
        .args(["--minutes", minutes])
        .status()
        .unwrap();
    assert!(program.success(), "{program}");
}
