//! Draws a workload that makes sense on a network.

use mpquic_sim::workload::{File, Workload};

use crate::file::network::PathSpec;
use crate::networks::sampling::Draws;

/// The kinds of workloads, in turn. Files come twice: they have the widest range.
const KINDS: [&str; 6] = ["file", "page", "video", "file", "messages", "requests"];
/// 64 kB to 20 MB, about evenly over their logarithms.
const FILES: [&str; 9] = [
    "64kB", "128kB", "256kB", "512kB", "1MB", "2MB", "5MB", "10MB", "20MB",
];
const PAGES: [&str; 8] = [
    "google",
    "twitter",
    "facebook",
    "youtube",
    "renren",
    "dropbox",
    "alipay",
    "aws.amazon",
];
/// The rates of videos in Mbit/s.
const VIDEOS: [f64; 5] = [0.5, 1.0, 2.5, 5.0, 10.0];
/// The rates of messages in Mbit/s.
const MESSAGES: [f64; 4] = [0.5, 1.0, 2.0, 5.0];
/// The deadlines of messages in milliseconds.
const DEADLINES: [u64; 9] = [20, 33, 50, 75, 100, 150, 250, 400, 800];
/// The sizes of answers.
const ANSWERS: [&str; 3] = ["16kB", "64kB", "256kB"];

/// The workload of a network: its kind by turn, the rest by chance, limited by what the paths can
/// carry.
pub(super) fn draw(turn: usize, paths: &[PathSpec], draws: &mut Draws) -> Workload {
    of_kind(KINDS[turn % KINDS.len()], paths, draws)
}

/// One of this kind; a file if there is no such kind.
pub(super) fn of_kind(kind: &str, paths: &[PathSpec], draws: &mut Draws) -> Workload {
    let rate = paths
        .iter()
        .map(|path| path.down.rate.unwrap_or(0) as f64 / 1e6)
        .sum::<f64>();
    let pick = draws.unit();
    let form = match kind {
        "page" => format!("page:{}:two_wave", choose(&PAGES, pick)),
        "video" => {
            let rates = up_to(&VIDEOS, 0.6 * rate);
            format!("video:20:{}Mbit/s", choose(rates, pick))
        }
        "messages" => {
            let rates = up_to(&MESSAGES, 0.4 * rate);
            let deadline = deadline(paths, draws);
            format!(
                "messages:{}Mbit/s:10s:per_message:deadline={deadline}ms",
                choose(rates, pick)
            )
        }
        "requests" => {
            let parallel = ["", ":parallel=4"][draws.below(2)];
            format!("requests:30:{}:20ms{parallel}", choose(&ANSWERS, pick))
        }
        _ => return file(pick, rate),
    };
    // The forms are fixed above and tested.
    form.parse().unwrap_or_else(|_| file(pick, rate))
}

/// A file that takes less than a minute at the rates of all paths together, the smallest in any case.
fn file(pick: f64, rate: f64) -> Workload {
    let mut sizes: Vec<_> = FILES.iter().filter_map(|size| size_of(size)).collect();
    let fitting = sizes
        .iter()
        .take_while(|size| **size as f64 * 8.0 < rate * 60e6);
    let count = fitting.count().max(1);
    sizes.truncate(count);
    Workload::File(File::new(*choose(&sizes, pick)))
}

fn size_of(text: &str) -> Option<u64> {
    mpquic_sim::units::size::parse(text).ok()
}

/// One of these, evenly.
fn choose<T>(all: &[T], pick: f64) -> &T {
    &all[((pick * all.len() as f64) as usize).min(all.len() - 1)]
}

/// The rates up to a limit, the smallest in any case.
fn up_to(rates: &[f64], most: f64) -> &[f64] {
    let count = rates.iter().take_while(|rate| **rate <= most).count();
    &rates[..count.max(1)]
}

/// A deadline that the shortest path meets with some room: 1.3 to 3 times its one-way delay and
/// 15 ms.
fn deadline(paths: &[PathSpec], draws: &mut Draws) -> u64 {
    let delays = paths.iter().map(|path| path.down.delay.as_secs_f64() * 1e3);
    let shortest = delays.fold(f64::INFINITY, f64::min);
    let wanted = shortest * (1.3 + 1.7 * draws.unit()) + 15.0;
    let longest = DEADLINES[DEADLINES.len() - 1];
    *DEADLINES
        .iter()
        .find(|deadline| **deadline as f64 >= wanted)
        .unwrap_or(&longest)
}
