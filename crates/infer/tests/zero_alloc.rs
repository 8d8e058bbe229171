//! A compiled plan's run does not allocate: counted, for every network and all vectors.

mod support;

use mpquic_infer::{Options, Policy, Prefer, Vectors};
use mpquic_test_support::allocator::{Counting, allocations};
use support::{Seeded, dqn, gaps_compact, sailfish, sailfish_full};

#[global_allocator]
static ALLOCATOR: Counting = Counting::PER_THREAD;

#[test]
fn a_plan_does_not_allocate_from_its_first_run() {
    for files in [
        dqn(64),
        dqn(128),
        sailfish(),
        sailfish_full(),
        gaps_compact(),
    ] {
        for vectors in [Vectors::Portable, Vectors::Avx2, Vectors::Avx512] {
            let options = Options {
                prefer: Prefer::Plan(vectors),
                ..Options::default()
            };
            let mut policy = Policy::from_bytes(&files.onnx, files.card.clone(), &options).unwrap();
            let state = Seeded(1).numbers(files.card.input_len(), 1.0);
            let before = allocations();
            for _ in 0..10 {
                std::hint::black_box(policy.run(std::hint::black_box(&state)).unwrap());
            }
            assert_eq!(
                allocations(),
                before,
                "{} {}",
                files.card.name,
                policy.engine()
            );
        }
    }
}

/// Views, whatever their stride, give what slices give, and allocate as little.
#[cfg(feature = "ndarray")]
#[test]
fn views_are_what_slices_are_and_do_not_allocate() {
    use ndarray::{Array2, s};

    let files = dqn(64);
    let options = Options::default();
    let mut policy = Policy::from_bytes(&files.onnx, files.card.clone(), &options).unwrap();
    let inputs = files.card.input_len();
    let numbers = Seeded(1).numbers(20 * inputs * 2, 1.0);
    let states = Array2::from_shape_vec((20, inputs * 2), numbers).unwrap();
    for row in states.rows() {
        let state = row.slice(s![..;2]);
        let slice = state.to_vec();
        let expected = policy.run(&slice).unwrap().to_vec();
        let before = allocations();
        let got = policy.run_view(state).unwrap();
        let same = got.iter().eq(&expected);
        assert_eq!(allocations(), before);
        assert!(same, "{got} {expected:?}");
    }
    assert!(policy.run_view(states.row(0)).is_err());
    let mut odd = states.row(0).slice(s![..;2]).to_owned();
    odd[3] = f32::NAN;
    let error = policy.run_view(odd.view()).unwrap_err().to_string();
    assert!(error.starts_with("input 3 is NaN"), "{error}");
}
