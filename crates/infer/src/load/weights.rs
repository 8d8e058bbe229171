//! Tensors in the file: their dimensions, that the data fits them, that every number is finite.

use tract_onnx::pb::{TensorProto, tensor_proto::DataType};

use super::{Limits, LoadError};
use crate::card::MAX_RANK;

/// Checks a tensor; returns its dimensions.
pub(super) fn check(
    tensor: &TensorProto,
    at: &str,
    limits: &Limits,
) -> Result<Vec<u64>, LoadError> {
    let dims = dimensions(tensor, at, limits)?;
    let elements: u64 = dims.iter().product();
    let data_type = DataType::try_from(tensor.data_type).unwrap_or(DataType::Undefined);
    let (width, typed) = match data_type {
        DataType::Float => (4, tensor.float_data.len()),
        DataType::Double => (8, tensor.double_data.len()),
        DataType::Int64 => (8, tensor.int64_data.len()),
        DataType::Int32 => (4, tensor.int32_data.len()),
        DataType::Bool => (1, tensor.int32_data.len()),
        _ => {
            return Err(LoadError::Unsupported {
                at: at.to_owned(),
                what: format!("data type {} is", tensor.data_type),
            });
        }
    };
    let wrong_length = |unit, found, expected| LoadError::DataLength {
        at: at.to_owned(),
        dims: tensor.dims.clone(),
        unit,
        found,
        expected,
    };
    if tensor.data_location.is_some_and(|location| location != 0) {
        return Err(LoadError::Unsupported {
            at: at.to_owned(),
            what: "weights in other files are".into(),
        });
    }
    if tensor.raw_data.is_empty() {
        if typed as u64 != elements {
            return Err(wrong_length("elements", typed, elements));
        }
    } else if tensor.raw_data.len() as u64 != elements * width {
        return Err(wrong_length(
            "bytes",
            tensor.raw_data.len(),
            elements * width,
        ));
    }
    let not_finite = |(index, found)| LoadError::NotFinite {
        at: at.to_owned(),
        index,
        found,
    };
    match first_not_finite(tensor, data_type) {
        Some(found) => Err(not_finite(found)),
        None => Ok(dims),
    }
}

fn dimensions(tensor: &TensorProto, at: &str, limits: &Limits) -> Result<Vec<u64>, LoadError> {
    let limit = |what, found, limit| LoadError::Limit {
        at: at.to_owned(),
        what,
        found,
        limit,
    };
    if tensor.dims.len() > MAX_RANK {
        return Err(limit(
            "dimensions",
            tensor.dims.len() as u64,
            MAX_RANK as u64,
        ));
    }
    let mut elements = 1_u64;
    let mut dims = Vec::with_capacity(tensor.dims.len());
    for &dim in &tensor.dims {
        let Ok(dim) = u64::try_from(dim) else {
            return Err(LoadError::Shape {
                at: at.to_owned(),
                found: format!("{:?}", tensor.dims),
                expected: "dimensions that are not negative".into(),
            });
        };
        if dim > limits.dimension as u64 {
            return Err(limit(
                "elements along one dimension",
                dim,
                limits.dimension as u64,
            ));
        }
        elements = elements.saturating_mul(dim);
        dims.push(dim);
    }
    if elements > limits.elements {
        return Err(limit("elements", elements, limits.elements));
    }
    Ok(dims)
}

fn first_not_finite(tensor: &TensorProto, data_type: DataType) -> Option<(usize, f64)> {
    fn first(numbers: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
        numbers.enumerate().find(|(_, x)| !x.is_finite())
    }
    match data_type {
        DataType::Float if tensor.raw_data.is_empty() => {
            first(tensor.float_data.iter().map(|&x| f64::from(x)))
        }
        DataType::Double if tensor.raw_data.is_empty() => first(tensor.double_data.iter().copied()),
        DataType::Float => {
            let (numbers, _) = tensor.raw_data.as_chunks::<4>();
            first(numbers.iter().map(|&x| f64::from(f32::from_le_bytes(x))))
        }
        DataType::Double => {
            let (numbers, _) = tensor.raw_data.as_chunks::<8>();
            first(numbers.iter().map(|&x| f64::from_le_bytes(x)))
        }
        _ => None,
    }
}

/// The numbers of a small int64 tensor that was checked, as shapes are given.
pub(super) fn integers(tensor: &TensorProto) -> Option<Vec<i64>> {
    if tensor.data_type != DataType::Int64 as i32 || tensor.dims.len() > 1 {
        return None;
    }
    if tensor.raw_data.is_empty() {
        return Some(tensor.int64_data.clone());
    }
    let (numbers, _) = tensor.raw_data.as_chunks::<8>();
    Some(numbers.iter().map(|&x| i64::from_le_bytes(x)).collect())
}
