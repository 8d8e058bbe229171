//! A scheduler's handle on its own part of a memory.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use siphasher::sip::SipHasher24;

use super::store::Key;
use super::{MAX_ENTRY_BYTES, Store};
use crate::PathKey;

/// Any constant will do, and this one must never change: stored memories rest on it.
const FIXED_KEY: [u8; 16] = *b"mpquic configura";

/// What a learning scheduler asks, and tells, of earlier and later connections.
///
/// What is remembered is any type that serde can write and read. Reading is where a scheduler
/// checks it: an entry that its [`Deserialize`](serde::Deserialize) refuses (other dimensions, not a
/// number, a matrix that is none of its kind) is forgotten and counted
/// ([`Store::refused`]), and the pair learns from the start. What could not be read back is not
/// stored in the first place: in JSON, an infinite number is `null`.
///
/// Made by a [`Registry`](crate::Registry) with a memory, or by [`Store::recall`].
/// [`Recall::none`] remembers nothing.
///
/// **Cost.** A lock, and a copy of a piece of JSON, which is read or written; for
/// [`on_path`](crate::Scheduler::on_path) and for the end of a scheduler only.
///
/// ```
/// use mpquic_sched::PathKey;
/// use mpquic_sched::memory::{Recall, Store};
/// use serde_json::json;
///
/// let (wifi, lte) = (PathKey::new(1), PathKey::new(2));
/// let store = Store::new();
/// store.recall("mine", &json!({"alpha": 0.8, "seed": 1})).remember(wifi, lte, &[0.5, 1.5]);
///
/// // Another connection, which draws other random numbers.
/// let next = store.recall("mine", &json!({"alpha": 0.8, "seed": 2}));
/// assert_eq!(next.recall(wifi, lte), Some([0.5, 1.5]));
/// assert_eq!(next.recall::<[f64; 2]>(lte, wifi), None);
///
/// // Another configuration, another scheduler, no memory.
/// let other = store.recall("mine", &json!({"alpha": 0.7}));
/// assert_eq!(other.recall::<[f64; 2]>(wifi, lte), None);
/// assert_eq!(Recall::none().recall::<[f64; 2]>(wifi, lte), None);
///
/// // Refused: not what was stored.
/// assert_eq!(next.recall::<[f64; 3]>(wifi, lte), None);
/// assert_eq!((store.refused(), store.len()), (1, 0));
/// ```
#[derive(Clone, Default)]
pub struct Recall(Option<Arc<Inner>>);

struct Inner {
    store: Store,
    scheduler: Arc<str>,
    config: u64,
}

impl Recall {
    /// A handle on nothing: nothing is known, and nothing is kept.
    pub const fn none() -> Self {
        Self(None)
    }

    pub(super) fn new(store: Store, scheduler: &str, config: &impl Serialize) -> Self {
        // A configuration that is no JSON cannot be told from others of its kind.
        let Ok(config) = serde_json::to_value(config) else {
            return Self::none();
        };
        Self(Some(Arc::new(Inner {
            store,
            scheduler: scheduler.into(),
            config: fingerprint(config),
        })))
    }

    /// What was last remembered of waiting for `fast` rather than sending on `slow`.
    ///
    /// Nothing of two paths with one key: they cannot be told apart, nor which of them was the
    /// faster.
    pub fn recall<T: DeserializeOwned>(&self, fast: PathKey, slow: PathKey) -> Option<T> {
        if fast == slow {
            return None;
        }
        self.read(fast, slow)
    }

    /// Remembers this of waiting for `fast` rather than sending on `slow`, in place of what was
    /// remembered before. Of two paths with one key, nothing.
    pub fn remember<T: Serialize + DeserializeOwned>(
        &self,
        fast: PathKey,
        slow: PathKey,
        learned: &T,
    ) {
        if fast != slow {
            self.write(fast, slow, learned);
        }
    }

    /// What was last remembered of a single path.
    pub fn recall_path<T: DeserializeOwned>(&self, path: PathKey) -> Option<T> {
        self.read(path, path)
    }

    /// Remembers this of a single path, in place of what was remembered before.
    pub fn remember_path<T: Serialize + DeserializeOwned>(&self, path: PathKey, learned: &T) {
        self.write(path, path, learned);
    }

    /// Whether there is a memory behind it: whether it is worth making up what to remember.
    pub const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    fn read<T: DeserializeOwned>(&self, fast: PathKey, slow: PathKey) -> Option<T> {
        let inner = self.0.as_ref()?;
        let key = inner.key(fast, slow);
        // Read outside of the lock.
        let learned = inner.store.get(&key)?;
        let value = serde_json::from_str(&learned);
        if value.is_err() {
            inner.store.refuse(&key, Some(&learned));
        }
        value.ok()
    }

    fn write<T: Serialize + DeserializeOwned>(&self, fast: PathKey, slow: PathKey, learned: &T) {
        let Some(inner) = &self.0 else {
            return;
        };
        let key = inner.key(fast, slow);
        match serde_json::to_string(learned) {
            Ok(text)
                if text.len() <= MAX_ENTRY_BYTES && serde_json::from_str::<T>(&text).is_ok() =>
            {
                inner.store.put(key, text.into());
            }
            _ => inner.store.refuse(&key, None),
        }
    }
}

impl Inner {
    fn key(&self, fast: PathKey, slow: PathKey) -> Key {
        Key {
            scheduler: Arc::clone(&self.scheduler),
            config: self.config,
            fast,
            slow,
        }
    }
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Recall");
        if let Some(inner) = &self.0 {
            f.field("scheduler", &inner.scheduler)
                .field("config", &format_args!("{:016x}", inner.config));
        }
        f.finish_non_exhaustive()
    }
}

/// The same for configurations that differ in their seeds only. Of 64 bits: whoever looks for a
/// collision can only configure his own scheduler with what another one of its kind has learned.
fn fingerprint(mut config: Value) -> u64 {
    if let Some(fields) = config.as_object_mut() {
        fields.remove("seed");
    }
    // In the order of the keys it is already, unless another crate has turned on serde_json's
    // `preserve_order`, which would make another fingerprint of it.
    config.sort_all_objects();
    let mut hasher = SipHasher24::new_with_key(&FIXED_KEY);
    hasher.write(config.to_string().as_bytes());
    hasher.finish()
}
