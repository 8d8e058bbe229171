//! The cards of the networks that come with this crate say where their weights come from.

use std::path::Path;

use mpquic_infer::Card;

#[test]
fn a_shipped_network_says_how_it_came_about() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    for name in ["dqn", "gaps", "sailfish"] {
        let text = std::fs::read(models.join(name).with_extension("json")).unwrap();
        let from = Card::from_json(&text).unwrap().provenance;
        assert!(from.commit.is_some_and(|hash| hash.len() == 12), "{name}");
        assert!(from.versions.contains_key("torch"), "{name}");
        assert!(from.networks.is_some(), "{name}");
        // Both are files of the repository; a packaged crate has neither.
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let curve = from.curve.unwrap();
        let held_out = from.held_out.unwrap();
        let (_, report) = held_out.split_once(": ").unwrap();
        if repository.join("training").is_dir() {
            assert!(repository.join(curve).is_file(), "{name}");
            assert!(repository.join(report).is_file(), "{name}");
        }
    }
}
