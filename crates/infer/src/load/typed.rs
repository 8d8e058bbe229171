//! From a checked ONNX graph to tract's typed one, with the card's shapes and the constants folded.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tract_onnx::{pb::ModelProto, prelude::*};

use super::LoadError;
use crate::{Card, upper_halves};

/// Builds the graph.
pub(super) fn build(model: &ModelProto, card: &Card) -> Result<TypedModel, LoadError> {
    guarded(|| typed(model, card))
}

/// Calls into tract while loading.
///
/// tract 0.23 indexes what it expects to be there: an attribute list that is too short, or an axis outside the shape,
/// panics in its operators' rules. What we know of is refused before; this catches the rest, so that a broken file is
/// an error and not the end of the thread (with `panic = "abort"` it would be the end of the process).
pub(crate) fn guarded<T>(call: impl FnOnce() -> TractResult<T>) -> Result<T, LoadError> {
    let done = catch_unwind(AssertUnwindSafe(call));
    // Folding constants runs tract's kernels.
    upper_halves::clear();
    let message = match done {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => format!("{error:#}"),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            format!("tract gave up: {}", text.unwrap_or("no reason given"))
        }
    };
    Err(LoadError::Graph {
        message: message.chars().take(400).collect(),
    })
}

fn typed(model: &ModelProto, card: &Card) -> TractResult<TypedModel> {
    // What the file says of shapes inside the graph is not needed, and may be wrong.
    let reader = onnx()
        .with_ignore_value_info(true)
        .with_ignore_output_shapes(true);
    let parsed = reader.parse(model, None)?;
    let mut graph = parsed.model;
    for (i, input) in card.inputs.iter().enumerate() {
        graph.set_input_fact(i, f32::fact(&input.shape).into())?;
    }
    let typed = graph.into_typed()?.into_decluttered()?;
    for (i, output) in card.outputs.iter().enumerate() {
        let fact = typed.output_fact(i)?;
        if fact.datum_type != f32::datum_type()
            || fact.shape.as_concrete() != Some(&output.shape[..])
        {
            return Err(TractError::msg(format!(
                "output {i} ({:?}) comes out as {fact:?}, the card says {:?}, f32",
                output.name, output.shape
            )));
        }
    }
    Ok(typed)
}
