//! Every citation in the repository quotes its section as it is, and what the page of deviations names is an exception, too.

use std::path::Path;

use mpquic_specs::report::{Options, report};
use mpquic_specs::specification::Level;

#[test]
fn every_quote_is_in_its_section() {
    let coverage = mpquic_specs::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let text = report(&coverage, &Options::default());
    println!("{text}");
    assert!(coverage.wrong.is_empty(), "{text}");
}

/// No row claims to be met where the page says that it is not.
#[test]
fn every_deviation_has_an_exception() {
    let coverage = mpquic_specs::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    assert!(coverage.deviations.len() > 5, "{:?}", coverage.deviations);
    assert!(
        coverage.unexplained().is_empty(),
        "{:?}",
        coverage.unexplained()
    );
    let deviating = (0..coverage.specifications.len()).flat_map(|index| coverage.judge(index));
    let deviating = deviating.filter(|judged| judged.deviates()).count();
    assert!(deviating >= 3, "{deviating}");
}

/// Each MUST of what a connection is made of is cited where the code meets it, or has a reason why not.
#[test]
fn no_must_is_open() {
    let coverage = mpquic_specs::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    for (index, one) in coverage.specifications.iter().enumerate() {
        let name = &one.name;
        let judged = coverage.judge(index);
        let open = judged
            .iter()
            .filter(|judged| judged.requirement.level == Level::Must && judged.is_missing());
        let open: Vec<_> = open.map(|judged| &judged.requirement.text).collect();
        assert!(open.is_empty(), "{name}: {open:#?}");
    }
}
