//! The benches of decisions have a row for each scheduler that `mpquic-lab names` prints, and for no other.

#[path = "../decision/names.rs"]
mod decision;
#[path = "../inference/names.rs"]
mod inference;

use std::collections::BTreeSet;

/// The schedulers on the lines of `mpquic-lab names` that name some: those of the library, of experiments only, and replicas.
fn printed() -> BTreeSet<String> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = ["mpquic-lab", "names"].map(Into::into);
    assert_eq!(mpquic_lab::cli::main(arguments, &mut out, &mut err), 0);
    let text = String::from_utf8(out).expect("text");
    let mut names = BTreeSet::new();
    for head in [
        "schedulers: ",
        "for experiments only: ",
        "replicas of published faults, not for use: ",
    ] {
        let line = text.lines().find_map(|line| line.strip_prefix(head));
        let line = line.unwrap_or_else(|| panic!("no line of {head:?} in {text}"));
        names.extend(line.split(", ").map(str::to_owned));
    }
    names
}

#[test]
fn each_scheduler_that_the_lab_names_has_a_row_and_no_other() {
    let printed = printed();
    let mut rows: Vec<&str> = decision::SCHEDULERS.to_vec();
    rows.retain(|name| *name != "floor");
    // A lab without trained networks names none that ask one; `cargo test --workspace` builds it with them.
    if printed.contains("dqn") {
        rows.extend(inference::SCHEDULERS);
    }
    let once: BTreeSet<_> = rows.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(once.len(), rows.len(), "a scheduler with two rows");
    assert_eq!(once, printed);
}
