//! Texts taken apart.

use super::{Level, Specification};

const RFC: &str = "\u{feff}

1.  Introduction

   Key words are \"MUST\", \"MUST NOT\" and \"MAY\".  A sender MUST NOT
   send twice, e.g., at once.  A re-
   ceiver MAY answer.

   *  An item SHOULD end

   *  here

Appendix A.  More

   Nothing is REQUIRED here.

A.1.  Below

   All is OPTIONAL.

Acknowledgments

   Thanks MUST be given.
";

const MARKDOWN: &str = "---
title: A MUST before the first heading
---

# First Section

You MUST do this
at once. You need not.

- One item
  SHOULD be
- another MAY be

## Below {#anchor}

Field:
: A value. It MUST NOT exceed 2<sup>32</sup>-1.

~~~
# no heading
~~~
";

fn requirements(specification: &Specification) -> Vec<(&str, Level, &str)> {
    let sections = specification.sections.iter();
    sections
        .flat_map(|s| {
            s.requirements
                .iter()
                .map(|r| (s.id.as_str(), r.level, r.text.as_str()))
        })
        .collect()
}

#[test]
fn the_plain_text_of_an_rfc() {
    let rfc = Specification::parse("specs/rfc1.txt", RFC);
    assert_eq!(rfc.name, "RFC 1");
    assert_eq!(
        requirements(&rfc),
        [
            (
                "section-1",
                Level::Must,
                "A sender MUST NOT send twice, e.g., at once."
            ),
            ("section-1", Level::May, "A re- ceiver MAY answer."),
            ("section-1", Level::Should, "* An item SHOULD end"),
            ("appendix-A", Level::Must, "Nothing is REQUIRED here."),
            ("appendix-A.1", Level::May, "All is OPTIONAL."),
        ],
    );
}

#[test]
fn the_markdown_of_a_working_group() {
    let draft = Specification::parse("specs/rfc2-draft.md", MARKDOWN);
    assert_eq!(draft.name, "RFC 2");
    assert_eq!(
        requirements(&draft),
        [
            ("first-section", Level::Must, "You MUST do this at once."),
            ("first-section", Level::Should, "- One item SHOULD be"),
            ("first-section", Level::May, "- another MAY be"),
            (
                "anchor",
                Level::Must,
                "It MUST NOT exceed 2<sup>32</sup>-1."
            ),
        ],
    );
    assert_eq!(
        draft
            .section("anchor")
            .map(|section| section.title.as_str()),
        Some("Below")
    );
}

#[test]
fn a_quote_is_found_whatever_its_line_breaks() {
    let rfc = Specification::parse("specs/rfc1.txt", RFC);
    let section = rfc.section("section-1").unwrap();
    assert!(section.find("MUST NOT send\n   twice").is_some());
    assert!(section.find("A re-ceiver MAY answer.").is_some());
    assert!(section.find("A sender MUST send twice").is_none());
    assert!(section.find(" ").is_none());
}
