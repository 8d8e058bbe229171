//! The chunk scheduler by its name; its rule is tested in `mpquic-sched`.

use mpquic_sched_neural::registry;
use serde_json::{Value, json};

use crate::path;

#[test]
fn the_registry_makes_it_and_says_what_is_wrong() {
    let registry = registry();
    for config in [json!({}), Value::Null, json!({"model": "random"})] {
        let mut scheduler = registry.build("dqn", &config).unwrap();
        assert_eq!(crate::ask(&mut *scheduler, &[path(0, 20)]), Some(0));
        let learned = scheduler.learned().unwrap();
        assert_eq!(learned.scheduler, "dqn");
    }
    let message = |config| registry.build("dqn", &config).err().unwrap().to_string();
    let missing = message(json!({"model": "no/such.onnx"}));
    let begin = "scheduler `dqn`, field `model`: no/such.onnx: ";
    assert!(missing.starts_with(begin), "{missing}");
    let unknown = message(json!({"epsilon": 1}));
    assert!(unknown.contains("epsilon"), "{unknown}");
}
