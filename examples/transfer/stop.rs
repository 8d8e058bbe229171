//! When to stop: Ctrl-C, or a service manager's request.

use std::io;

/// Waits until the program is asked to stop. From the first call on, it is not ended by that.
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
