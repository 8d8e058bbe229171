//! Tests on tokio. A deadline fails a test that hangs; no test depends on how long something takes.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Two threads, sockets and timers.
///
/// # Panics
///
/// If the system has no threads.
pub fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Runs a test on two threads.
///
/// # Panics
///
/// If it does, or takes two minutes.
pub fn run(test: impl Future<Output = ()>) {
    run_within(Duration::from_secs(120), test);
}

/// The same with another deadline.
///
/// # Panics
///
/// If the test does, or takes as long.
pub fn run_within<T>(limit: Duration, test: impl Future<Output = T>) -> T {
    let runtime = runtime();
    let outcome = runtime.block_on(async { tokio::time::timeout(limit, test).await });
    runtime.shutdown_background();
    outcome.expect("the test hangs")
}

/// Runs a test on the one thread that there is, so that all tasks take turns.
///
/// # Panics
///
/// If it does.
pub fn run_on_one_thread(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}
