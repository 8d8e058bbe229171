//! Detects requests to stop: Ctrl-C, or a signal of a service manager.

use std::io;

/// Waits for a request to stop. After the first call, such requests no longer end the program.
pub(crate) async fn requested() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
