//! What is added to a registry.

use mpquic_sched::{Registry, RegistryError};
use mpquic_sched_neural::{register, registry};

const OURS: [&str; 3] = ["dqn", "gaps", "sailfish"];

#[test]
fn the_registry_has_all_others_and_these() {
    let (all, others) = (registry(), Registry::new());
    let added: Vec<_> = all
        .names()
        .filter(|name| !others.names().any(|other| other == *name))
        .collect();
    assert_eq!(added, OURS);
    assert_eq!(all.names().count(), others.names().count() + OURS.len());
}

#[test]
fn a_name_is_given_once() {
    let mut all = registry();
    let error = register(&mut all).err().unwrap();
    assert_eq!(error, RegistryError::NameTaken("dqn".into()));
}
