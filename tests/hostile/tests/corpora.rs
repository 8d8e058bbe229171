//! Every input of the corpora in `fuzz/corpus` once through its target, and some noise through each.

use std::path::Path;

use mpquic_hostile::fuzz;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[test]
fn corpora_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for name in fuzz::TARGETS {
        let run = fuzz::target(name).unwrap();
        let mut inputs = 0;
        for entry in std::fs::read_dir(root.join(name)).unwrap() {
            run(&std::fs::read(entry.unwrap().path()).unwrap());
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no corpus");
    }
}

#[test]
fn noise_holds() {
    for name in fuzz::TARGETS {
        let run = fuzz::target(name).unwrap();
        let mut rng = StdRng::seed_from_u64(12);
        for _ in 0..50 {
            let len = rng.random_range(0..120);
            let data: Vec<u8> = (0..len).map(|_| rng.random()).collect();
            run(&data);
        }
    }
}
