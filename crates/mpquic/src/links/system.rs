//! The interfaces of this machine, as the operating system tells them.

use std::io;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Interface, InterfaceWatcher};

/// How often the interfaces are looked at, whether or not the system has told of a change: it tells of links on Linux and Windows, of new
/// addresses not everywhere.
const LOOK: Duration = Duration::from_secs(2);

/// The interfaces of this machine that are up, without loopback. Looks when the system tells of a change (Linux, Windows), and every two
/// seconds. A look that fails, as with too many open files, is told to the log and followed by others.
#[derive(Debug)]
pub struct SystemInterfaces(mpsc::Receiver<Vec<Interface>>);

impl SystemInterfaces {
    /// Begins to watch, in a thread that ends soon after this is dropped.
    ///
    /// # Errors
    ///
    /// If the system does not tell its interfaces, or there can be no thread.
    pub fn new() -> io::Result<Self> {
        Ok(Self::begin()?.0)
    }

    /// The same with those that are up now, which it tells the first time, too.
    pub(super) fn begin() -> io::Result<(Self, Vec<Interface>)> {
        let mut last = look()?;
        let first = last.clone();
        let (tell, told) = mpsc::channel(1);
        let watching = std::thread::Builder::new().name("mpquic-links".to_owned());
        watching.spawn(move || {
            if tell.blocking_send(last.clone()).is_err() {
                return;
            }
            let (mut bell, mut blind) = (Bell::new(), false);
            while !tell.is_closed() {
                bell.wait();
                match look() {
                    Ok(now) => {
                        blind = false;
                        if now == last {
                            continue;
                        }
                        last.clone_from(&now);
                        if tell.blocking_send(now).is_err() {
                            return;
                        }
                    }
                    // It passes, such as too many open files: links that come meanwhile are seen then.
                    Err(error) if !blind => {
                        blind = true;
                        tracing::warn!(%error, "the interfaces cannot be looked at");
                    }
                    Err(_) => {}
                }
            }
        })?;
        Ok((Self(told), first))
    }
}

impl InterfaceWatcher for SystemInterfaces {
    async fn next(&mut self) -> io::Result<Vec<Interface>> {
        let ended = || io::Error::other("the thread that watches the interfaces has ended");
        self.0.recv().await.ok_or_else(ended)
    }
}

fn look() -> io::Result<Vec<Interface>> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for found in if_addrs::get_if_addrs()? {
        if found.is_loopback() || !found.is_oper_up() {
            continue;
        }
        let ip = found.ip();
        match interfaces.iter_mut().find(|known| known.name == found.name) {
            Some(known) => known.addresses.push(ip),
            None => interfaces.push(Interface {
                index: found.index,
                addresses: vec![ip],
                name: found.name,
            }),
        }
    }
    Ok(interfaces)
}

/// Rings when the system tells of a change, and every now and then.
struct Bell {
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    notifier: Option<if_addrs::IfChangeNotifier>,
}

impl Bell {
    fn new() -> Self {
        Self {
            // Without it, changes are seen a little later.
            #[cfg(any(target_os = "linux", target_os = "android", windows))]
            notifier: if_addrs::IfChangeNotifier::new().ok(),
        }
    }

    fn wait(&mut self) {
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if let Some(notifier) = &mut self.notifier {
            match notifier.wait(Some(LOOK)) {
                Ok(_) => return,
                Err(error) if is_timeout(&error) => return,
                // Such as too many changes at once for its buffer: another one is made.
                Err(_) => self.notifier = None,
            }
        }
        std::thread::sleep(LOOK);
        #[cfg(any(target_os = "linux", target_os = "android", windows))]
        if self.notifier.is_none() {
            self.notifier = if_addrs::IfChangeNotifier::new().ok();
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android", windows))]
fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_look_is_told_at_once_and_has_no_loopback() {
        let mut watcher = SystemInterfaces::new().unwrap();
        let found = watcher.next().await.unwrap();
        let mut addresses = found.iter().flat_map(|interface| &interface.addresses);
        assert!(addresses.all(|ip| !ip.is_loopback()), "{found:?}");
    }
}
