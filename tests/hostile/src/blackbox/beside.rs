//! How long an honest client's handshakes take beside an attacker: quiet and attacked by turns, over one server, so that what the machine
//! does meanwhile is in both.

use std::time::Duration;

use super::attacker::Attacker;
use super::attacks::Attack;
use super::honest::{Honest, Measured};
use super::server::{Error, ServerProcess};

/// The handshakes of all turns of a kind.
#[derive(Debug)]
pub struct Beside {
    /// Without an attack.
    pub quiet: Measured,
    /// Beside it.
    pub attacked: Measured,
    /// Bytes that the server holds after the first turn and after the last one.
    pub held: [i64; 2],
}

impl Beside {
    /// By how much longer the 99th of a hundred handshakes takes beside the attack.
    pub fn ratio(&self) -> f64 {
        self.attacked.quantile(0.99) / self.quiet.quantile(0.99)
    }
}

fn add(sum: &mut Measured, turn: Measured) {
    sum.handshakes.extend(turn.handshakes);
    sum.failed_handshakes += turn.failed_handshakes;
    sum.requests += turn.requests;
    sum.failed_requests += turn.failed_requests;
    sum.time += turn.time;
}

/// Measures so many turns of each kind.
///
/// # Errors
///
/// If the server or the attacker cannot work.
pub async fn measure(
    (_, _, attack): Attack,
    rate: f64,
    rounds: u32,
    turn: Duration,
    allocator: Option<&str>,
) -> Result<Beside, Error> {
    // What an attack leaves is gone before the next turn that is quiet.
    let idle = 2;
    let mut server = ServerProcess::start(idle, allocator)?;
    let mut honest = Honest::start(server.address)?;
    // The first requests find caches cold.
    tokio::time::sleep(Duration::from_secs(1)).await;
    honest.take();
    let (mut quiet, mut attacked) = (Measured::default(), Measured::default());
    let mut held = [0; 2];
    for round in 0..rounds {
        tokio::time::sleep(turn).await;
        add(&mut quiet, honest.take());
        if round == 0 {
            held[0] = server.held()?.bytes;
        }
        let address = server.address;
        let attacking = tokio::task::spawn_blocking(move || {
            attack(&mut Attacker::new(address, rate, turn)).map_err(Error::from)
        });
        attacking.await??;
        add(&mut attacked, honest.take());
        held[1] = server.held()?.bytes;
        // Handshakes of the attacker have ten seconds.
        tokio::time::sleep(Duration::from_secs(11)).await;
        honest.take();
    }
    Ok(Beside {
        quiet,
        attacked,
        held,
    })
}
