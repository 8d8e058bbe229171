//! Broken and hostile files are refused with an error that names what and where; bytes at random never panic.

use crate::support::{
    Builder, Files, Seeded, dqn, files_of, gaps_compact, int, ints, sailfish, sha256,
};
use mpquic_infer::{Card, CardError, Limits, LoadError, Options, Policy};
use proptest::prelude::*;
use prost::Message;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto};

fn load(files: &Files) -> Result<Policy, LoadError> {
    Policy::from_bytes(&files.onnx, files.card.clone(), &Options::default())
}

/// The error of a file's bytes under a card that fits them.
fn refused(files: &Files) -> LoadError {
    match load(files) {
        Err(error) => error,
        Ok(policy) => panic!("accepted: {policy:?}"),
    }
}

/// The DQN after a change to its message.
fn changed(change: impl FnOnce(&mut ModelProto)) -> Files {
    let files = dqn(8);
    let mut model = ModelProto::decode(&files.onnx[..]).unwrap();
    change(&mut model);
    let onnx = model.encode_to_vec();
    let mut card = files.card;
    card.onnx_sha256 = sha256(&onnx);
    Files { onnx, card }
}

fn graph(model: &mut ModelProto) -> &mut GraphProto {
    model.graph.as_mut().unwrap()
}

#[test]
fn every_truncation_is_refused_with_its_place() {
    let files = dqn(8);
    for len in 0..files.onnx.len() {
        let onnx = files.onnx[..len].to_vec();
        let mut card = files.card.clone();
        card.onnx_sha256 = sha256(&onnx);
        let error = refused(&Files { onnx, card });
        assert!(
            matches!(
                error,
                LoadError::Wire { .. }
                    | LoadError::Missing { .. }
                    | LoadError::Dangling { .. }
                    | LoadError::Mismatch { .. }
            ),
            "{len} bytes: {error}"
        );
    }
}

#[test]
fn another_file_than_the_cards_is_refused() {
    let mut files = dqn(8);
    files.onnx = dqn(9).onnx;
    assert!(matches!(refused(&files), LoadError::Hash { .. }));
}

#[test]
fn a_cycle_is_refused() {
    let files = changed(|model| {
        let nodes = &mut graph(model).node;
        let last = nodes.last().unwrap().output[0].clone();
        nodes[0].input[0] = last;
    });
    let error = refused(&files);
    assert!(matches!(error, LoadError::Dangling { .. }), "{error}");
    assert!(error.to_string().contains("cycle"), "{error}");
}

#[test]
fn a_node_that_reads_itself_or_nothing_is_refused() {
    let itself = changed(|model| {
        let node = &mut graph(model).node[0];
        node.input[0] = node.output[0].clone();
    });
    assert!(matches!(refused(&itself), LoadError::Dangling { .. }));
    let nothing = changed(|model| graph(model).node[0].input[0] = "nowhere".into());
    assert!(refused(&nothing).to_string().contains("\"nowhere\""));
    let output = changed(|model| graph(model).output[0].name = "nowhere".into());
    assert!(matches!(refused(&output), LoadError::Mismatch { .. }));
}

#[test]
fn weights_that_are_not_numbers_are_refused_by_place() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let files = changed(|model| {
            graph(model).initializer[2].raw_data[4 * 5..4 * 6].copy_from_slice(&bad.to_le_bytes());
        });
        let error = refused(&files);
        assert!(
            matches!(&error, LoadError::NotFinite { index: 5, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("weights_2"), "{error}");
    }
}

#[test]
fn data_that_does_not_fit_its_dimensions_is_refused() {
    let files = changed(|model| {
        graph(model).initializer[0].raw_data.pop();
    });
    assert!(matches!(refused(&files), LoadError::DataLength { .. }));
    for dims in [
        vec![i64::MAX, i64::MAX],
        vec![1 << 40],
        vec![1 << 12, 1 << 12],
        vec![-1, 10],
        vec![1; 9],
    ] {
        let files = changed(|model| graph(model).initializer[0].dims = dims.clone());
        let error = refused(&files);
        assert!(
            matches!(
                error,
                LoadError::Limit { .. } | LoadError::Shape { .. } | LoadError::DataLength { .. }
            ),
            "{dims:?}: {error}"
        );
    }
}

#[test]
fn other_operator_sets_and_domains_are_refused() {
    for version in [i64::MIN, 0, 8, 19, i64::MAX] {
        let files = changed(|model| model.opset_import[0].version = version);
        assert!(matches!(refused(&files), LoadError::Opset { found, .. } if found == version));
    }
    assert!(matches!(
        refused(&changed(|model| model.opset_import.clear())),
        LoadError::Missing { .. }
    ));
    let domain = changed(|model| graph(model).node[0].domain = "com.example".into());
    assert!(refused(&domain).to_string().contains("com.example"));
    let unknown = changed(|model| graph(model).node[1].op_type = "Loop".into());
    assert!(refused(&unknown).to_string().contains("(Loop)"));
}

#[test]
fn subgraphs_and_outside_data_are_refused() {
    let subgraph = changed(|model| {
        graph(model).node[1].attribute.push(AttributeProto {
            name: "body".into(),
            g: Some(GraphProto::default()),
            ..Default::default()
        });
    });
    assert!(refused(&subgraph).to_string().contains("subgraphs"));
    let outside = changed(|model| {
        let tensor = &mut graph(model).initializer[0];
        tensor.data_location = Some(1);
    });
    assert!(refused(&outside).to_string().contains("other files"));
}

#[test]
fn card_and_file_have_to_agree() {
    let mut files = dqn(8);
    files.card.inputs[0].name = "stale".into();
    assert!(refused(&files).to_string().contains("\"stale\""));
    let mut files = dqn(8);
    files.card.outputs[0].shape = vec![1, 8];
    assert!(refused(&files).to_string().contains("[1, 8]"));
    let mut files = dqn(8);
    files.card.outputs.push(files.card.outputs[0].clone());
    files.card.outputs[1].name = "second".into();
    assert!(matches!(refused(&files), LoadError::Mismatch { .. }));
    let mut files = dqn(8);
    files.card.inputs[0].shape = vec![10, 1];
    files.card.inputs[0].features.truncate(1);
    assert!(matches!(refused(&files), LoadError::Mismatch { .. }));
}

/// A few bytes that ask for a tensor of a terabyte.
#[test]
fn what_would_grow_beyond_the_limits_is_refused_before_it_is_built() {
    let crosswise = {
        let mut b = Builder::new("crosswise", 1);
        let x = b.input("x", &[1, 1]);
        let column = b.weights(&[60_000, 1], 1.0);
        let row = b.weights(&[1, 60_000], 1.0);
        let all = b.node("Add", &[&column, &row], vec![]);
        let one = b.node("ReduceMax", &[&all], vec![int("keepdims", 1)]);
        b.named("Add", &[&x, &one], vec![], "y");
        b.output("y", &[1, 1]);
        b
    };
    let expand = {
        let mut b = Builder::new("expand", 1);
        let x = b.input("x", &[1, 1]);
        let dims = b.integers(&[1 << 20, 1 << 20]);
        let all = b.node("Expand", &[&x, &dims], vec![]);
        b.named("ReduceMax", &[&all], vec![int("keepdims", 1)], "y");
        b.output("y", &[1, 1]);
        b
    };
    let of_shape = {
        let mut b = Builder::new("of shape", 1);
        let x = b.input("x", &[1, 1]);
        let dims = b.integers(&[1 << 16, 1 << 16, 1 << 16]);
        let all = b.node("ConstantOfShape", &[&dims], vec![]);
        let one = b.node("ReduceMax", &[&all], vec![int("keepdims", 0)]);
        b.named("Add", &[&x, &one], vec![], "y");
        b.output("y", &[1, 1]);
        b
    };
    let doubling = {
        let mut b = Builder::new("doubling", 1);
        let mut x = b.input("x", &[1, 1]);
        for _ in 0..60 {
            x = b.node("Concat", &[&x, &x], vec![int("axis", 1)]);
        }
        b.named(
            "ReduceMax",
            &[&x],
            vec![ints("axes", &[1]), int("keepdims", 1)],
            "y",
        );
        b.output("y", &[1, 1]);
        b
    };
    let products = {
        let mut b = Builder::new("products", 1);
        let x = b.input("x", &[1, 1]);
        let w = b.weights(&[900, 900], 1.0);
        let mut y = w.clone();
        for _ in 0..8 {
            y = b.node("MatMul", &[&y, &w], vec![]);
        }
        let one = b.node("ReduceMax", &[&y], vec![int("keepdims", 1)]);
        b.named("Add", &[&x, &one], vec![], "y");
        b.output("y", &[1, 1]);
        b
    };
    for b in [crosswise, expand, of_shape, doubling, products] {
        let error = refused(&b.files());
        assert!(
            matches!(error, LoadError::Limit { .. }),
            "{}: {error}",
            b.graph.name
        );
    }
}

#[test]
fn attributes_outside_their_range_are_refused() {
    for (op, attribute) in [
        ("Softmax", int("axis", 40)),
        ("Softmax", int("axis", i64::MIN)),
        ("Concat", int("axis", -9)),
        ("Flatten", int("axis", 1 << 40)),
        ("Transpose", ints("perm", &[0, 0])),
        ("Transpose", ints("perm", &[i64::MAX, 1])),
        ("ReduceMax", ints("axes", &[77])),
        ("LayerNormalization", int("axis", 9)),
    ] {
        let mut b = Builder::new("attribute", 1);
        let x = b.input("x", &[1, 4]);
        let scale = b.weights(&[4], 1.0);
        let inputs: Vec<&str> = if op == "LayerNormalization" {
            vec![&x, &scale]
        } else {
            vec![&x]
        };
        b.named(op, &inputs, vec![attribute.clone()], "y");
        b.output("y", &[1, 4]);
        let error = refused(&b.files());
        assert!(
            matches!(error, LoadError::Attribute { .. } | LoadError::Graph { .. }),
            "{op} {attribute:?}: {error}"
        );
    }
}

#[test]
fn records_and_sizes_are_counted_before_they_are_built() {
    // Two bytes each: an empty node.
    let mut onnx = Vec::new();
    let nodes: Vec<u8> = [0x0a, 0x00].repeat(50_000);
    onnx.push(0x3a);
    prost::encoding::encode_varint(nodes.len() as u64, &mut onnx);
    onnx.extend(nodes);
    let mut card = dqn(8).card;
    card.onnx_sha256 = sha256(&onnx);
    let error = refused(&Files { onnx, card });
    assert!(
        matches!(
            error,
            LoadError::Limit {
                what: "records",
                ..
            }
        ),
        "{error}"
    );

    let files = dqn(8);
    let options = Options {
        limits: Limits {
            file_bytes: files.onnx.len() - 1,
            ..Limits::default()
        },
        ..Options::default()
    };
    assert!(matches!(
        Policy::from_bytes(&files.onnx, files.card, &options),
        Err(LoadError::Limit { what: "bytes", .. })
    ));
}

#[test]
fn from_files_with_the_path_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dqn.onnx");
    let missing = Policy::load(&path).unwrap_err();
    assert!(matches!(&missing, LoadError::Io { path: missing, .. } if *missing == path));
    let files = dqn(8);
    std::fs::write(&path, &files.onnx).unwrap();
    std::fs::write(
        path.with_extension("json"),
        serde_json::to_vec(&files.card).unwrap(),
    )
    .unwrap();
    assert_eq!(Policy::load(&path).unwrap().card(), &files.card);
    let options = Options {
        limits: Limits {
            file_bytes: 100,
            ..Limits::default()
        },
        ..Options::default()
    };
    let error = Policy::load_with(&path, &options).unwrap_err();
    assert!(matches!(&error, LoadError::FileSize { .. }), "{error}");
    assert!(error.to_string().contains("dqn.onnx"), "{error}");
}

/// A pipe whose opening would wait for a writer, and a device without an end, in the place of either file.
#[cfg(unix)]
#[test]
fn only_from_regular_files() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, zero) = (
        folder.path().join("pipe"),
        std::path::Path::new("/dev/zero"),
    );
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let files = dqn(8);
    let card = serde_json::to_vec(&files.card).unwrap();
    for (number, odd) in [&pipe, zero].into_iter().enumerate() {
        for odd_card in [false, true] {
            let path = folder.path().join(format!("{number}{odd_card}.onnx"));
            let (good, bad) = match odd_card {
                true => (path.clone(), path.with_extension("json")),
                false => (path.with_extension("json"), path.clone()),
            };
            let bytes = if odd_card { &files.onnx } else { &card };
            std::fs::write(good, bytes).unwrap();
            std::os::unix::fs::symlink(odd, &bad).unwrap();
            let (done, result) = std::sync::mpsc::channel();
            std::thread::spawn(move || done.send(Policy::load(&path).map(drop)));
            let result = result.recv_timeout(std::time::Duration::from_secs(10));
            let error = result.expect("loading waits").unwrap_err().to_string();
            assert!(
                error.contains("a pipe or a device, expected a regular file"),
                "{error}"
            );
            assert!(error.contains(bad.to_str().unwrap()), "{error}");
        }
    }
}

#[test]
fn cards_say_what_is_wrong_with_them() {
    let good = dqn(8).card;
    let json = serde_json::to_vec(&good).unwrap();
    assert_eq!(Card::from_json(&json).unwrap(), good);
    let mut known = good.clone();
    known.provenance.commit = Some("0123456789ab".into());
    known.provenance.versions = [("torch".into(), "2.15.0".into())].into();
    known.provenance.held_out = Some("as good as chance".into());
    let json = serde_json::to_vec(&known).unwrap();
    assert_eq!(Card::from_json(&json).unwrap(), known);
    let wrong = |change: &dyn Fn(&mut Card)| {
        let mut card = good.clone();
        change(&mut card);
        card.check().unwrap_err()
    };
    assert!(matches!(
        wrong(&|c| c.format = 2),
        CardError::Format { found: 2, .. }
    ));
    assert!(matches!(
        wrong(&|c| c.onnx_sha256 = "12".into()),
        CardError::Hash { .. }
    ));
    assert!(matches!(
        wrong(&|c| c.inputs.clear()),
        CardError::Empty { .. }
    ));
    assert!(matches!(
        wrong(&|c| c.provenance.training.clear()),
        CardError::Empty { .. }
    ));
    assert!(matches!(
        wrong(&|c| c.inputs[0].shape = vec![]),
        CardError::Shape { .. }
    ));
    assert!(matches!(
        wrong(&|c| c.inputs[0].shape = vec![0, 10]),
        CardError::Shape { .. }
    ));
    assert!(matches!(
        wrong(&|c| c.inputs[0].shape = vec![usize::MAX, 10]),
        CardError::Shape { .. }
    ));
    assert!(matches!(
        wrong(&|c| c.inputs[0].axis = 2),
        CardError::Axis { .. }
    ));
    assert!(matches!(
        wrong(&|c| c.inputs[0].features.truncate(3)),
        CardError::Count { .. }
    ));
    assert!(matches!(
        wrong(&|c| c.outputs[0].meaning = vec![]),
        CardError::Count { .. }
    ));
    assert!(matches!(
        wrong(&|c| c.outputs.push(c.outputs[0].clone())),
        CardError::Duplicate { .. }
    ));
    for scale in [0.0, f32::NAN, f32::INFINITY, 1e-40] {
        let error = wrong(&|c| c.inputs[0].features[4].normalisation.scale = scale);
        assert!(
            error
                .to_string()
                .contains("inputs[0].features[4].normalisation.scale"),
            "{error}"
        );
    }
    let text = String::from_utf8(json).unwrap();
    let error = Card::from_json(text.replacen("\"unit\"", "\"unti\"", 1).as_bytes()).unwrap_err();
    assert!(matches!(error, CardError::Json { .. }), "{error}");
    assert!(error.to_string().contains("unti"), "{error}");
    assert!(Card::from_json(&text.as_bytes()[..text.len() / 2]).is_err());
}

/// A few bytes of a file changed, removed or repeated.
fn mutated(onnx: &[u8], seed: u64) -> Vec<u8> {
    let mut draw = Seeded(seed);
    let mut onnx = onnx.to_vec();
    for _ in 0..1 + draw.below(4) {
        let at = draw.below(onnx.len());
        match draw.below(4) {
            0 => onnx[at] = draw.next() as u8,
            1 => onnx[at] ^= 1 << draw.below(8),
            2 => drop(onnx.drain(at..(at + 1 + draw.below(8)).min(onnx.len()))),
            _ => {
                let piece = onnx[at..(at + 1 + draw.below(40)).min(onnx.len())].to_vec();
                onnx.splice(at..at, piece);
            }
        }
        if onnx.is_empty() {
            break;
        }
    }
    onnx
}

/// The model with its structure changed: names, attributes, dimensions, nodes.
fn rearranged(onnx: &[u8], seed: u64) -> Vec<u8> {
    let mut draw = Seeded(seed);
    let mut model = ModelProto::decode(onnx).unwrap();
    let graph = model.graph.as_mut().unwrap();
    for _ in 0..1 + draw.below(3) {
        let n = graph.node.len();
        let at = draw.below(n);
        match draw.below(9) {
            0 => graph.node.swap(at, draw.below(n)),
            1 => drop(graph.node[at].input.pop()),
            2 => graph.node[at].attribute.clear(),
            3 => {
                let name = graph.node[draw.below(n)].output[0].clone();
                if let Some(input) = graph.node[at].input.first_mut() {
                    *input = name;
                }
            }
            4 => {
                for attribute in &mut graph.node[at].attribute {
                    attribute.i = draw.next() as i64 >> draw.below(64);
                    for i in &mut attribute.ints {
                        *i = draw.next() as i64 >> draw.below(64);
                    }
                }
            }
            5 => {
                let tensor = draw.below(graph.initializer.len());
                graph.initializer[tensor].dims.reverse();
            }
            6 => {
                let tensor = draw.below(graph.initializer.len());
                for byte in graph.initializer[tensor].raw_data.iter_mut().take(16) {
                    *byte = draw.next() as u8;
                }
            }
            7 => graph.node[at].op_type = graph.node[draw.below(n)].op_type.clone(),
            _ => {
                let dims = &mut graph.initializer[0].dims;
                dims.insert(draw.below(dims.len() + 1), 1);
            }
        }
    }
    model.encode_to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// An error or a policy that runs.
    #[test]
    fn changed_files_never_panic(seed: u64, which in 0_usize..3, structured: bool) {
        let files = [dqn(4), sailfish(), gaps_compact()][which].clone();
        let onnx = if structured { rearranged(&files.onnx, seed) } else { mutated(&files.onnx, seed) };
        let mut card = files.card;
        card.onnx_sha256 = sha256(&onnx);
        if let Ok(mut policy) = Policy::from_bytes(&onnx, card.clone(), &Options::default()) {
            let _ = policy.run(&vec![0.5; card.input_len()]);
        }
    }

    #[test]
    fn bytes_at_random_never_panic(onnx: Vec<u8>) {
        let mut card = files_of(&ModelProto::decode(&dqn(4).onnx[..]).unwrap()).card;
        card.onnx_sha256 = sha256(&onnx);
        let outcome = Policy::from_bytes(&onnx, card, &Options::default());
        prop_assert!(outcome.is_err(), "{:?}", outcome);
    }

    #[test]
    fn changed_cards_never_panic(seed: u64) {
        let json = serde_json::to_vec(&dqn(4).card).unwrap();
        let _ = Card::from_json(&mutated(&json, seed));
    }
}
