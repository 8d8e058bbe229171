//! Long work without the interpreter's lock: progress is told and signals are looked at while it goes on.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How often progress is told and signals are looked at.
const BETWEEN: Duration = Duration::from_millis(100);

/// What work under way shares with whoever waits for it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The units of work that are done.
    pub(crate) done: AtomicUsize,
    /// The units of work that there are.
    pub(crate) all: AtomicUsize,
}

/// Does `work` in a thread of its own. Calls `tell(done, all)` from time to time. Sets `stop` on a signal, or if `tell`
/// raises, and then raises that once the work has ended.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    stop: &Arc<AtomicBool>,
    progress: &Progress,
    tell: Option<&Py<PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let look = || {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(tell) = tell {
                let [done, all] = [&progress.done, &progress.all];
                let told = [done, all].map(|number| number.load(Ordering::Relaxed));
                tell.call1(py, (told[0], told[1]))?;
            }
            Ok::<_, PyErr>(())
        })
    };
    py.detach(|| {
        thread::scope(|scope| {
            let (ended, end) = channel();
            let work = scope.spawn(move || {
                let result = work();
                // Fails if nobody waits any more.
                let _ = ended.send(());
                result
            });
            let mut fault = None;
            // The other end is dropped if the work panics.
            while end.recv_timeout(BETWEEN) == Err(RecvTimeoutError::Timeout) {
                if fault.is_none()
                    && let Err(error) = look()
                {
                    stop.store(true, Ordering::Relaxed);
                    fault = Some(error);
                }
            }
            let result = work.join().unwrap_or_else(|panic| resume_unwind(panic));
            match fault {
                Some(fault) => Err(fault),
                None => look().map(|()| result),
            }
        })
    })
}
