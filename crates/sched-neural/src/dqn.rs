//! The trained network of `dqn`; the scheduler itself needs none, and is in `mpquic-sched`.

use mpquic_sched::neural::Dqn;

use crate::model::Shipped;

/// The network that comes with the crate, and what any other one has to fit.
pub(crate) const SHIPPED: Shipped = Shipped {
    onnx: include_bytes!("../models/dqn.onnx"),
    card: include_bytes!("../models/dqn.json"),
    shape: &[1, Dqn::STATE],
    axis: 1,
    features: Dqn::FEATURES,
    outputs: Dqn::OUTPUTS,
};
