//! The links of a network in real time: reads packets from devices, and writes them to others when the model says.

use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mpquic_sim::{Exit, Fate, Link, flip_bit};
use mpquic_sim::{LinkConfig, LinkConfigError, LinkStats};
use tun_rs::SyncDevice;

/// Larger than any packet of a device.
const BUFFER: usize = 65_536;
/// The lateness of packets is counted in steps of this many microseconds, up to a tenth of a second.
const STEP: usize = 10;
const STEPS: usize = 10_000;

/// A packet of a path, and how many of the path's links it has passed.
#[derive(Debug, Clone)]
struct Parcel {
    path: usize,
    passed: usize,
    bytes: Vec<u8>,
}

/// How many packets left the relay how long after the model's time.
#[derive(Debug, Clone)]
pub(super) struct Lateness {
    counts: Vec<u64>,
    most: Duration,
}

impl Lateness {
    fn new() -> Self {
        Self {
            counts: vec![0; STEPS + 1],
            most: Duration::ZERO,
        }
    }

    fn add(&mut self, late: Duration) {
        let step = late.as_micros() as usize / STEP;
        self.counts[step.min(STEPS)] += 1;
        self.most = self.most.max(late);
    }

    /// Both together.
    pub(super) fn with(mut self, other: &Self) -> Self {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.most = self.most.max(other.most);
        self
    }

    /// At most this share of the packets was later. `None` without packets.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let total: u64 = self.counts.iter().sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        let step = self.counts.iter().position(|count| {
            seen += count;
            total > 0 && seen >= wanted
        })?;
        Some(Duration::from_micros(((step + 1) * STEP) as u64).min(self.most))
    }

    /// The latest packet.
    pub(super) const fn most(&self) -> Duration {
        self.most
    }
}

struct State {
    links: Vec<Link<Parcel>>,
    late: Lateness,
    /// Packets that a device refused.
    refused: u64,
    stopping: bool,
}

/// One direction of all paths.
pub(super) struct Direction {
    origin: Instant,
    /// By path: the numbers of its links, in the order in which packets pass them. A later link has the larger number.
    routes: Vec<Vec<usize>>,
    state: Mutex<State>,
    /// Notified when the next event of a link may have changed, or at the end.
    changed: Condvar,
}

impl Direction {
    /// `routes` as in the field: numbers of `links`, ascending.
    pub(super) fn new(
        origin: Instant,
        links: Vec<LinkConfig>,
        routes: Vec<Vec<usize>>,
        seed: u64,
    ) -> Result<Arc<Self>, LinkConfigError> {
        let links = (0..).zip(links).map(|(number, mut link)| {
            // Devices hand over IP packets, which have their headers.
            link.overhead = 0;
            Link::new(link, mpquic_sim::content::word(seed, number))
        });
        Ok(Arc::new(Self {
            origin,
            routes,
            state: Mutex::new(State {
                links: links.collect::<Result<_, _>>()?,
                late: Lateness::new(),
                refused: 0,
                stopping: false,
            }),
            changed: Condvar::new(),
        }))
    }

    /// Starts the threads that take packets from `from` and hand them to `to`, device by path. They end when the devices are
    /// gone or with the process.
    pub(super) fn start(
        self: &Arc<Self>,
        from: &[Arc<SyncDevice>],
        to: &[Arc<SyncDevice>],
    ) -> io::Result<()> {
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        for (path, device) in from.iter().enumerate() {
            let (this, device) = (Arc::clone(self), Arc::clone(device));
            spawn("shell-read").spawn(move || this.read(path, &device))?;
        }
        let (this, to) = (Arc::clone(self), to.to_vec());
        spawn("shell-write").spawn(move || this.write(&to))?;
        Ok(())
    }

    /// Ends the thread that writes.
    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// The counters of the links, how late packets left, and how many a device refused.
    pub(super) fn figures(&self) -> (Vec<LinkStats>, Lateness, u64) {
        let state = self.lock();
        let links = state.links.iter().map(|link| *link.stats()).collect();
        (links, state.late.clone(), state.refused)
    }

    /// No code here leaves the state half changed, so it is valid even after a panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        clock().duration_since(self.origin)
    }

    fn read(&self, path: usize, device: &SyncDevice) {
        let mut buffer = vec![0; BUFFER];
        loop {
            match device.recv(&mut buffer) {
                Ok(size) => {
                    // The clock is read before the lock: that is the time of arrival.
                    let now = self.now();
                    let parcel = Parcel {
                        path,
                        passed: 0,
                        bytes: buffer[..size].to_vec(),
                    };
                    let mut state = self.lock();
                    let link = &mut state.links[self.routes[path][0]];
                    let before = link.next_event();
                    // The link counts what it drops.
                    let _ = link.enqueue(now, size, parcel);
                    if link.next_event() != before {
                        self.changed.notify_one();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn write(&self, devices: &[Arc<SyncDevice>]) {
        // Linux adds up to 50 us to each wait unless it is told otherwise.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).ok();
        let mut due = Vec::new();
        let mut state = self.lock();
        while !state.stopping {
            let now = self.now();
            self.take_due(&mut state, now, &mut due);
            if !due.is_empty() {
                // Without the lock: reading goes on meanwhile.
                drop(state);
                let (mut refused, mut late) = (0, Vec::with_capacity(due.len()));
                for exit in due.drain(..) {
                    let at = exit.at;
                    let Some(parcel) = arrived(exit) else {
                        continue;
                    };
                    late.push(self.now().saturating_sub(at));
                    refused += u64::from(devices[parcel.path].send(&parcel.bytes).is_err());
                }
                state = self.lock();
                state.refused += refused;
                for late in late {
                    state.late.add(late);
                }
                continue;
            }
            let next = state.links.iter().filter_map(Link::next_event).min();
            let wait = next.map_or(Duration::MAX, |at| at.saturating_sub(now));
            state = self
                .changed
                .wait_timeout(state, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// What has left the last link of its path by now. What has left another one goes on to the next.
    fn take_due(&self, state: &mut State, now: Duration, due: &mut Vec<Exit<Parcel>>) {
        for number in 0..state.links.len() {
            while let Some(mut exit) = state.links[number].poll(now) {
                exit.payload.passed += 1;
                let parcel = &exit.payload;
                let Some(&next) = self.routes[parcel.path].get(parcel.passed) else {
                    due.push(exit);
                    continue;
                };
                let at = exit.at;
                if let Some(parcel) = arrived(exit) {
                    let size = parcel.bytes.len();
                    let _ = state.links[next].enqueue(at, size, parcel);
                }
            }
        }
    }
}

/// The packet, unless it was lost.
fn arrived(exit: Exit<Parcel>) -> Option<Parcel> {
    let mut parcel = exit.payload;
    if let Fate::Corrupted { bit } = exit.fate {
        flip_bit(&mut parcel.bytes, bit);
    }
    exit.fate.arrives().then_some(parcel)
}

#[allow(
    clippy::disallowed_methods,
    reason = "what runs behind these links lives in real time"
)]
pub(super) fn clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_has_quantiles_to_a_step() {
        let mut late = Lateness::new();
        assert_eq!(late.quantile(0.99), None);
        for us in 1..=1000 {
            late.add(Duration::from_micros(us));
        }
        assert_eq!(late.quantile(0.5), Some(Duration::from_micros(510)));
        assert_eq!(late.quantile(1.0), Some(Duration::from_millis(1)));
        late.add(Duration::from_secs(9));
        assert_eq!(late.most(), Duration::from_secs(9));
        let twice = late.clone().with(&late);
        assert_eq!(twice.quantile(0.5), late.quantile(0.5));
    }

    #[test]
    fn a_packet_passes_its_own_link_and_then_the_shared_one() {
        let ms = Duration::from_millis;
        // 1000 bytes take 1 ms on each path's own link, and 2 ms on the one that both share.
        let own = LinkConfig::new(8_000_000, ms(10));
        let shared = LinkConfig::new(4_000_000, ms(5));
        let links = vec![own.clone(), own, shared];
        let direction = Direction::new(clock(), links, vec![vec![0, 2], vec![1, 2]], 1).unwrap();
        let mut state = direction.lock();
        for path in 0..2 {
            let parcel = Parcel {
                path,
                passed: 0,
                bytes: vec![0; 1000],
            };
            state.links[path].enqueue(ms(0), 1000, parcel).unwrap();
        }
        let mut due = Vec::new();
        for at in 0..=20 {
            direction.take_due(&mut state, ms(at), &mut due);
        }
        let out: Vec<_> = due
            .iter()
            .map(|exit| (exit.payload.path, exit.at))
            .collect();
        assert_eq!(out, [(0, ms(18)), (1, ms(20))]);
    }
}
