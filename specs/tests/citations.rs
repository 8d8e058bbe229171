//! Every citation in the repository quotes its section as it is.

use std::path::Path;

use mpquic_specs::report::{Options, report};

#[test]
fn every_quote_is_in_its_section() {
    let coverage = mpquic_specs::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let text = report(&coverage, &Options::default());
    println!("{text}");
    assert!(coverage.wrong.is_empty(), "{text}");
}
