//! What a service tells its manager (systemd): that it is ready, alive, and stopping. Nothing where there is none.

#[cfg(target_os = "linux")]
use sd_notify::NotifyState;

/// It serves from now on.
pub fn ready() {
    #[cfg(target_os = "linux")]
    tell(NotifyState::Ready);
}

/// It ends.
pub fn stopping() {
    #[cfg(target_os = "linux")]
    tell(NotifyState::Stopping);
}

/// Tells that it lives, as often as the manager asks for, while it is polled: not if the tasks of the runtime are not run any more.
pub async fn watchdog() -> std::convert::Infallible {
    #[cfg(target_os = "linux")]
    if let Some(patience) = sd_notify::watchdog_enabled().filter(|patience| !patience.is_zero()) {
        let mut ticks = tokio::time::interval(patience / 3);
        loop {
            ticks.tick().await;
            tell(NotifyState::Watchdog);
        }
    }
    std::future::pending().await
}

#[cfg(target_os = "linux")]
fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        crate::log!("the service manager is not told: {error}");
    }
}
