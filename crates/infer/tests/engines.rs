//! The engines agree, on the papers' networks and on their corners; and which engine runs is told.

use crate::support::{
    Builder, Files, Seeded, agree, dqn, float, gaps, gaps_compact, int, ints, sailfish,
    sailfish_full,
};
use mpquic_infer::{
    Clip, Engine, LoadError, Normalisation, Options, Policy, Prefer, RunError, Vectors,
};

fn load(files: &Files, prefer: Prefer) -> Result<Policy, LoadError> {
    let options = Options {
        prefer,
        ..Options::default()
    };
    Policy::from_bytes(&files.onnx, files.card.clone(), &options)
}

/// Every engine that this machine has, against tract, on states of several sizes.
fn all_agree(name: &str, files: &Files) {
    let mut tract = load(files, Prefer::Tract).expect(name);
    assert_eq!(tract.engine(), Engine::Tract);
    for vectors in [Vectors::Portable, Vectors::Avx2, Vectors::Avx512] {
        let mut plan = load(files, Prefer::Plan(vectors)).expect(name);
        assert!(matches!(plan.engine(), Engine::Plan { vectors: own } if own <= vectors));
        let mut draw = Seeded(5);
        for round in 0..200 {
            let size = [0.0, 0.01, 1.0, 4.0][round % 4];
            let state = draw.numbers(files.card.input_len(), size);
            let expected = tract.run(&state).expect(name).to_vec();
            let found = plan.run(&state).expect(name);
            assert!(
                agree(found, &expected),
                "{name}, {vectors}, round {round}: {found:?}, tract {expected:?}"
            );
        }
    }
}

#[test]
fn the_papers_networks_compile_to_a_plan_that_agrees_with_tract() {
    all_agree("dqn 10-64-64-7", &dqn(64));
    all_agree("dqn 10-128-128-7", &dqn(128));
    all_agree("sailfish", &sailfish());
    all_agree("sailfish_full", &sailfish_full());
    all_agree("gaps compact", &gaps_compact());
    all_agree("gaps, three heads of 5", &gaps(15, 1, 3, 20));
    all_agree("gaps, two heads of 12", &gaps(24, 1, 2, 32));
    all_agree("gaps, four heads of 16", &gaps(64, 1, 4, 40));
}

/// Two heads of 8, whose result is read once as tokens by features, or also as it comes, or twice.
fn heads(read_before: bool, read_after: bool) -> Files {
    let mut b = Builder::new("heads", 31);
    let x = b.input("x", &[1, 8, 16]);
    let split = b.integers(&[1, 8, 2, 8]);
    let [query, key, value] = [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]].map(|order| {
        let x = b.linear(&x, 16, 16);
        let x = b.node("Reshape", &[&x, &split], vec![]);
        b.node("Transpose", &[&x], vec![ints("perm", &order)])
    });
    let scores = b.node("MatMul", &[&query, &key], vec![]);
    // Small, so that exp does not make much of how they were rounded.
    let scale = b.constant(&[], &[0.05]);
    let scores = b.node("Mul", &[&scores, &scale], vec![]);
    let weights = b.node("Softmax", &[&scores], vec![int("axis", -1)]);
    let mixed = b.node("MatMul", &[&weights, &value], vec![]);
    let merged = b.node("Transpose", &[&mixed], vec![ints("perm", &[0, 2, 1, 3])]);
    let shape = b.integers(&[1, 8, 16]);
    let merged = b.node("Reshape", &[&merged, &shape], vec![]);
    let mut y = b.linear(&merged, 16, 16);
    if read_after {
        y = b.node("Add", &[&y, &merged], vec![]);
    }
    let mut y = b.node("Flatten", &[&y], vec![int("axis", 1)]);
    if read_before {
        let mixed = b.node("Flatten", &[&mixed], vec![int("axis", 1)]);
        y = b.node("Add", &[&y, &mixed], vec![]);
    }
    b.rename(&y, "y");
    b.output("y", &[1, 128]);
    b.files()
}

#[test]
fn heads_are_merged_in_place_only_where_nothing_else_reads_them() {
    all_agree("read once", &heads(false, false));
    all_agree("read before they are merged", &heads(true, false));
    all_agree("read twice once merged", &heads(false, true));
    all_agree("read before and after", &heads(true, true));
}

/// `rows` of `len`, normalised and then weighed by softmax.
fn normalised(rows: usize, len: usize) -> Files {
    let mut b = Builder::new("normalised", 32);
    let x = b.input("x", &[1, rows, len]);
    let scale = b.weights(&[len], 1.0);
    let bias = b.weights(&[len], 1.0);
    let attributes = vec![int("axis", -1), float("epsilon", 1e-5)];
    let x = b.node("LayerNormalization", &[&x, &scale, &bias], attributes);
    let y = b.node("Softmax", &[&x], vec![int("axis", -1)]);
    b.rename(&y, "y");
    b.output("y", &[1, rows, len]);
    b.files()
}

#[test]
fn rows_of_eights_and_others() {
    for (rows, len) in [(8, 8), (16, 8), (7, 8), (1, 8), (8, 16), (8, 7), (3, 9)] {
        all_agree(&format!("{rows} rows of {len}"), &normalised(rows, len));
    }
}

#[test]
fn by_default_the_plan_with_the_widest_vectors_runs() {
    let policy = load(&dqn(24), Prefer::Fastest).unwrap();
    assert!(policy.why_no_plan().is_none());
    let widest = load(&dqn(24), Prefer::Plan(Vectors::Avx512))
        .unwrap()
        .engine();
    assert_eq!(policy.engine(), widest);
}

/// An operator that tract runs and the plan has no kernel for.
fn beyond_the_plan() -> Files {
    let mut b = Builder::new("erf", 1);
    let x = b.input("x", &[1, 4]);
    b.named("Erf", &[&x], vec![], "y");
    b.output("y", &[1, 4]);
    b.files()
}

#[test]
fn what_has_no_plan_runs_through_tract_and_says_why() {
    let mut policy = load(&beyond_the_plan(), Prefer::Fastest).unwrap();
    assert_eq!(policy.engine(), Engine::Tract);
    let why = policy.why_no_plan().unwrap().to_string();
    assert!(why.contains("Erf"), "{why}");
    let y = policy.run(&[0.0, 1.0, -1.0, 3.0]).unwrap();
    assert!(
        agree(y, &[0.0, 0.842_700_8, -0.842_700_8, 0.999_977_9]),
        "{y:?}"
    );
    assert!(matches!(
        load(&beyond_the_plan(), Prefer::Plan(Vectors::Portable)),
        Err(LoadError::NoPlan(_))
    ));
}

#[test]
fn a_dense_layer_by_hand() {
    let mut b = Builder::new("hand", 1);
    let x = b.input("x", &[1, 2]);
    let w = b.constant(&[2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    let bias = b.constant(&[3], &[0.5, 0.0, -100.0]);
    let x = b.node("Gemm", &[&x, &w, &bias], vec![]);
    b.named("Relu", &[&x], vec![], "y");
    b.output("y", &[1, 3]);
    for prefer in [
        Prefer::Fastest,
        Prefer::Plan(Vectors::Portable),
        Prefer::Tract,
    ] {
        let mut policy = load(&b.files(), prefer).unwrap();
        assert_eq!(policy.run(&[1.0, 2.0]).unwrap(), [21.5, 42.0, 0.0]);
    }
}

#[test]
fn inputs_are_normalised_as_the_card_says() {
    let mut b = Builder::new("same", 1);
    let x = b.input("x", &[1, 3]);
    b.named("Relu", &[&x], vec![], "y");
    b.output("y", &[1, 3]);
    let mut files = b.files();
    files.card.inputs[0].features[0].normalisation = Normalisation {
        offset: 10.0,
        scale: 4.0,
        clip: None,
    };
    files.card.inputs[0].features[2].normalisation = Normalisation {
        offset: 0.0,
        scale: 2.0,
        clip: Some(Clip {
            low: 1.0,
            high: 3.0,
        }),
    };
    for prefer in [Prefer::Fastest, Prefer::Tract] {
        let mut policy = load(&files, prefer).unwrap();
        assert_eq!(policy.run(&[12.0, 7.0, 4.0]).unwrap(), [0.5, 7.0, 2.0]);
        assert_eq!(policy.run(&[12.0, 7.0, -4.0]).unwrap(), [0.5, 7.0, 1.0]);
        assert_eq!(policy.run(&[12.0, 7.0, 400.0]).unwrap(), [0.5, 7.0, 3.0]);
    }
}

#[test]
fn several_inputs_and_outputs_come_one_after_another() {
    let mut b = Builder::new("several", 3);
    let x = b.input("x", &[1, 3]);
    let y = b.input("y", &[1, 2]);
    b.named("Tanh", &[&x], vec![], "a");
    b.named("Concat", &[&y, &x], vec![int("axis", 1)], "b");
    b.output("b", &[1, 5]);
    b.output("a", &[1, 3]);
    for prefer in [Prefer::Plan(Vectors::Avx512), Prefer::Tract] {
        let mut policy = load(&b.files(), prefer).unwrap();
        let out = policy.run(&[0.0, 1.0, -1.0, 7.0, 8.0]).unwrap();
        let expected = [7.0, 8.0, 0.0, 1.0, -1.0, 0.0, 0.761_594_2, -0.761_594_2];
        assert!(agree(out, &expected), "{out:?}");
    }
}

#[test]
fn a_convolution_that_only_skips() {
    let mut b = Builder::new("skip", 4);
    let x = b.input("x", &[1, 2, 7]);
    let w = b.weights(&[3, 2, 1], 1.0);
    let bias = b.weights(&[3], 1.0);
    let attributes = vec![ints("kernel_shape", &[1]), ints("strides", &[3])];
    b.named("Conv", &[&x, &w, &bias], attributes, "y");
    b.output("y", &[1, 3, 3]);
    all_agree("width 1, stride 3", &b.files());
}

#[test]
fn what_is_not_finite_is_an_error_and_the_next_run_is_sound() {
    for prefer in [Prefer::Fastest, Prefer::Tract] {
        let mut policy = load(&dqn(24), prefer).unwrap();
        let good = [0.5; 10];
        let expected = policy.run(&good).unwrap().to_vec();
        let mut bad = good;
        bad[3] = f32::NAN;
        assert!(matches!(
            policy.run(&bad),
            Err(RunError::Input { index: 3, .. })
        ));
        assert!(matches!(
            policy.run(&good[1..]),
            Err(RunError::InputCount {
                found: 9,
                expected: 10
            })
        ));
        assert_eq!(policy.run(&good).unwrap(), expected);
    }
}

#[test]
fn an_answer_that_is_not_finite_is_an_error() {
    let mut b = Builder::new("large", 1);
    let x = b.input("x", &[1, 2]);
    let large = b.constant(&[2, 2], &[1.0, 0.0, 0.0, 1e30]);
    let none = b.constant(&[2], &[0.0, 0.0]);
    let x = b.node("Gemm", &[&x, &large, &none], vec![]);
    b.named("Relu", &[&x], vec![], "y");
    b.output("y", &[1, 2]);
    for prefer in [
        Prefer::Fastest,
        Prefer::Plan(Vectors::Portable),
        Prefer::Tract,
    ] {
        let mut policy = load(&b.files(), prefer).unwrap();
        assert!(matches!(
            policy.run(&[1.0, 1e20]),
            Err(RunError::Output { index: 1, .. })
        ));
        assert_eq!(policy.run(&[1.0, -1.0]).unwrap(), [1.0, 0.0]);
    }
}

#[test]
fn clones_do_not_share_values() {
    let mut one = load(&gaps_compact(), Prefer::Fastest).unwrap();
    let mut other = one.clone();
    let (x, y) = ([0.25; 48], [-0.5; 48]);
    let alone = one.run(&x).unwrap().to_vec();
    other.run(&y).unwrap();
    let other = std::thread::spawn(move || other.run(&[0.25; 48]).unwrap().to_vec());
    assert_eq!(one.run(&x).unwrap(), alone);
    assert_eq!(other.join().unwrap(), alone);
}

#[test]
fn extreme_numbers_do_not_leave_the_functions_ranges() {
    for (op, low, high) in [("Tanh", -1.0, 1.0), ("Sigmoid", 0.0, 1.0)] {
        let mut b = Builder::new("range", 1);
        let x = b.input("x", &[1, 6]);
        b.named(op, &[&x], vec![], "y");
        b.output("y", &[1, 6]);
        let state = [-1e30, -90.0, -0.1, 0.3, 90.0, 1e30];
        for vectors in [Vectors::Portable, Vectors::Avx2, Vectors::Avx512] {
            let mut policy = load(&b.files(), Prefer::Plan(vectors)).unwrap();
            let y = policy.run(&state).unwrap();
            assert!(y.iter().all(|y| (low..=high).contains(y)), "{op}: {y:?}");
            assert!(y.is_sorted(), "{op}: {y:?}");
        }
    }
}

#[test]
fn reduced_axes_keep_their_shapes_so_that_what_follows_is_not_refused_for_its_size() {
    // Without the shape of the sum, each broadcast would be bounded by a product of volumes.
    let mut b = Builder::new("pooled", 1);
    let x = b.input("x", &[1, 4, 512]);
    let axes = b.integers(&[1]);
    let pooled = b.node("ReduceSum", &[&x, &axes], vec![int("keepdims", 1)]);
    let all = b.node("Add", &[&x, &pooled], vec![]);
    let again = b.node("ReduceSum", &[&all, &axes], vec![int("keepdims", 0)]);
    let wide = b.node("Unsqueeze", &[&again, &axes], vec![]);
    let narrow = b.node("Squeeze", &[&wide, &axes], vec![]);
    let square = b.node("Mul", &[&narrow, &again], vec![]);
    b.named("Mul", &[&square, &again], vec![], "y");
    b.output("y", &[1, 512]);
    let files = b.files();
    let states = Seeded(1).numbers(2048, 1.0);
    let mut tract = load(&files, Prefer::Tract).unwrap();
    let expected = tract.run(&states).unwrap().to_vec();
    let sums = |i: usize| (0..4).map(|row| states[row * 512 + i]).sum::<f32>() * 5.0;
    for (i, found) in expected.iter().enumerate() {
        let sum = sums(i);
        assert!(
            (found - sum * sum * sum).abs() < 1e-2 * (1.0 + found.abs()),
            "{i}"
        );
    }
    let mut plan = load(&files, Prefer::Fastest).unwrap();
    assert!(plan.why_no_plan().is_none(), "{:?}", plan.why_no_plan());
    for (a, b) in plan.run(&states).unwrap().iter().zip(&expected) {
        assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{a} {b}");
    }
}
