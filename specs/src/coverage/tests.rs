//! What citations cover.

use std::path::Path;

use super::{Counts, Coverage};
use crate::citation::parse_source;
use crate::specification::{Level, Specification};

const RFC: &str = "
1.  One

   A sender MUST wait and MUST count.  It MUST stop.  It MUST NOT cry.
   It SHOULD sing.
";

fn coverage(source: &str) -> Coverage {
    let specification = Specification::parse("specs/rfc1.txt", RFC);
    Coverage::new(
        vec![specification],
        parse_source(Path::new("a.rs"), source).unwrap(),
    )
}

#[test]
fn a_requirement_is_met_if_all_of_it_is_cited() {
    let coverage = coverage(
        "
//= specs/rfc1.txt#section-1
//# A sender MUST wait

//= specs/rfc1.txt#section-1
//# and MUST count.
//= specs/rfc1.txt#section-1
//= type=test
//# A sender MUST wait and MUST count.

//= specs/rfc1.txt#section-1
//# It MUST

//= specs/rfc1.txt#section-1
//= type=exception
//= reason=It has no eyes.
//# It MUST NOT cry.
",
    );
    assert_eq!(
        coverage.counts(0, Level::Must),
        Counts {
            total: 3,
            met: 1,
            tested: 1,
            excepted: 1,
            missing: 1
        }
    );
    assert_eq!(
        coverage.counts(0, Level::Should),
        Counts {
            total: 1,
            missing: 1,
            ..Counts::default()
        }
    );
}

#[test]
fn a_quote_that_is_not_there_is_wrong() {
    for source in [
        "//= specs/rfc1.txt#section-1\n//# It MUST NOT sing.",
        "//= specs/rfc1.txt#section-2\n//# It MUST stop.",
        "//= specs/rfc2.txt#section-1\n//# It MUST stop.",
    ] {
        assert_eq!(coverage(source).wrong.len(), 1, "{source}");
    }
}
