//! Citations read from source text.

use std::path::Path;

use super::{Kind, parse_source};

#[test]
fn two_citations_on_top_of_each_other() {
    let text = "
    /// Documentation.
    //= specs/rfc1.txt#section-1
    //# A sender MUST NOT
    //# send twice.
    //= specs/rfc1.txt#section-2
    //= type=test
    //# A receiver MAY answer.
    fn f() {}
";
    let citations = parse_source(Path::new("a.rs"), text).unwrap();
    assert_eq!(citations.len(), 2);
    let [first, second] = &citations[..] else {
        panic!("two")
    };
    assert_eq!(
        (first.line, first.kind, first.quote.as_str()),
        (3, Kind::Implementation, "A sender MUST NOT send twice.")
    );
    assert_eq!(
        (second.line, second.kind, second.section.as_str()),
        (6, Kind::Test, "section-2")
    );
}

#[test]
fn a_citation_of_another_form_is_an_error() {
    for (text, what) in [
        ("//# a quote", "without a section above"),
        ("//= specs/rfc1.txt#section-1\nfn f() {}", "no quote"),
        ("//= specs/rfc1.txt\n//# a quote", "no section is named"),
        ("//= type=test\n//# a quote", "no specification is named"),
        (
            "//= specs/rfc1.txt#section-1\n//= type=tset\n//# a quote",
            "unknown type",
        ),
        (
            "//= specs/rfc1.txt#section-1\n//= type=exception\n//# a quote",
            "without a reason",
        ),
    ] {
        let error = parse_source(Path::new("a.rs"), text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{error}");
    }
}
