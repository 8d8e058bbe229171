//! The numbers of other libraries on the same log: MABWiser's, River's, Vowpal Wabbit's estimators, scikit-learn's.

use std::collections::BTreeMap;

use mpquic_bandit::{
    Choice, Decisions, EpsilonGreedy, Estimate, LinUcb, LinUcbConfig, Logged, OffPolicy, Step,
};
use serde::Deserialize;

const D: usize = 4;
const K: usize = 3;

/// What `make.py` wrote.
#[derive(Deserialize)]
struct Reference {
    contexts: Vec<[f64; D]>,
    logging: Vec<[f64; K]>,
    target: Vec<[f64; K]>,
    arms: Vec<usize>,
    rewards: Vec<f64>,
    ridge: f64,
    alpha: f64,
    step: f64,
    linucb_scores: Vec<[f64; K]>,
    means: [f64; K],
    faded: [f64; K],
    ips: f64,
    ips_error: f64,
    snips: f64,
    direct: f64,
    doubly_robust: f64,
    doubly_robust_error: f64,
}

impl Reference {
    fn read() -> Self {
        serde_json::from_str(include_str!("reference.json")).unwrap()
    }

    /// The log as lines of ours, each made through a decision that waited.
    fn lines(&self) -> Vec<Logged<D>> {
        let mut open = Decisions::<D, 16>::new();
        let lines = self.contexts.iter().zip(&self.arms).zip(&self.rewards);
        lines
            .zip(&self.logging)
            .map(|(((context, arm), reward), logging)| {
                let choice = Choice {
                    arm: *arm,
                    probability: logging[*arm],
                };
                let id = open.open(*context, mpquic_bandit::ArmSet::first_of(K), choice);
                open.reward(id, *reward).unwrap().unwrap()
            })
            .collect()
    }

    /// LinUCB, started from the log.
    fn model(&self) -> LinUcb<f64, D, K> {
        let mut model = LinUcb::new(&LinUcbConfig {
            ridge: self.ridge,
            ..LinUcbConfig::default()
        });
        for line in self.lines() {
            model
                .update(line.choice.arm, &line.context, line.reward)
                .unwrap();
        }
        model
    }
}

#[track_caller]
fn close(ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() < 1e-9, "{ours} for {theirs}");
}

#[test]
fn linucb_has_the_scores_of_mabwiser() {
    let reference = Reference::read();
    let model = reference.model();
    for (theirs, context) in reference.linucb_scores.iter().zip(&reference.contexts) {
        for (ours, theirs) in model.scores(reference.alpha, context).iter().zip(theirs) {
            close(*ours, *theirs);
        }
    }
}

#[test]
fn values_are_the_means_of_mabwiser_and_the_faded_ones_of_river() {
    let reference = Reference::read();
    let mut mean = EpsilonGreedy::<K>::new(0.0, Step::Mean, 0.0);
    for line in reference.lines() {
        mean.update(line.choice.arm, line.reward).unwrap();
    }
    for arm in 0..K {
        close(mean.values()[arm], reference.means[arm]);
        let lines = reference.lines();
        let mut rewards = lines.iter().filter(|line| line.choice.arm == arm);
        let first = rewards.next().unwrap().reward;
        let mut faded = EpsilonGreedy::<K>::new(0.0, Step::Constant(reference.step), first);
        for line in rewards {
            faded.update(arm, line.reward).unwrap();
        }
        close(faded.values()[arm], reference.faded[arm]);
    }
}

#[test]
fn estimates_are_those_of_vowpal_wabbit_and_of_the_formulas() {
    let reference = Reference::read();
    let model = reference.model();
    let mut judged = OffPolicy::new();
    for (line, target) in reference.lines().iter().zip(&reference.target) {
        let predicted = model.means(&line.context);
        let expected = (0..K).map(|k| target[k] * predicted[k]).sum();
        let Choice { arm, probability } = line.choice;
        judged
            .add_modelled(
                target[arm],
                probability,
                line.reward,
                predicted[arm],
                expected,
            )
            .unwrap();
    }
    close(judged.ips().value, reference.ips);
    close(judged.ips().error, reference.ips_error);
    close(judged.snips().value, reference.snips);
    close(judged.direct().value, reference.direct);
    close(judged.doubly_robust().value, reference.doubly_robust);
    close(judged.doubly_robust().error, reference.doubly_robust_error);
}

/// What Python reads: the log as serde writes it, and what is estimated here. `UPDATE=1` writes both anew.
#[test]
fn the_log_and_its_estimates_are_those_that_python_is_tested_with() {
    let reference = Reference::read();
    let model = reference.model();
    let (mut log, mut judged) = (String::new(), [OffPolicy::new(), OffPolicy::clipped(2.0)]);
    for (line, target) in reference.lines().iter().zip(&reference.target) {
        log += &serde_json::to_string(line).unwrap();
        log.push('\n');
        let predicted = model.means(&line.context);
        let expected = (0..K).map(|k| target[k] * predicted[k]).sum();
        let Choice { arm, probability } = line.choice;
        for judged in &mut judged {
            let (target, q) = (target[arm], predicted[arm]);
            judged
                .add_modelled(target, probability, line.reward, q, expected)
                .unwrap();
        }
    }
    let [judged, clipped] = judged;
    let pair = |estimate: Estimate| vec![estimate.value, estimate.error];
    let ours = BTreeMap::from([
        ("ips", pair(judged.ips())),
        ("snips", pair(judged.snips())),
        ("doubly_robust", pair(judged.doubly_robust())),
        ("direct", pair(judged.direct())),
        ("ips_clipped_at_2", pair(clipped.ips())),
        ("effective_lines", vec![judged.effective_lines()]),
        ("largest_weight", vec![judged.largest_weight()]),
    ]);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference");
    if std::env::var_os("UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&ours).unwrap() + "\n";
        std::fs::write(format!("{folder}/judged.json"), text).unwrap();
        std::fs::write(format!("{folder}/log.jsonl"), &log).unwrap();
    }
    let written = std::fs::read_to_string(format!("{folder}/log.jsonl")).unwrap();
    assert_eq!(written, log);
    let text = std::fs::read_to_string(format!("{folder}/judged.json")).unwrap();
    let written: BTreeMap<String, Vec<f64>> = serde_json::from_str(&text).unwrap();
    assert_eq!(written.len(), ours.len());
    for (name, values) in &ours {
        for (ours, written) in values.iter().zip(&written[*name]) {
            close(*ours, *written);
        }
    }
}
