//! What asks a program to stop.

/// Who asked for the end of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A person: Ctrl-C, SIGINT.
    Interrupt,
    /// The system: SIGTERM, as `kill`, systemd and containers send it; on Windows, the end of the console or of the session.
    Terminate,
    /// The terminal is closed, or the connection to it lost: SIGHUP, on Linux.
    Hangup,
}

impl Stop {
    /// The exit code of a program that was stopped before its work was done: 128 and the number of the signal, as shells have it.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::Hangup => 129,
        }
    }
}

/// Waits until the program is to stop. From the first call on, the signals do not end the process by themselves.
pub async fn stopped() -> Stop {
    stopped_by(true).await
}

async fn stopped_by(hangup: bool) -> Stop {
    match signals(hangup).await {
        Ok(stop) => stop,
        Err(error) => {
            crate::note!("signals to stop are not heard: {error}");
            std::future::pending().await
        }
    }
}

/// The signals (SIGHUP) by which services are told to read their settings again. Elsewhere than on Unix, there are none.
#[derive(Debug)]
pub struct Hangups(#[cfg(unix)] Option<tokio::signal::unix::Signal>);

impl Hangups {
    /// Hears them from now on, if the program has settings that can be read again; and what stops it, which SIGHUP does if it has none.
    pub fn of(is_heard: bool) -> (Self, impl Future<Output = Stop>) {
        #[cfg(unix)]
        let hangups = {
            use tokio::signal::unix::{SignalKind, signal};
            let heard = is_heard.then(|| signal(SignalKind::hangup()));
            let heard = heard.transpose().unwrap_or_else(|error| {
                crate::note!("SIGHUP is not heard: {error}");
                None
            });
            Self(heard)
        };
        #[cfg(not(unix))]
        let hangups = Self();
        (hangups, stopped_by(!is_heard))
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.0
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

#[cfg(unix)]
async fn signals(hangup: bool) -> std::io::Result<Stop> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let mut hangup = match !hangup || outlives_its_terminal() {
        true => None,
        false => Some(signal(SignalKind::hangup())?),
    };
    let hung_up = async {
        match &mut hangup {
            Some(hangup) => hangup.recv().await,
            None => std::future::pending().await,
        }
    };
    Ok(tokio::select! {
        _ = interrupt.recv() => Stop::Interrupt,
        _ = terminate.recv() => Stop::Terminate,
        _ = hung_up => Stop::Hangup,
    })
}

/// Whether SIGHUP is ignored, as `nohup` has it. Where the system does not tell, the signal keeps its meaning.
#[cfg(unix)]
fn outlives_its_terminal() -> bool {
    // proc(5): the signals that are ignored, in hexadecimal; SIGHUP is the lowest bit.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u128::from_str_radix(bits.trim(), 16).ok());
    ignored.is_none_or(|bits| bits & 1 != 0)
}

#[cfg(windows)]
async fn signals(_: bool) -> std::io::Result<Stop> {
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
