//! The calls that the benches time, made a fixed number of times: for `instructions.sh`, which counts instructions.

use std::hint::black_box;

use crate::learning::{LEARNING, ROUND, Rounds};
use crate::names::SCHEDULERS;
use crate::schedulers::{Asked, HEEDFUL, Told};

const CALLS: u64 = 1024;

/// Callgrind counts inside this function only, and writes down a part each time it is left.
#[inline(never)]
fn counted(calls: u64, call: &mut dyn FnMut()) {
    for _ in 0..calls {
        call();
    }
}

/// Makes the calls of one bench, and prints its name and how many calls of the scheduler or packets that was.
fn bench(name: &str, calls: u64, mut call: impl FnMut()) {
    // What only the first calls do is not counted.
    for _ in 0..calls {
        call();
    }
    counted(calls, &mut call);
    println!("{name} {CALLS}");
}

pub(crate) fn run() {
    for &name in SCHEDULERS {
        for count in [2, 8] {
            let mut asked = Asked::new(name, count);
            let id = format!("scheduler/{name}/{count}paths");
            if HEEDFUL.contains(&name) {
                bench(&id, CALLS, || {
                    let _ = black_box(asked.decide_and_send());
                });
            } else {
                bench(&id, CALLS, || {
                    let _ = black_box(asked.decide());
                });
            }
        }
        let mut told = Told::new(name);
        bench(&format!("scheduler/{name}/acked"), CALLS, || told.acked());
    }
    for name in LEARNING {
        let mut rounds = Rounds::new(name, 1);
        let id = format!("scheduler/{name}/rounds");
        bench(&id, CALLS / ROUND, || {
            rounds.decide();
            rounds.feed();
        });
        rounds.check();
        let mut rounds = Rounds::new(name, 1);
        for _ in 0..4 {
            rounds.decide_and_send();
            rounds.acknowledge();
        }
        rounds.decide_and_send();
        counted(1, &mut || rounds.acknowledge());
        println!("scheduler/{name}/acked_and_settled {ROUND}");
    }
}
