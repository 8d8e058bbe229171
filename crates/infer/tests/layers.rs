//! Dense layers at batch one of every width, with inputs that are 0 and with what is not finite: the kernels for each kind of
//! vectors against sums in f64.

use crate::support::{Builder, Files, Seeded, int};
use mpquic_infer::{Engine, LoadError, Options, Policy, Prefer, RunError, Vectors};
use proptest::prelude::*;

const ALL: [Vectors; 3] = [Vectors::Portable, Vectors::Avx2, Vectors::Avx512];

fn load(files: &Files, vectors: Vectors) -> Result<Policy, LoadError> {
    let options = Options {
        prefer: Prefer::Plan(vectors),
        ..Options::default()
    };
    Policy::from_bytes(&files.onnx, files.card.clone(), &options)
}

/// A layer: weights by input, then by output; a bias, perhaps; whether a ReLU follows.
struct Layer {
    inputs: usize,
    outputs: usize,
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
    relu: bool,
}

fn network(layers: &[Layer]) -> Files {
    let mut b = Builder::new("layers", 1);
    let mut x = b.input("x", &[1, layers[0].inputs]);
    for layer in layers {
        let weights = b.constant(&[layer.inputs, layer.outputs], &layer.weights);
        x = b.node("MatMul", &[&x, &weights], vec![]);
        if let Some(bias) = &layer.bias {
            let bias = b.constant(&[layer.outputs], bias);
            x = b.node("Add", &[&x, &bias], vec![]);
        }
        if layer.relu {
            x = b.node("Relu", &[&x], vec![]);
        }
    }
    b.rename(&x, "y");
    b.output("y", &[1, layers[layers.len() - 1].outputs]);
    b.files()
}

/// The answer, and for each number of it what all that was added up comes to without signs.
fn expected(layers: &[Layer], state: &[f32]) -> Vec<(f64, f64)> {
    let mut x: Vec<(f64, f64)> = state
        .iter()
        .map(|&x| (x.into(), f64::from(x).abs()))
        .collect();
    for layer in layers {
        x = (0..layer.outputs)
            .map(|j| {
                let bias = layer.bias.as_ref().map_or(0.0, |bias| f64::from(bias[j]));
                let mut sum = (bias, bias.abs());
                for (i, (x, size)) in x.iter().enumerate() {
                    let weight = f64::from(layer.weights[i * layer.outputs + j]);
                    sum.0 += x * weight;
                    sum.1 += size * weight.abs();
                }
                if layer.relu {
                    sum.0 = sum.0.max(0.0);
                }
                sum
            })
            .collect();
    }
    x
}

/// Layers of these widths. With `shift`, biases are so far below or above 0 that a ReLU leaves hardly any or nearly
/// all of its inputs.
fn layers(seed: u64, widths: &[usize], shift: f32) -> Vec<Layer> {
    let mut draw = Seeded(seed);
    let last = widths.len() - 2;
    let of = |(k, pair): (usize, &[usize])| {
        let [inputs, outputs] = [pair[0], pair[1]];
        let weights = draw.numbers(inputs * outputs, (3.0 / inputs as f32).sqrt());
        let has_bias = draw.below(4) > 0 || shift != 0.0;
        let bias: Vec<f32> = (0..outputs).map(|_| draw.signed() * 0.1 + shift).collect();
        Layer {
            inputs,
            outputs,
            weights,
            bias: has_bias.then_some(bias),
            relu: k < last || draw.below(2) == 0,
        }
    };
    widths.windows(2).enumerate().map(of).collect()
}

fn compare(layers: &[Layer], seed: u64) -> Result<(), TestCaseError> {
    let files = network(layers);
    for vectors in ALL {
        let mut policy = load(&files, vectors).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let is_plan = matches!(policy.engine(), Engine::Plan { .. });
        prop_assert!(is_plan);
        let mut draw = Seeded(seed);
        for round in 0..4 {
            let mut state = draw.numbers(layers[0].inputs, 1.0);
            if round % 2 == 1 {
                for x in &mut state {
                    *x = [0.0, -0.0, *x][draw.below(3)];
                }
            }
            let found = policy.run(&state).unwrap();
            for (j, (sum, size)) in expected(layers, &state).into_iter().enumerate() {
                prop_assert!(
                    (f64::from(found[j]) - sum).abs() <= 1e-5 * size + 1e-30,
                    "{vectors}, output {j}: {}, expected {sum}",
                    found[j]
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn layers_of_any_width_are_what_sums_in_f64_say(
        widths in prop::collection::vec(1_usize..200, 2..5),
        shift in prop::sample::select(vec![0.0_f32, -0.5, 0.5, -20.0, 20.0]),
        seed: u64,
    ) {
        compare(&layers(seed, &widths, shift), seed)?;
    }
}

/// Around each number of vectors that there is a kernel for.
#[test]
fn the_widths_at_the_edges_of_panels() {
    for columns in [
        1, 4, 7, 8, 9, 15, 16, 17, 24, 32, 33, 40, 48, 49, 56, 63, 64, 65, 127, 128, 129,
    ] {
        let widths = [10, columns, columns, 3];
        compare(&layers(columns as u64, &widths, 0.0), 5).unwrap();
    }
}

/// A hidden number that is not finite meets a weight of 0: their product is not a number, whatever other inputs are 0.
#[test]
fn what_is_not_finite_is_not_skipped() {
    for inputs in [64, 65, 70] {
        // The first hidden number overflows, the second is infinity less infinity, the others are 0.
        let mut first = vec![0.0; 2 * inputs];
        first[0] = 1e30;
        let second = Layer {
            inputs,
            outputs: 7,
            weights: vec![0.0; inputs * 7],
            bias: None,
            relu: false,
        };
        let network = network(&[
            Layer {
                inputs: 2,
                outputs: inputs,
                weights: first,
                bias: Some(vec![0.0; inputs]),
                relu: true,
            },
            second,
        ]);
        for vectors in ALL {
            let mut policy = load(&network, vectors).unwrap();
            assert_eq!(policy.run(&[1.0, 1.0]).unwrap(), [0.0; 7]);
            assert_eq!(policy.run(&[-1e30, 1.0]).unwrap(), [0.0; 7]);
            assert!(
                matches!(
                    policy.run(&[1e30, 1.0]),
                    Err(RunError::Output { index: 0, .. })
                ),
                "{vectors}, {inputs} inputs"
            );
        }
    }
}

/// Infinity less infinity is not a number, stays so in a ReLU and after it.
#[test]
fn what_is_not_a_number_is_not_skipped() {
    let mut b = Builder::new("nan", 1);
    let x = b.input("x", &[1, 2]);
    let large = b.constant(&[2, 2], &[1e30, 1e30, 0.0, 0.0]);
    let both = b.constant(&[2, 64], &{
        let mut weights = [0.0; 128];
        (weights[5], weights[64 + 5]) = (1.0, -1.0);
        weights
    });
    let rest = b.weights(&[64, 7], 1.0);
    let x = b.node("MatMul", &[&x, &large], vec![]);
    let x = b.node("MatMul", &[&x, &both], vec![]);
    let x = b.node("Relu", &[&x], vec![]);
    let x = b.node("MatMul", &[&x, &rest], vec![]);
    b.rename(&x, "y");
    b.output("y", &[1, 7]);
    let files = b.files();
    for vectors in ALL {
        let mut policy = load(&files, vectors).unwrap();
        assert!(policy.run(&[1.0, 1.0]).is_ok(), "{vectors}");
        assert!(
            matches!(policy.run(&[1e30, 1.0]), Err(RunError::Output { .. })),
            "{vectors}"
        );
    }
}

/// Weights that tract multiplies while it folds constants may overflow, which no check of the file sees. A plan that
/// skips what is multiplied by 0 is not made of them.
#[test]
fn weights_that_overflow_when_they_are_folded_have_no_plan() {
    let mut b = Builder::new("folded", 1);
    let x = b.input("x", &[1, 2]);
    let large = b.constant(&[2, 2], &[1e30, 1.0, 1.0, 1.0]);
    let weights = b.node("Mul", &[&large, &large], vec![]);
    let axis = int("axis", -1);
    let x = b.node("MatMul", &[&x, &weights], vec![]);
    let x = b.node("Softmax", &[&x], vec![axis]);
    b.rename(&x, "y");
    b.output("y", &[1, 2]);
    for vectors in ALL {
        let error = load(&b.files(), vectors).expect_err("no plan");
        assert!(matches!(error, LoadError::NoPlan(_)), "{error}");
    }
}
