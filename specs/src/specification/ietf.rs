//! The plain text of an RFC: headings at the left margin, everything else indented.

use super::Section;

/// The numbered sections and the appendices.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut section: Option<Section> = None;
    let mut paragraph = String::new();
    for line in text.trim_start_matches('\u{feff}').lines() {
        let at_margin = line.starts_with(|c: char| !c.is_whitespace());
        if at_margin || line.trim().is_empty() {
            if let Some(section) = &mut section {
                section.push_paragraph(&paragraph);
            }
            paragraph.clear();
        }
        if at_margin {
            // A heading without a number ends what was before it: authors' addresses and the like.
            sections.extend(section.take());
            section = heading(line).map(|(id, title)| Section {
                id,
                title: title.to_owned(),
                ..Section::default()
            });
        } else {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
    }
    if let Some(section) = &mut section {
        section.push_paragraph(&paragraph);
    }
    sections.extend(section);
    sections
}

/// "5.1.  Connection ID", "Appendix A.  Pseudocode", "A.1.  Sample".
fn heading(line: &str) -> Option<(String, &str)> {
    let line = line.strip_prefix("Appendix ").unwrap_or(line);
    let (number, title) = line.split_once(".  ")?;
    let mut parts = number.split('.');
    let first = parts.next()?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !parts.all(is_number) {
        return None;
    }
    if is_number(first) {
        Some((format!("section-{number}"), title))
    } else if first.len() == 1 && first.bytes().all(|byte| byte.is_ascii_uppercase()) {
        Some((format!("appendix-{number}"), title))
    } else {
        None
    }
}
