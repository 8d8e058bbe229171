//! Markdown as IETF working groups write it: `## Heading {#anchor}`, figures between `~~~`.

use super::Section;

/// The sections. Those without an anchor are named by their heading in lower case, with hyphens.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut paragraph = String::new();
    let mut in_figure = false;
    for line in text.lines() {
        let trimmed = line.trim();
        let fence = trimmed.starts_with("~~~");
        let heading = if in_figure || fence {
            None
        } else {
            heading(line)
        };
        if trimmed.is_empty() || heading.is_some() || is_item(trimmed) || fence {
            // What comes before the first heading is not part of the text.
            if let Some(section) = sections.last_mut() {
                section.push_paragraph(&paragraph);
            }
            paragraph.clear();
        }
        in_figure ^= fence;
        if let Some(section) = heading {
            sections.push(section);
        } else {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
    }
    if let Some(section) = sections.last_mut() {
        section.push_paragraph(&paragraph);
    }
    sections
}

fn heading(line: &str) -> Option<Section> {
    let title = line.trim_start_matches('#');
    if title.len() == line.len() || !title.starts_with(' ') {
        return None;
    }
    let title = title.trim();
    let (title, id) = match title
        .strip_suffix('}')
        .and_then(|title| title.split_once("{#"))
    {
        Some((title, anchor)) => (title.trim_end(), anchor.to_owned()),
        None => (title, slug(title)),
    };
    Some(Section {
        id,
        title: title.to_owned(),
        ..Section::default()
    })
}

fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let words = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

fn is_item(line: &str) -> bool {
    line.starts_with("- ") || line.starts_with("* ")
}
