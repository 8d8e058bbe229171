//! The shapes of values whose axes are reduced, dropped or inserted, where these are constant.

use tract_onnx::pb::NodeProto;

use super::cost::{Extent, attribute};

/// What names the axes: the operator's attribute, as up to opset 12, or its second input, as from then on.
enum Axes<'a> {
    All,
    These(&'a [i64]),
    Unknown,
}

impl<'a> Axes<'a> {
    fn of(node: &'a NodeProto, second: Option<&'a Vec<i64>>) -> Self {
        let has_second = node.input.get(1).is_some_and(|name| !name.is_empty());
        match (attribute(node, "axes"), second) {
            (Some(attribute), _) => Axes::These(&attribute.ints),
            (None, Some(integers)) if has_second => Axes::These(integers),
            (None, _) if has_second => Axes::Unknown,
            (None, _) => Axes::All,
        }
    }

    /// Which of `rank` axes are meant; `None` if that is not known, or one of them is named twice or not there.
    fn marked(&self, rank: usize) -> Option<Vec<bool>> {
        let these = match self {
            Self::All => return Some(vec![true; rank]),
            Self::Unknown => return None,
            Self::These(these) => these,
        };
        let mut marked = vec![false; rank];
        for &axis in *these {
            let axis = if axis < 0 {
                axis.checked_add(rank as i64)?
            } else {
                axis
            };
            let mark = marked.get_mut(usize::try_from(axis).ok()?)?;
            if std::mem::replace(mark, true) {
                return None;
            }
        }
        Some(marked)
    }
}

/// What a `Reduce...` leaves of a value.
pub(super) fn reduced(
    node: &NodeProto,
    from: &Extent,
    second: Option<&Vec<i64>>,
) -> Option<Extent> {
    let dims = from.shape()?;
    let axes = Axes::of(node, second);
    let flag = |name, default| attribute(node, name).map_or(default, |attribute| attribute.i) != 0;
    let marked = match axes {
        // An empty list stands for all of them, unless the operator is told to leave the value as it is then.
        Axes::These([]) if flag("noop_with_empty_axes", 0) => return Some(from.clone()),
        Axes::These([]) => vec![true; dims.len()],
        Axes::All if flag("noop_with_empty_axes", 0) => return Some(from.clone()),
        axes => axes.marked(dims.len())?,
    };
    let keep = flag("keepdims", 1);
    let left = dims.iter().zip(marked);
    Some(Extent::Shape(
        left.filter(|(_, reduced)| keep || !reduced)
            .map(|(&dim, reduced)| if reduced { 1 } else { dim })
            .collect(),
    ))
}

/// What `Squeeze` leaves of a value.
pub(super) fn squeezed(
    node: &NodeProto,
    from: &Extent,
    second: Option<&Vec<i64>>,
) -> Option<Extent> {
    let dims = from.shape()?;
    let marked = match Axes::of(node, second) {
        Axes::All => dims.iter().map(|&dim| dim == 1).collect(),
        axes => axes.marked(dims.len())?,
    };
    let left = dims.iter().zip(marked);
    Some(Extent::Shape(
        left.filter(|(_, dropped)| !dropped)
            .map(|(&dim, _)| dim)
            .collect(),
    ))
}

/// What `Unsqueeze` makes of a value.
pub(super) fn unsqueezed(
    node: &NodeProto,
    from: &Extent,
    second: Option<&Vec<i64>>,
) -> Option<Extent> {
    let dims = from.shape()?;
    let Axes::These(these) = Axes::of(node, second) else {
        return None;
    };
    let inserted = Axes::These(these).marked(dims.len().checked_add(these.len())?)?;
    let mut old = dims.iter();
    let shape = inserted.iter().map(|inserted| {
        if *inserted {
            Some(1)
        } else {
            old.next().copied()
        }
    });
    Some(Extent::Shape(shape.collect::<Option<_>>()?))
}
