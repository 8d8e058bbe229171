//! The linear bandits do not allocate: not to be made, not to choose, not to learn, not to re-invert.

use std::hint::black_box;

use mpquic_bandit::{
    DiscountedLinUcb, DiscountedLinUcbConfig, DiscountedMeans, Draw, Hedge, LinThompson, LinUcb,
    LinUcbConfig,
};
use mpquic_test_support::allocator::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting::PER_THREAD;

#[test]
fn linear_bandits_do_not_allocate() {
    let before = allocations();
    let mut ucb = LinUcb::<f64, 6, 2>::new(&LinUcbConfig::default());
    let mut single = LinUcb::<f32, 12, 4>::new(&LinUcbConfig::default());
    let mut discounted = DiscountedLinUcb::<f64, 6, 2>::new(&DiscountedLinUcbConfig::default());
    let mut thompson = LinThompson::<f64, 6, 3>::new(&LinUcbConfig::default());
    let mut draw = Draw::new(1);
    // Some forty re-inversions of each arm, and those that single samples bring about.
    for t in 0..20_000 {
        let size = if t % 1_000 == 999 { 1e6 } else { 1.0 };
        let x = [(); 6].map(|()| size * draw.unit());
        let narrow = [(); 12].map(|()| draw.unit() as f32);
        let arm = ucb.select(0.8, &x);
        ucb.update(arm, &x, draw.unit()).unwrap();
        let arm = single.select(0.8, &narrow);
        single.update(arm, &narrow, 0.5).unwrap();
        let arm = discounted.select(0.8, &x);
        discounted.update(arm, &x, draw.unit()).unwrap();
        let arm = thompson.select(0.8, &x, &mut draw);
        thompson.update(arm, &x, draw.unit()).unwrap();
        black_box(ucb.scores(0.8, &x));
        black_box(ucb.means(&x));
        assert!(ucb.update(2, &x, 0.0).is_err() && ucb.update(0, &x, f64::NAN).is_err());
    }
    let (mut means, mut hedge) = (DiscountedMeans::<10>::new(0.998), Hedge::<10>::new());
    for _ in 0..1_000 {
        let rewards = [(); 10].map(|()| draw.unit());
        means.update(&rewards).unwrap();
        hedge.update(&rewards).unwrap();
        black_box((means.select(0.1, &rewards), hedge.select(&mut draw)));
    }
    black_box(LinUcb::mean_of([&ucb, &ucb].into_iter()));
    black_box(DiscountedLinUcb::mean_of(
        [&discounted, &discounted].into_iter(),
    ));
    assert_eq!(allocations(), before);
}

/// Nor do they with views, whatever their stride.
#[cfg(feature = "ndarray")]
#[test]
fn views_do_not_allocate() {
    use ndarray::{Array1, Array2, s};

    let mut draw = Draw::new(1);
    let contexts = Array2::from_shape_simple_fn((100, 12), || draw.unit());
    let mut scores = Array1::zeros(2);
    let mut ucb = LinUcb::<f64, 6, 2>::new(&LinUcbConfig::default());
    let mut discounted = DiscountedLinUcb::<f64, 6, 2>::new(&DiscountedLinUcbConfig::default());
    let mut thompson = LinThompson::<f64, 6, 3>::new(&LinUcbConfig::default());
    let before = allocations();
    for t in 0..2_000 {
        let x = contexts.slice(s![t % 100, ..;2]);
        let arm = ucb.select_view(0.8, x).unwrap();
        ucb.update_view(arm, x, draw.unit()).unwrap();
        ucb.scores_into(0.8, x, scores.view_mut()).unwrap();
        black_box(ucb.theta_view(arm)[0] + ucb.inverse_view(arm)[(0, 1)]);
        let arm = discounted.select_view(0.8, x).unwrap();
        discounted.update_view(arm, x, draw.unit()).unwrap();
        discounted.scores_into(0.8, x, scores.view_mut()).unwrap();
        let arm = thompson.select_view(0.8, x, &mut draw).unwrap();
        thompson.update_view(arm, x, draw.unit()).unwrap();
        assert!(ucb.select_view(0.8, contexts.row(0)).is_err());
    }
    assert_eq!(allocations(), before);
}
