//! What the fuzz target of the assembler runs: the assembler against a plain array; no randomness.

use super::assembler::Assembler;
use super::block::Pool;

/// Offsets stay below this, a few blocks.
const SPACE: usize = 1 << 16;

/// The stream's byte at this offset.
const fn byte(at: usize) -> u8 {
    (at ^ (at >> 8)) as u8
}

/// Takes four bytes at a time for an offset, a length, and what to do.
pub fn assembler(ops: &[u8]) {
    let content: Vec<u8> = (0..SPACE + 8 * 256).map(byte).collect();
    let mut pool = Pool::default();
    let mut assembler = Assembler::default();
    let mut received = vec![false; content.len()];
    let mut read = 0;
    for &[low, high, len, what] in ops.as_chunks().0 {
        let len = 8 * usize::from(len);
        match what % 8 {
            0 => {
                let mut buf = vec![0; len];
                let n = assembler.read(&mut buf, &mut pool);
                assert_eq!(buf[..n], content[read..read + n]);
                read += n;
            }
            1 => {
                let chunk = assembler.read_chunk(len, &mut pool);
                assert_eq!(chunk, content[read..read + chunk.len()]);
                read += chunk.len();
            }
            _ => {
                let offset = usize::from(u16::from_le_bytes([low, high]));
                let range = offset..offset + len;
                assembler.insert(offset as u64, &content[range.clone()], &mut pool);
                received[range].fill(true);
            }
        }
        let frontier = received.iter().position(|there| !there);
        let frontier = frontier.unwrap_or(received.len());
        assert_eq!(assembler.frontier(), frontier as u64);
        assert_eq!(assembler.readable(), (frontier - read) as u64);
        let beyond = received[frontier..].iter().filter(|there| **there).count();
        assert_eq!(assembler.out_of_order(), beyond as u64);
    }
}
