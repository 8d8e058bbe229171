//! What the unit tests of this crate share; nothing of it is in a build.

/// A copy of `base` with these fields changed: the views of the contract may grow, so that other crates cannot write
/// them as `PathView { .. }`.
macro_rules! changed {
    ($base:expr, $($field:ident = $value:expr),* $(,)?) => {{
        let mut changed = $base.clone();
        $(changed.$field = $value;)*
        changed
    }};
}
