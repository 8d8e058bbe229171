//! The value network that learns: dense layers, their gradient and Adam.

use mpquic_bandit::Draw;

use super::super::state::STATE;
use super::super::{ACTIONS, Dqn};

/// Neurons of each hidden layer in the code that goes with the paper.
pub(super) const HIDDEN: usize = 24;

/// The actions, filled up to whole vectors; what is more than [`Dqn::OUTPUTS`] stays 0.
const OUTPUTS: usize = Dqn::OUTPUTS.next_multiple_of(8);

/// A dense layer. Weights lie by inputs: a row is what one input adds to all outputs.
#[derive(Debug, Clone)]
struct Layer<const I: usize, const O: usize> {
    weights: [[f32; O]; I],
    bias: [f32; O],
}

/// `STATE`-H-H-H-`OUTPUTS` neurons, ReLU between them, linear at the end.
///
/// All of it lies in one block of constant size, which the loops below know when they are compiled: sums stay in
/// registers. The sums run over the inputs in their order, so that the same numbers come out on each machine with the
/// same instructions.
#[derive(Debug, Clone)]
pub(super) struct Network<const H: usize> {
    first: Layer<STATE, H>,
    second: Layer<H, H>,
    third: Layer<H, H>,
    last: Layer<H, OUTPUTS>,
}

/// What each layer gave for one state.
#[derive(Debug)]
struct Activations<const H: usize> {
    first: [f32; H],
    second: [f32; H],
    third: [f32; H],
    values: [f32; OUTPUTS],
}

impl<const I: usize, const O: usize> Layer<I, O> {
    const ZERO: Self = Self {
        weights: [[0.0; O]; I],
        bias: [0.0; O],
    };

    /// Glorot and Bengio's uniform draw (AISTATS 2010, eq. 16) for the first `outputs` outputs; the others stay 0.
    fn glorot(&mut self, outputs: usize, draw: &mut Draw) {
        let limit = (6.0 / (I + outputs) as f64).sqrt();
        for row in &mut self.weights {
            for weight in &mut row[..outputs] {
                *weight = ((2.0 * draw.unit() - 1.0) * limit) as f32;
            }
        }
    }

    #[inline(always)]
    fn forward(&self, inputs: &[f32; I]) -> [f32; O] {
        let mut sums = self.bias;
        for (&input, row) in inputs.iter().zip(&self.weights) {
            for (sum, weight) in sums.iter_mut().zip(row) {
                *sum += input * weight;
            }
        }
        sums
    }

    /// Adds to `gradient` what the error `delta` at the outputs means for the weights.
    #[inline(always)]
    fn add_gradient(gradient: &mut Self, inputs: &[f32; I], delta: &[f32; O]) {
        for (&input, row) in inputs.iter().zip(&mut gradient.weights) {
            for (sum, delta) in row.iter_mut().zip(delta) {
                *sum += input * delta;
            }
        }
        for (sum, delta) in gradient.bias.iter_mut().zip(delta) {
            *sum += delta;
        }
    }

    /// What the error at the outputs means at the inputs, which come out of a ReLU.
    #[inline(always)]
    fn backward(&self, inputs: &[f32; I], delta: &[f32; O]) -> [f32; I] {
        let mut error = [0.0; I];
        for ((error, &input), row) in error.iter_mut().zip(inputs).zip(&self.weights) {
            if input > 0.0 {
                *error = row
                    .iter()
                    .zip(delta)
                    .map(|(weight, delta)| weight * delta)
                    .sum();
            }
        }
        error
    }
}

#[inline(always)]
fn relu<const N: usize>(mut values: [f32; N]) -> [f32; N] {
    for value in &mut values {
        // What is not a number stays so, and is noticed at the end.
        *value = if *value < 0.0 { 0.0 } else { *value };
    }
    values
}

impl<const H: usize> Network<H> {
    /// Nothing but zeros: a place for a gradient, or for Adam's moments.
    pub(super) fn zero() -> Box<Self> {
        Box::new(Self {
            first: Layer::ZERO,
            second: Layer::ZERO,
            third: Layer::ZERO,
            last: Layer::ZERO,
        })
    }

    /// One that has learned nothing: Glorot's weights, no bias.
    pub(super) fn new(draw: &mut Draw) -> Box<Self> {
        let mut network = Self::zero();
        network.first.glorot(H, draw);
        network.second.glorot(H, draw);
        network.third.glorot(H, draw);
        network.last.glorot(ACTIONS.len(), draw);
        network
    }

    #[inline(always)]
    fn activations(&self, state: &[f32; STATE]) -> Activations<H> {
        let first = relu(self.first.forward(state));
        let second = relu(self.second.forward(&first));
        let third = relu(self.third.forward(&second));
        Activations {
            values: self.last.forward(&third),
            first,
            second,
            third,
        }
    }

    /// The value of each action in a (scaled) state.
    #[inline]
    pub(super) fn values(&self, state: &[f32; STATE]) -> [f32; Dqn::OUTPUTS] {
        let values = self.activations(state).values;
        std::array::from_fn(|action| values[action])
    }

    /// Adds to `gradient` that of `weight` times the squared distance of this action's value from `target`; the other
    /// actions' values are as they are. The squared distance.
    pub(super) fn add_gradient(
        &self,
        gradient: &mut Self,
        state: &[f32; STATE],
        action: usize,
        target: f32,
        weight: f32,
    ) -> f32 {
        let on_the_way = self.activations(state);
        let error = on_the_way.values[action] - target;
        let mut delta = [0.0; OUTPUTS];
        delta[action] = 2.0 * weight * error;
        Layer::add_gradient(&mut gradient.last, &on_the_way.third, &delta);
        let delta = self.last.backward(&on_the_way.third, &delta);
        Layer::add_gradient(&mut gradient.third, &on_the_way.second, &delta);
        let delta = self.third.backward(&on_the_way.second, &delta);
        Layer::add_gradient(&mut gradient.second, &on_the_way.first, &delta);
        let delta = self.second.backward(&on_the_way.first, &delta);
        Layer::add_gradient(&mut gradient.first, state, &delta);
        error * error
    }

    /// All weights and biases, layer by layer.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &f32> {
        self.slices().into_iter().flatten()
    }

    /// The same, to change.
    pub(super) fn parameters_mut(&mut self) -> impl Iterator<Item = &mut f32> {
        self.slices_mut().into_iter().flatten()
    }

    fn slices(&self) -> [&[f32]; 8] {
        let Self {
            first,
            second,
            third,
            last,
        } = self;
        [
            first.weights.as_flattened(),
            &first.bias,
            second.weights.as_flattened(),
            &second.bias,
            third.weights.as_flattened(),
            &third.bias,
            last.weights.as_flattened(),
            &last.bias,
        ]
    }

    fn slices_mut(&mut self) -> [&mut [f32]; 8] {
        let Self {
            first,
            second,
            third,
            last,
        } = self;
        [
            first.weights.as_flattened_mut(),
            &mut first.bias,
            second.weights.as_flattened_mut(),
            &mut second.bias,
            third.weights.as_flattened_mut(),
            &mut third.bias,
            last.weights.as_flattened_mut(),
            &mut last.bias,
        ]
    }
}

/// Adam (Kingma and Ba, ICLR 2015, algorithm 1) with its authors' decay rates and epsilon.
#[derive(Debug)]
pub(super) struct Adam<const H: usize> {
    rate: f32,
    mean: Box<Network<H>>,
    square: Box<Network<H>>,
    /// The decay rates to the power of the steps.
    powers: [f32; 2],
}

const BETA: [f32; 2] = [0.9, 0.999];
const EPSILON: f32 = 1e-8;

impl<const H: usize> Adam<H> {
    /// At this learning rate.
    pub(super) fn new(rate: f32) -> Self {
        Self {
            rate,
            mean: Network::zero(),
            square: Network::zero(),
            powers: [1.0; 2],
        }
    }

    /// One step of `network` down `gradient`, which is 0 afterwards.
    pub(super) fn step(&mut self, network: &mut Network<H>, gradient: &mut Network<H>) {
        for (power, beta) in self.powers.iter_mut().zip(BETA) {
            *power *= beta;
        }
        let [mean_of, square_of] = self.powers.map(|power| 1.0 / (1.0 - power));
        let moments = self
            .mean
            .slices_mut()
            .into_iter()
            .zip(self.square.slices_mut());
        let slices = network.slices_mut().into_iter().zip(gradient.slices_mut());
        for ((weights, gradients), (means, squares)) in slices.zip(moments) {
            let moments = means.iter_mut().zip(squares);
            for ((weight, gradient), (mean, square)) in
                weights.iter_mut().zip(gradients).zip(moments)
            {
                let slope = std::mem::take(gradient);
                *mean = BETA[0] * *mean + (1.0 - BETA[0]) * slope;
                *square = BETA[1] * *square + (1.0 - BETA[1]) * slope * slope;
                let size = (*square * square_of).sqrt() + EPSILON;
                *weight -= self.rate * (*mean * mean_of) / size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same network in twice the precision, one number after the other; also whether each ReLU lets through.
    fn reference<const H: usize>(
        parameters: &[f64],
        state: &[f32; STATE],
    ) -> (Vec<f64>, Vec<bool>) {
        let mut values: Vec<f64> = state.iter().map(|x| f64::from(*x)).collect();
        let mut open = Vec::new();
        let mut rest = parameters;
        for (layer, outputs) in [H, H, H, OUTPUTS].into_iter().enumerate() {
            let (weights, others) = rest.split_at(values.len() * outputs);
            let (bias, others) = others.split_at(outputs);
            rest = others;
            let sums = (0..outputs).map(|to| {
                let terms = values.iter().enumerate();
                bias[to]
                    + terms
                        .map(|(from, x)| x * weights[from * outputs + to])
                        .sum::<f64>()
            });
            values = sums.collect();
            if layer < 3 {
                open.extend(values.iter().map(|value| *value > 0.0));
                values.iter_mut().for_each(|value| *value = value.max(0.0));
            }
        }
        assert!(rest.is_empty());
        (values, open)
    }

    fn parameters<const H: usize>(network: &Network<H>) -> Vec<f64> {
        network.parameters().map(|x| f64::from(*x)).collect()
    }

    fn states() -> impl Strategy<Value = [f32; STATE]> {
        prop::array::uniform10(0.0_f32..60.0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn values_are_those_of_the_formula(seed: u64, state in states()) {
            let network = Network::<HIDDEN>::new(&mut Draw::new(seed));
            let (expected, _) = reference::<HIDDEN>(&parameters(&network), &state);
            let largest = expected.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
            for (got, expected) in network.values(&state).into_iter().zip(expected) {
                prop_assert!((f64::from(got) - expected).abs() < 1e-4 * largest, "{got} {expected}");
            }
        }

        #[test]
        fn the_gradient_is_the_slope(
            seed: u64,
            state in prop::array::uniform10(0.0_f32..2.0),
            action in 0..Dqn::OUTPUTS,
            target in -3.0_f32..3.0,
        ) {
            const H: usize = 8;
            let mut network = Network::<H>::new(&mut Draw::new(seed));
            let mut draw = Draw::new(!seed);
            // Biases as well.
            for parameter in network.parameters_mut() {
                *parameter += (draw.unit() as f32 - 0.5) * 0.2;
            }
            let mut gradient = Network::zero();
            network.add_gradient(&mut gradient, &state, action, target, 0.25);
            let at = parameters(&network);
            let slopes = parameters(&gradient);
            let loss = |parameters: &[f64]| {
                let (values, open) = reference::<H>(parameters, &state);
                (0.25 * (values[action] - f64::from(target)).powi(2), open)
            };
            let largest = slopes.iter().fold(1e-3, |most: f64, slope| most.max(slope.abs()));
            let mut compared = 0;
            for number in 0..at.len() {
                let moved = [-1e-5, 1e-5].map(|by| {
                    let mut parameters = at.clone();
                    parameters[number] += by;
                    loss(&parameters)
                });
                // No slope where a ReLU bends.
                if moved[0].1 != moved[1].1 {
                    continue;
                }
                compared += 1;
                let slope = (moved[1].0 - moved[0].0) / 2e-5;
                prop_assert!(
                    (slopes[number] - slope).abs() < 1e-4 * largest,
                    "parameter {number}: {} for {slope}", slopes[number]
                );
            }
            prop_assert!(compared * 2 > at.len());
        }
    }

    #[test]
    fn adam_takes_the_first_steps_of_its_definition() {
        let mut network = Network::<8>::zero();
        let mut adam = Adam::new(0.5);
        let mut expected = 0.0_f64;
        let (mut mean, mut square) = (0.0, 0.0);
        for step in 1..=5 {
            let slope = f64::from(step) - 2.5;
            let mut gradient = Network::zero();
            gradient.last.bias[3] = slope as f32;
            adam.step(&mut network, &mut gradient);
            assert!(gradient.parameters().all(|slope| *slope == 0.0));
            mean = 0.9 * mean + 0.1 * slope;
            square = 0.999 * square + 0.001 * slope * slope;
            let corrected: f64 = square / (1.0 - 0.999_f64.powi(step));
            expected -= 0.5 * mean / (1.0 - 0.9_f64.powi(step)) / (corrected.sqrt() + 1e-8);
            let got = f64::from(network.last.bias[3]);
            assert!((got - expected).abs() < 1e-5, "{got} {expected}");
        }
        let moved = network.parameters().filter(|parameter| **parameter != 0.0);
        assert_eq!(moved.count(), 1);
    }

    #[test]
    fn outputs_that_are_no_action_are_never_drawn_or_moved() {
        let mut draw = Draw::new(4);
        let mut network = Network::<8>::new(&mut draw);
        let mut adam = Adam::new(0.1);
        for action in 0..Dqn::OUTPUTS {
            let mut gradient = Network::zero();
            network.add_gradient(&mut gradient, &[1.0; STATE], action, 5.0, 1.0);
            adam.step(&mut network, &mut gradient);
        }
        assert_eq!(network.last.bias[Dqn::OUTPUTS..], [0.0]);
        assert!(
            network
                .last
                .weights
                .iter()
                .all(|row| row[Dqn::OUTPUTS..] == [0.0])
        );
        assert!(network.last.weights.iter().all(|row| row[0] != 0.0));
    }
}
