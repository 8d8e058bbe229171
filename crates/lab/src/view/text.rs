//! Formats numbers and tables as text.

use std::borrow::Cow;

use mpquic_proto::Escaped;

/// A number with this many significant digits, without trailing zeros.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !value.is_finite() {
        return "-".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits - 1 - magnitude).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// The beginning of a text that may be of any length.
pub(crate) fn shortened(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// A column's alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows under their heads, a line each. Each column is as wide as its widest cell.
pub(crate) fn table(heads: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    // Cells have texts of files.
    let safe = |text: &str| Escaped::new(text).to_string();
    let heads: Vec<_> = heads
        .iter()
        .map(|(head, align)| (safe(head), *align))
        .collect();
    let rows: Vec<Vec<_>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| safe(cell)).collect())
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(heads[column].0.chars().count())
    };
    let widths: Vec<_> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<_> = cells
            .zip(heads.iter().zip(&widths))
            .map(|(cell, ((_, align), &width))| match align {
                Align::Left => format!("{cell:width$}"),
                Align::Right => format!("{cell:>width$}"),
            })
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(&mut heads.iter().map(|head| &*head.0));
    for row in &rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_short() {
        for (value, digits, expected) in [
            (0.0, 3, "0"),
            (1.0, 3, "1"),
            (1.2345, 3, "1.23"),
            (0.000_123_45, 3, "0.000123"),
            (123_456.0, 3, "123456"),
            (-2.5, 2, "-2.5"),
            (f64::NAN, 2, "-"),
        ] {
            assert_eq!(significant(value, digits), expected);
        }
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let heads = [("name", Align::Left), ("s", Align::Right)];
        let rows = [["a", "1.25"], ["minrtt", "3"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(
            table(&heads, &rows),
            "name       s\na       1.25\nminrtt     3\n"
        );
    }
}
