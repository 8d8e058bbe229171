//! A long cable between two TUN devices: every packet comes out a constant time after it went in. It has no rate and no queue of its
//! own, and nothing of the simulator.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tun_rs::SyncDevice;

/// Larger than any packet of a device.
const BUFFER: usize = 65_536;

/// A packet, and when it comes out.
type Parcel = (Instant, Vec<u8>);

/// The threads of both directions. They end when the devices are removed; dropping it waits for that.
#[derive(Debug)]
pub(crate) struct Wire {
    threads: Vec<JoinHandle<()>>,
}

impl Wire {
    /// Joins two devices: what `a` sends reaches `b` after `a_to_b`, and the other way round.
    pub(crate) fn new(
        a: SyncDevice,
        b: SyncDevice,
        a_to_b: Duration,
        b_to_a: Duration,
    ) -> io::Result<Self> {
        let (a, b) = (Arc::new(a), Arc::new(b));
        let mut threads = Vec::new();
        for (from, to, delay) in [(&a, &b, a_to_b), (&b, &a, b_to_a)] {
            let (put, take) = channel();
            let (from, to) = (Arc::clone(from), Arc::clone(to));
            let spawn = |name: &str| thread::Builder::new().name(name.into());
            threads.push(spawn("wire-in").spawn(move || enter(&from, delay, &put))?);
            threads.push(spawn("wire-out").spawn(move || leave(&to, &take))?);
        }
        Ok(Self { threads })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            // A thread that panicked has no result, and a drop must not panic.
            let _ = thread.join();
        }
    }
}

fn enter(from: &SyncDevice, delay: Duration, put: &Sender<Parcel>) {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.recv(&mut buffer) {
            Ok(size) => {
                let parcel = (Instant::now() + delay, buffer[..size].to_vec());
                if put.send(parcel).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn leave(to: &SyncDevice, take: &Receiver<Parcel>) {
    // Linux adds up to 50 us to each sleep unless it is told otherwise.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).ok();
    for (at, packet) in take {
        let now = Instant::now();
        if at > now {
            thread::sleep(at - now);
        }
        // A device that is gone, or a full receiver: a cable does not care.
        let _ = to.send(&packet);
    }
}
