//! Views of ndarray in place of arrays: the same choices and models, and errors for what does not fit.
#![cfg(feature = "ndarray")]

use mpquic_bandit::{
    DiscountedLinUcb, DiscountedLinUcbConfig, Draw, LinThompson, LinUcb, LinUcbConfig, Refused,
    ViewError,
};
use ndarray::{Array1, Array2, s};

/// The same samples as arrays and as views that are not contiguous: the same choices and models.
#[test]
fn views_are_what_arrays_are() {
    let mut draw = Draw::new(5);
    let contexts = Array2::from_shape_simple_fn((200, 8), || draw.unit());
    let mut plain = LinUcb::<f64, 4, 3>::new(&LinUcbConfig::default());
    let mut viewed = plain.clone();
    let config = DiscountedLinUcbConfig::default();
    let mut forgetting = DiscountedLinUcb::<f64, 4, 3>::new(&config);
    let mut forgetting_viewed = forgetting.clone();
    let mut thompson = LinThompson::<f64, 4, 3>::new(&LinUcbConfig::default());
    let mut thompson_viewed = thompson.clone();
    let (mut one, mut other) = (Draw::new(6), Draw::new(6));
    let mut scores = Array1::zeros(3);
    for row in contexts.rows() {
        let x = row.slice(s![..;2]);
        let array: [f64; 4] = std::array::from_fn(|feature| row[2 * feature]);
        let reward = array[0] - array[3];
        let arm = plain.select(0.5, &array);
        assert_eq!(viewed.select_view(0.5, x), Ok(arm));
        viewed.scores_into(0.5, x, scores.view_mut()).unwrap();
        assert_eq!(scores.as_slice().unwrap(), plain.scores(0.5, &array));
        plain.update(arm, &array, reward).unwrap();
        viewed.update_view(arm, x, reward).unwrap();
        let arm = forgetting.select(0.5, &array);
        assert_eq!(forgetting_viewed.select_view(0.5, x), Ok(arm));
        forgetting_viewed
            .scores_into(0.5, x, scores.view_mut())
            .unwrap();
        assert_eq!(scores.as_slice().unwrap(), forgetting.scores(0.5, &array));
        forgetting.update(arm, &array, reward).unwrap();
        forgetting_viewed.update_view(arm, x, reward).unwrap();
        let arm = thompson.select(0.5, &array, &mut one);
        assert_eq!(thompson_viewed.select_view(0.5, x, &mut other), Ok(arm));
        thompson.update(arm, &array, reward).unwrap();
        thompson_viewed.update_view(arm, x, reward).unwrap();
    }
    for arm in 0..3 {
        assert_eq!(viewed.theta_view(arm).as_slice().unwrap(), plain.theta(arm));
        let inverse: Vec<_> = viewed.inverse_view(arm).iter().copied().collect();
        assert_eq!(inverse, plain.inverse(arm).as_flattened());
        let theta = forgetting_viewed.theta_view(arm);
        assert_eq!(theta.as_slice().unwrap(), forgetting.theta(arm));
        assert_eq!(
            forgetting_viewed.inverse_view(arm)[(1, 2)],
            forgetting.inverse(arm)[1][2]
        );
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut bandit = LinUcb::<f64, 2, 3>::new(&LinUcbConfig::default());
    let three = Array1::<f64>::zeros(3);
    let length = |expected| Err(ViewError::Length { found: 3, expected });
    assert_eq!(bandit.update_view(0, three.view(), 1.0), length(2));
    assert_eq!(bandit.refused(), 0);
    let x = Array1::from_elem(2, f64::NAN);
    let refused = Err(ViewError::Refused(Refused::Context));
    assert_eq!(bandit.update_view(0, x.view(), 1.0), refused);
    assert_eq!(bandit.refused(), 1);
    let mut wide = Array1::zeros(4);
    let given = bandit.scores_into(0.5, Array1::zeros(2).view(), wide.view_mut());
    assert_eq!(
        given,
        Err(ViewError::Length {
            found: 4,
            expected: 3
        })
    );
}
