//! What asks a program to stop.

/// Who asked for the end of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A person: Ctrl-C, SIGINT.
    Interrupt,
    /// The system: SIGTERM, as `kill`, systemd and containers send it; on Windows, the end of the console or of the session.
    Terminate,
}

impl Stop {
    /// The exit code of a program that was stopped before its work was done: 128 and the number of the signal, as shells have it.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Waits until the program is to stop. From the first call on, the signals do not end the process by themselves.
pub async fn stopped() -> Stop {
    match signals().await {
        Ok(stop) => stop,
        Err(error) => {
            crate::note!("signals to stop are not heard: {error}");
            std::future::pending().await
        }
    }
}

#[cfg(unix)]
async fn signals() -> std::io::Result<Stop> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    Ok(tokio::select! {
        _ = interrupt.recv() => Stop::Interrupt,
        _ = terminate.recv() => Stop::Terminate,
    })
}

#[cfg(windows)]
async fn signals() -> std::io::Result<Stop> {
    use tokio::signal::windows;
    let (mut interrupt, mut close, mut shutdown) = (
        windows::ctrl_c()?,
        windows::ctrl_close()?,
        windows::ctrl_shutdown()?,
    );
    Ok(tokio::select! {
        _ = interrupt.recv() => Stop::Interrupt,
        _ = close.recv() => Stop::Terminate,
        _ = shutdown.recv() => Stop::Terminate,
    })
}
