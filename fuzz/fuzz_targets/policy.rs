//! An ONNX file, whatever it holds, ends in a policy that runs or in an error, within bounded memory and time.
#![no_main]

use mpquic_infer::{Card, Feature, Input, Normalisation, Options, Output, Policy, Provenance};
use sha2::{Digest, Sha256};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let digest = Sha256::digest(data);
    let feature = |number| Feature {
        name: format!("feature {number}"),
        unit: "1".into(),
        normalisation: Normalisation::default(),
    };
    let card = Card {
        format: 1,
        name: "fuzzed".into(),
        onnx_sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        inputs: vec![Input {
            name: "state".into(),
            shape: vec![1, 10],
            axis: 1,
            features: (0..10).map(feature).collect(),
        }],
        outputs: vec![Output {
            name: "q".into(),
            shape: vec![1, 7],
            meaning: vec!["value".into()],
        }],
        provenance: Provenance {
            source: "fuzzing".into(),
            training: "none".into(),
            seed: 0,
            ..Provenance::default()
        },
    };
    if let Ok(mut policy) = Policy::from_bytes(data, card, &Options::default()) {
        let _ = policy.run(&[0.5; 10]);
    }
});
