//! The tests of the whole stack, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here; one that needs a process of its own, in `Cargo.toml`.

mod data_kinds;
mod data_order;
mod echo_example;
#[path = "link_failures/main.rs"]
mod link_failures;
mod linucb_reference;
#[path = "multipath_scenarios/main.rs"]
mod multipath_scenarios;
mod named_regressions;
mod nat_rebinding;
mod path_death;
mod path_start;
#[path = "random_interaction/main.rs"]
mod random_interaction;
mod support;
mod unequal_paths;
