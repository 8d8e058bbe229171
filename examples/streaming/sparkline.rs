//! Formats numbers as a row of block characters.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The values as blocks, where the highest block stands for `top`. With more values than `columns`,
/// each column shows the largest of several values.
pub(crate) fn sparkline(values: &[f64], top: f64, columns: usize) -> String {
    let each = values.len().div_ceil(columns.max(1)).max(1);
    let largest = |some: &[f64]| some.iter().copied().fold(0.0, f64::max);
    values
        .chunks(each)
        .map(|some| block(largest(some) / top))
        .collect()
}

/// The block for a share from 0 to 1. Values beyond count as 0 or 1.
fn block(share: f64) -> char {
    let step = (share * BLOCKS.len() as f64).ceil() as usize;
    BLOCKS[step.clamp(1, BLOCKS.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        assert_eq!(sparkline(&[0.0, 1.0, 4.0, 8.0], 8.0, 60), "▁▁▄█");
        assert_eq!(sparkline(&[1.0, 2.0, 8.0, 3.0, 4.0], 8.0, 3), "▂█▄");
        assert_eq!(sparkline(&[], 8.0, 60), "");
        // Invalid values must not panic.
        assert_eq!(sparkline(&[-1.0, 9.0, f64::NAN], 8.0, 60), "▁█▁");
        assert_eq!(sparkline(&[0.0], 0.0, 0), "▁");
    }
}
