//! A learning scheduler over simulated networks. A connection starts with what an earlier one
//! learned over the same paths, from memory or from a file. It starts afresh if the file is
//! invalid.

use std::fs;
use std::time::Duration;

use mpquic_proto::{Side, TransportConfig};
use mpquic_sched::memory::{Recall, Store};
use mpquic_sched::{
    Acked, Context, Decision, Learned, LearnedArm, MinRtt, NoConfig, PathIndex, PathKey,
    PathUpdate, PathUpdateKind, Registry, Scheduler,
};
use mpquic_sim::{LinkConfig, Network, TransferClient, TransferServer};

/// minRTT that counts what each path has delivered, over all connections.
struct Counting {
    inner: MinRtt,
    recall: Recall,
    arms: Vec<(PathKey, LearnedArm)>,
}

impl Counting {
    fn new(_: &NoConfig, recall: Recall) -> Self {
        Self {
            inner: MinRtt::default(),
            recall,
            arms: Vec::new(),
        }
    }

    fn arm(&mut self, path: PathIndex) -> Option<&mut LearnedArm> {
        let arms = self.arms.iter_mut().map(|(_, arm)| arm);
        arms.into_iter().find(|arm| arm.path == path)
    }
}

impl Scheduler for Counting {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.inner.decide(cx)
    }

    fn on_acked(&mut self, event: &Acked) {
        if let Some(arm) = self.arm(event.path) {
            arm.pulls += 1;
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        if let (PathUpdateKind::Validated, Some(key)) = (event.kind, event.key) {
            let mut arm = LearnedArm::new(event.path);
            let known: Option<u64> = self.recall.recall_path(key);
            (arm.pulls, arm.recalled) = (known.unwrap_or(0), known.is_some());
            self.arms.push((key, arm));
        }
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new("counting");
        learned.arms = self.arms.iter().map(|(_, arm)| arm.clone()).collect();
        Some(learned)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        for (key, arm) in &self.arms {
            self.recall.remember_path(*key, &arm.pulls);
        }
    }
}

/// A download of 500 kB over this many paths. Returns what the server's scheduler had learned at
/// the end.
fn download(store: &Store, paths: usize) -> Vec<LearnedArm> {
    let mut registry = Registry::empty().with_memory(store.clone());
    registry
        .register_learner("counting", |_| Ok(()), Counting::new)
        .unwrap();
    let factory = registry
        .factory("counting", &serde_json::Value::Null)
        .unwrap();
    let mut server = TransportConfig::default();
    server.scheduler(factory);
    let mut network = Network::builder(1)
        .server_transport(server)
        .client(TransferClient::download(500_000))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead();
    for _ in 0..paths {
        let link = LinkConfig::new(10_000_000, Duration::from_millis(10));
        network = network.symmetric_path(link);
    }
    let mut network = network.build().unwrap();
    network.run_to_completion(Duration::from_secs(60)).unwrap();
    let connection = network.connection(Side::Server).unwrap();
    connection.scheduler().learned().unwrap().arms
}

fn recalled(arms: &[LearnedArm]) -> Vec<bool> {
    arms.iter().map(|arm| arm.recalled).collect()
}

#[test]
fn the_second_connection_begins_where_the_first_one_ended() {
    let store = Store::new();
    let first = download(&store, 2);
    assert_eq!(recalled(&first), [false, false]);
    assert!(first.iter().all(|arm| arm.pulls > 50), "{first:?}");
    assert_eq!(store.len(), 2);
    // One more path, about which nothing is known.
    let second = download(&store, 3);
    assert_eq!(recalled(&second), [true, true, false]);
    for (before, after) in first.iter().zip(&second) {
        assert!(after.pulls > before.pulls, "{before:?} {after:?}");
    }
    assert_eq!((store.len(), store.refused()), (3, 0));
}

#[test]
fn what_was_learned_survives_a_restart_but_not_a_corrupt_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.json");
    let store = Store::load(&file).unwrap();
    download(&store, 2);
    store.save(&file).unwrap();
    let again = Store::load(&file).unwrap();
    assert_eq!(recalled(&download(&again, 2)), [true, true]);

    let mut bytes = fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 4);
    fs::write(&file, &bytes).unwrap();
    let refused = Store::load(&file).unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("memory.json is refused at line"),
        "{message}"
    );
    let fresh = Store::new();
    assert_eq!(recalled(&download(&fresh, 2)), [false, false]);
    // The next save replaces the invalid file.
    fresh.save(&file).unwrap();
    assert_eq!(Store::load(&file).unwrap().len(), 2);
}
