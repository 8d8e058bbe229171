//! Which paths a client opens by itself; the work is done within the connection's task.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use proto::{FourTuple, PathError, PathErrorCode, PathEvent, PathId, PathRef, PathStatus};

/// Which paths a client opens by itself. Servers open none (RFC 10069, Path Management, leaves that to clients).
///
/// What nobody chose is decided when a connection begins: with one local address it is [`Manual`](Self::Manual). With
/// several it is a [`FullMesh`], if the connection begins from all of them ([`Endpoint::connect`](crate::Endpoint::connect) and
/// [`connect_any`](crate::Endpoint::connect_any)): whoever names several addresses wants them used. A connection that begins from
/// one of them ([`Endpoint::connect_from`](crate::Endpoint::connect_from)) is left to the application, and so is one on
/// sockets of the application's own making ([`AsyncUdpSocket`](crate::AsyncUdpSocket)).
///
/// For any other policy, take [`Manual`](Self::Manual) and write it with
/// [`Connection::path_events`](crate::Connection::path_events) and
/// [`Connection::open_path`](crate::Connection::open_path).
///
/// ```
/// use std::time::Duration;
/// use mpquic::{FullMesh, PathManager};
///
/// let policy: PathManager = FullMesh::new()
///     .remote("192.0.2.7:4433".parse().unwrap())
///     .backoff(Duration::from_millis(500), Duration::from_secs(60))
///     .into();
/// assert_ne!(policy, PathManager::Manual);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PathManager {
    /// None: the application opens and closes paths.
    #[default]
    Manual,
    /// One from each local address to the server's, and to each further one that is given.
    FullMesh(FullMesh),
}

impl From<FullMesh> for PathManager {
    fn from(mesh: FullMesh) -> Self {
        Self::FullMesh(mesh)
    }
}

/// Opens, once the handshake is complete ([`PathStart`](crate::PathStart)), a path from each local address of the
/// endpoint to the server's address and to each further one given here, within an address family. Local addresses
/// added later ([`Endpoint::add_socket`](crate::Endpoint::add_socket)) join.
///
/// A path that was abandoned is tried again after a while, and after twice as long each time that
/// fails, unless one of the applications abandoned it
/// ([`PathErrorCode::APPLICATION_ABANDON_PATH`]). One that failed before it was validated and was asked for before the
/// handshake was confirmed is tried again at once, when it is: not every peer may like paths that begin so soon.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (client_config, server_config) = configs()?;
/// # let server = mpquic::Endpoint::server(server_config, &["127.0.0.1:0".parse()?, "127.0.0.1:0".parse()?])?;
/// # let (first, second) = (server.local_addrs()[0], server.local_addrs()[1]);
/// # tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
/// use mpquic::{Endpoint, FullMesh};
///
/// let client = Endpoint::client(&["127.0.0.1:0".parse()?])?;
/// client.set_default_client_config(client_config);
/// // The server has a second address, which it does not announce.
/// client.set_path_manager(FullMesh::new().remote(second));
/// let connection = client.connect(first, "localhost")?.await?;
/// let mut events = connection.path_events();
/// while connection.paths().len() < 2 {
///     events.recv().await;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullMesh {
    remotes: Vec<SocketAddr>,
    min_backoff: Duration,
    max_backoff: Duration,
    limit: usize,
    one_per_local: bool,
}

impl Default for FullMesh {
    fn default() -> Self {
        Self {
            remotes: Vec::new(),
            min_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(30),
            limit: usize::MAX,
            one_per_local: false,
        }
    }
}

impl FullMesh {
    /// To the server's address only; back-off from 1 to 30 s.
    pub fn new() -> Self {
        Self::default()
    }

    /// A further address of the server, such as that of its second network.
    #[must_use]
    pub fn remote(mut self, address: SocketAddr) -> Self {
        self.remotes.push(address);
        self
    }

    /// At most so many paths at a time, at least one; those from sockets that are no backups
    /// ([`Endpoint::set_socket_status`](crate::Endpoint::set_socket_status)) come first. Another one is opened when one of them ends.
    #[must_use]
    pub const fn limit(mut self, paths: usize) -> Self {
        self.limit = if paths == 0 { 1 } else { paths };
        self
    }

    /// One path from each local address only: to the server's address of the handshake, or to the first further one of its address family.
    #[must_use]
    pub const fn one_per_local(mut self) -> Self {
        self.one_per_local = true;
        self
    }

    /// How long to wait before a failed path is tried again: at first, and at most; 10 ms to a day.
    #[must_use]
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        // Without any pause, a path that is refused at once would be tried in a tight loop.
        self.min_backoff = min.clamp(Duration::from_millis(10), LONGEST_BACKOFF);
        self.max_backoff = max.clamp(self.min_backoff, LONGEST_BACKOFF);
        self
    }
}

/// A path that comes back is missed for no longer; and no point in time overflows.
const LONGEST_BACKOFF: Duration = Duration::from_secs(24 * 3600);

/// One pair of addresses.
#[derive(Debug)]
struct Link {
    path: FourTuple,
    /// The path that it is now.
    id: Option<PathId>,
    /// It was tried before the handshake was confirmed: a peer that does not want that yet is asked again when it is.
    early: bool,
    failures: u32,
    /// How it is to be used.
    status: PathStatus,
    /// How the path that it is now was told to be used.
    told: PathStatus,
    /// Not before; `None` is never again.
    next_try: Option<Instant>,
    /// The path that it is now was opened here, and the application has not asked for it.
    unasked: bool,
    /// The path that it is now is validated.
    opened: bool,
}

/// The full mesh of one connection. No clock and no I/O of its own.
#[derive(Debug)]
pub(crate) struct Mesh {
    config: FullMesh,
    /// The server as the handshake found it.
    first_remote: SocketAddr,
    links: Vec<Link>,
    /// Something changed since the last look. Without it, and before `next_look`, a look costs
    /// nothing: there is one with every batch that the connection sends.
    dirty: bool,
    next_look: Option<Instant>,
    /// The peer does not speak the extension.
    impossible: bool,
    /// Nobody asked for it: an application that opens the same paths by hand gets those of the mesh.
    by_default: bool,
}

impl Mesh {
    pub(crate) fn new(config: FullMesh, first_remote: SocketAddr) -> Self {
        Self {
            config,
            first_remote,
            links: Vec::new(),
            dirty: true,
            next_look: None,
            impossible: false,
            by_default: false,
        }
    }

    /// The one of a connection whose endpoint has several addresses, and for which nobody chose a path manager.
    pub(crate) fn by_default(first_remote: SocketAddr) -> Self {
        Self {
            by_default: true,
            ..Self::new(FullMesh::new(), first_remote)
        }
    }

    /// The application opens this path by hand: the one that was opened here already, if it is there, and whether it is
    /// validated. It gets that once, and further ones if it asks for more.
    pub(crate) fn take_opened(&mut self, path: &FourTuple) -> Option<(PathId, bool)> {
        let mut links = self.links.iter_mut();
        let link = links.find(|link| self.by_default && link.unasked && link.path.matches(path))?;
        let id = link.id?;
        link.unasked = false;
        Some((id, link.opened))
    }

    /// The connection begins at this address of the server: of several, it is known only now.
    pub(crate) fn set_first_remote(&mut self, remote: SocketAddr) {
        self.first_remote = remote;
        self.dirty = true;
    }

    /// Something changed that may allow what failed before.
    pub(crate) fn unblock(&mut self) {
        self.dirty = true;
    }

    pub(crate) fn on_event(&mut self, event: &PathEvent, now: Instant) {
        match *event {
            PathEvent::Opened { id } => {
                for link in self.links.iter_mut().filter(|link| link.id == Some(id)) {
                    link.failures = 0;
                    link.early = false;
                    link.opened = true;
                }
            }
            PathEvent::Abandoned {
                id,
                error_code,
                by_peer,
            } => {
                self.dirty = true;
                let (min, max) = (self.config.min_backoff, self.config.max_backoff);
                for link in self.links.iter_mut().filter(|link| link.id == Some(id)) {
                    link.id = None;
                    link.unasked = false;
                    link.opened = false;
                    link.told = PathStatus::Available;
                    if std::mem::take(&mut link.early) && by_peer {
                        link.next_try = Some(now);
                        continue;
                    }
                    let on_purpose = error_code == PathErrorCode::APPLICATION_ABANDON_PATH;
                    link.next_try = (!on_purpose).then(|| link.back_off(now, min, max));
                }
            }
            PathEvent::Available { .. } | PathEvent::Discarded { .. } => self.dirty = true,
            _ => {}
        }
    }

    /// Opens what is missing. Returns when to be called again, events apart.
    pub(crate) fn poll(
        &mut self,
        proto: &mut proto::Connection,
        now: Instant,
        locals: impl Iterator<Item = (SocketAddr, PathStatus)>,
    ) -> Option<Instant> {
        if !self.dirty && self.next_look.is_none_or(|at| at > now) {
            return self.next_look;
        }
        self.dirty = false;
        self.next_look = None;
        // An event tells when it may.
        if self.impossible || !proto.paths().may_open() {
            return None;
        }
        self.find_links(locals, now);
        for link in &mut self.links {
            let is_its = |path: &PathRef<'_>| path.network_path().matches(&link.path);
            let open = proto.paths().iter().find(is_its).map(|path| path.id());
            link.id = open.or(link.id);
            link.tell_status(proto);
            if link.status == PathStatus::Backup {
                link.tell_moved(proto);
            }
        }
        let mut used = self.links.iter().filter(|link| link.id.is_some()).count();
        for link in &mut self.links {
            if used >= self.config.limit {
                // The end of one of them is an event.
                return None;
            }
            if link.id.is_some() || link.next_try.is_none_or(|at| at > now) {
                continue;
            }
            match proto.open_path(now, link.path) {
                Ok(id) => {
                    tracing::debug!(%id, path = %link.path, "opening");
                    link.id = Some(id);
                    link.unasked = true;
                    link.tell_status(proto);
                    used += 1;
                    link.early = !proto.is_handshake_confirmed();
                }
                Err(
                    PathError::HandshakeIncomplete
                    | PathError::NoPathIdLeft { .. }
                    | PathError::NoCidAvailable { .. }
                    | PathError::TooManyPaths(_),
                ) => {
                    // An event tells when it is worth another try.
                    return None;
                }
                Err(PathError::MultipathNotNegotiated | PathError::ServerSide) => {
                    self.impossible = true;
                    return None;
                }
                // For as long as the connection lasts.
                Err(PathError::MigrationDisabled) => link.next_try = None,
                Err(error) => {
                    tracing::debug!(path = %link.path, %error, "not opened");
                    let (min, max) = (self.config.min_backoff, self.config.max_backoff);
                    link.next_try = Some(link.back_off(now, min, max));
                }
            }
        }
        let waiting = self.links.iter().filter(|link| link.id.is_none());
        self.next_look = waiting.filter_map(|link| link.next_try).min();
        self.next_look
    }

    /// Makes the links those of the local addresses; what is known of the ones that stay is kept.
    fn find_links(&mut self, locals: impl Iterator<Item = (SocketAddr, PathStatus)>, now: Instant) {
        let mut old = std::mem::take(&mut self.links);
        let most = if self.config.one_per_local {
            1
        } else {
            usize::MAX
        };
        for (local, status) in locals {
            let remotes =
                std::iter::once(self.first_remote).chain(self.config.remotes.iter().copied());
            let remotes = remotes.filter(|remote| remote.is_ipv4() == local.is_ipv4());
            for remote in remotes.take(most) {
                let path = FourTuple { local, remote };
                if self.links.iter().any(|link| link.path == path) {
                    continue;
                }
                let kept = old.iter().position(|link| link.path == path);
                self.links.push(match kept {
                    Some(index) => Link {
                        status,
                        ..old.swap_remove(index)
                    },
                    None => Link {
                        path,
                        status,
                        told: PathStatus::Available,
                        id: None,
                        early: false,
                        failures: 0,
                        next_try: Some(now),
                        unasked: false,
                        opened: false,
                    },
                });
            }
        }
        // Stable: the order of the sockets stays.
        self.links.sort_by_key(|link| link.status);
    }
}

impl Link {
    /// The path that it is now is used as its socket says. What the application sets by hand stays until that changes.
    fn tell_status(&mut self, proto: &mut proto::Connection) {
        if let Some(id) = self.id
            && self.told != self.status
            && proto.path_mut(id).set_status(self.status).is_ok()
        {
            self.told = self.status;
        }
    }

    /// A path that lost its socket goes on from another one, which may have a path already: it is used as that socket says.
    fn tell_moved(&self, proto: &mut proto::Connection) {
        let moved = proto.paths().iter().filter(|path| {
            Some(path.id()) != self.id
                && path.network_path().matches(&self.path)
                && path.status() != self.status
        });
        // Rare enough for a list.
        let moved: Vec<_> = moved.map(|path| path.id()).collect();
        for id in moved {
            // One that is closed by now needs no status.
            let _ = proto.path_mut(id).set_status(self.status);
        }
    }

    fn back_off(&mut self, now: Instant, min: Duration, max: Duration) -> Instant {
        let wait = min.saturating_mul(1 << self.failures.min(16)).min(max);
        self.failures += 1;
        now + wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(local: &str) -> FourTuple {
        FourTuple {
            local: local.parse().unwrap(),
            remote: "10.0.0.9:443".parse().unwrap(),
        }
    }

    fn mesh(locals: &[&str]) -> Mesh {
        let mut mesh = Mesh::new(FullMesh::new(), "10.0.0.9:443".parse().unwrap());
        mesh.find_links(
            locals
                .iter()
                .map(|local| (local.parse().unwrap(), PathStatus::Available)),
            Instant::now(),
        );
        mesh
    }

    #[test]
    fn links_join_families_and_survive_changes_of_the_sockets() {
        let mut mesh = mesh(&["10.0.0.1:1", "10.0.0.2:2", "[::1]:3"]);
        assert_eq!(mesh.links.len(), 2);
        mesh.links[1].id = Some(PathId(7));
        mesh.find_links(
            ["10.0.0.2:2", "10.0.0.3:3"]
                .map(|local| (local.parse().unwrap(), PathStatus::Available))
                .into_iter(),
            Instant::now(),
        );
        assert_eq!(mesh.links[0].path, path("10.0.0.2:2"));
        assert_eq!(mesh.links[0].id, Some(PathId(7)));
        assert_eq!(mesh.links[1].id, None);
    }

    #[test]
    fn a_path_that_nobody_asked_for_is_given_to_the_application_once() {
        let mut mesh = mesh(&["10.0.0.1:1", "10.0.0.2:2"]);
        mesh.links[1].id = Some(PathId(1));
        mesh.links[1].unasked = true;
        let (first, second) = (path("10.0.0.1:1"), path("10.0.0.2:2"));
        assert_eq!(
            mesh.take_opened(&second),
            None,
            "somebody asked for the mesh"
        );
        mesh.by_default = true;
        assert_eq!(mesh.take_opened(&first), None);
        let now = Instant::now();
        mesh.on_event(&PathEvent::Opened { id: PathId(1) }, now);
        assert_eq!(mesh.take_opened(&second), Some((PathId(1), true)));
        assert_eq!(mesh.take_opened(&second), None);
    }

    #[test]
    fn backs_off_after_failures_and_stays_away_after_the_application() {
        let mut mesh = mesh(&["10.0.0.1:1"]);
        let now = Instant::now();
        let abandoned = |code| PathEvent::Abandoned {
            id: PathId(1),
            error_code: code,
            by_peer: true,
        };
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            mesh.links[0].id = Some(PathId(1));
            mesh.on_event(&abandoned(PathErrorCode::PATH_UNSTABLE_OR_POOR), now);
            let expected = now + Duration::from_secs(seconds);
            assert_eq!(mesh.links[0].next_try, Some(expected));
        }
        mesh.links[0].id = Some(PathId(1));
        mesh.on_event(&PathEvent::Opened { id: PathId(1) }, now);
        mesh.on_event(&abandoned(PathErrorCode::APPLICATION_ABANDON_PATH), now);
        assert_eq!(mesh.links[0].next_try, None);
    }

    #[test]
    fn no_backoff_is_a_busy_loop_or_beyond_all_time() {
        let now = Instant::now();
        for (min, max, first) in [
            (Duration::ZERO, Duration::ZERO, Duration::from_millis(10)),
            (Duration::MAX, Duration::ZERO, LONGEST_BACKOFF),
            (Duration::MAX, Duration::MAX, LONGEST_BACKOFF),
            (
                Duration::from_secs(1),
                Duration::MAX,
                Duration::from_secs(1),
            ),
        ] {
            let config = FullMesh::new().backoff(min, max);
            let mut mesh = mesh(&["10.0.0.1:1"]);
            let (min, max) = (config.min_backoff, config.max_backoff);
            assert_eq!(mesh.links[0].back_off(now, min, max), now + first);
            for _ in 0..100 {
                assert!(mesh.links[0].back_off(now, min, max) <= now + LONGEST_BACKOFF);
            }
        }
    }

    #[test]
    fn a_path_that_was_refused_before_confirmation_is_asked_for_again_at_once() {
        let mut mesh = mesh(&["10.0.0.1:1"]);
        let now = Instant::now();
        let refused = PathEvent::Abandoned {
            id: PathId(1),
            error_code: PathErrorCode::APPLICATION_ABANDON_PATH,
            by_peer: true,
        };
        mesh.links[0].id = Some(PathId(1));
        mesh.links[0].early = true;
        mesh.on_event(&refused, now);
        assert_eq!(mesh.links[0].next_try, Some(now));
        mesh.links[0].id = Some(PathId(1));
        mesh.on_event(&refused, now);
        assert_eq!(mesh.links[0].next_try, None, "the second time it is meant");
        // A path that was open is another matter.
        mesh.links[0].id = Some(PathId(1));
        mesh.links[0].early = true;
        mesh.on_event(&PathEvent::Opened { id: PathId(1) }, now);
        mesh.on_event(&refused, now);
        assert_eq!(mesh.links[0].next_try, None);
    }
}
