//! Makes the place, starts the processes, lets faults come and go, and judges what is left.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::Error;
use crate::control::Order;
use crate::faults::{Dice, Kind};
use crate::holdings::Holdings;
use crate::place::{LINKS, Place, SERVER};
use crate::server::{FAULTY_PORT, SYSTEM_PORT};

/// Faults come for so long, then all is at rest and looked at.
const ROUND: Duration = Duration::from_secs(60);

/// The same, before what is held is looked at for the first time: threads have the buffers then that they keep.
const WARM_UP: Duration = Duration::from_secs(10);

/// How many faults there are at once.
const AT_ONCE: usize = 2;

/// From the end of the last fault until all is at rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The client with the system's sockets.
    System,
    /// The client with sockets that fail when told.
    Faulty,
    Server,
}

const ALL: [Who; 3] = [Who::System, Who::Faulty, Who::Server];

impl Who {
    const fn name(self) -> &'static str {
        match self {
            Self::System => "client, the system's sockets",
            Self::Faulty => "client, faulty sockets",
            Self::Server => "server",
        }
    }
}

/// One that was started.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
}

impl Process {
    pub(crate) fn pid(&self) -> Result<Pid, Error> {
        let pid = i32::try_from(self.child.id())?;
        Ok(Pid::from_raw(pid).ok_or("a process without a number")?)
    }

    pub(crate) fn order(&mut self, order: &Order) -> Result<(), Error> {
        let input = self.input.as_mut().ok_or("the process has ended")?;
        Ok(writeln!(input, "{}", order.to_line())?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended by itself, if not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of all processes.
type Line = (Who, String);

fn start(
    place: &Place,
    who: Who,
    arguments: &[&str],
    lines: &Sender<Line>,
) -> Result<Process, Error> {
    let mut child = place.start(who == Who::Server, arguments)?;
    let output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let (input, lines) = (child.stdin.take(), lines.clone());
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if lines.send((who, line)).is_err() {
                return;
            }
        }
        // Whoever waits hears of it.
        let _ = lines.send((who, "ended".to_owned()));
    });
    Ok(Process { child, input })
}

/// What is there while it runs.
struct Show {
    place: Place,
    processes: Vec<Process>,
    lines: Receiver<Line>,
    verbose: bool,
    active: Vec<(Kind, Instant)>,
    /// What ended lately.
    past: Vec<(Kind, Instant)>,
    seen: Seen,
}

/// What came of it.
#[derive(Debug, Default)]
struct Seen {
    faults: BTreeMap<String, u64>,
    /// The longest pause that began or ended while a fault of this name was there.
    pauses: BTreeMap<String, u64>,
    longest: u64,
    lost: Vec<String>,
    broken: Vec<String>,
    unreached: u64,
    counts: BTreeMap<(usize, String), u64>,
}

/// Runs it all.
pub(crate) fn run(minutes: f64, seed: u64, verbose: bool) -> Result<(), Error> {
    let place = match Place::new() {
        Ok(place) => place,
        Err(error) => {
            println!("left out: no network namespaces with links here: {error}");
            return Ok(());
        }
    };
    let (tell, lines) = channel();
    let server = start(&place, Who::Server, &["server"], &tell)?;
    let (_, certificate) = lines.recv_timeout(PATIENCE)?;
    let [a, b, c, d] = SERVER;
    let client = |who: Who, sockets: &str, port: u16| {
        let server = format!("{a}.{b}.{c}.{d}:{port}");
        start(
            &place,
            who,
            &["client", sockets, &server, &certificate],
            &tell,
        )
    };
    let processes = vec![
        client(Who::System, "system", SYSTEM_PORT)?,
        client(Who::Faulty, "faulty", FAULTY_PORT)?,
        server,
    ];
    for _ in 0..2 {
        lines.recv_timeout(PATIENCE)?;
    }
    let mut show = Show {
        place,
        processes,
        lines,
        verbose,
        active: Vec::new(),
        past: Vec::new(),
        seen: Seen::default(),
    };
    // What a process keeps for good, it has after this.
    show.work()?;
    let mut dice = Dice::new(seed);
    show.faults(WARM_UP, &mut dice)?;
    let before = show.rest()?;
    let mut left = Duration::from_secs_f64(minutes * 60.0);
    let mut after = before;
    while !left.is_zero() {
        let round = left.min(ROUND);
        left -= round;
        show.work()?;
        show.faults(round, &mut dice)?;
        after = show.rest()?;
        if verbose {
            println!("held before {before:?}\nheld after {after:?}");
        }
        judge(&before, &after)?;
    }
    show.tell(minutes, seed, &before, &after);
    show.verdict()?;
    // The end of their input ends them.
    for process in &mut show.processes {
        process.input = None;
    }
    for process in &mut show.processes {
        let status = process.child.wait()?;
        if !status.success() {
            return Err(format!("a process ended with {status}").into());
        }
    }
    Ok(())
}

/// A thread keeps a buffer for each path that it has sent on.
const BUFFERS: i64 = (1 + LINKS as i64) * (64 << 10);

/// What a process may hold beside the tenth. The one client has no thread left, the other one has its first, the server has two more.
const SLACK: [i64; 3] = [16 << 10, BUFFERS, 2 * BUFFERS];

/// Memory is back within a tenth, and nothing else is left.
fn judge(before: &[Holdings; 3], after: &[Holdings; 3]) -> Result<(), Error> {
    for (who, (before, after)) in ALL.into_iter().zip(before.iter().zip(after)) {
        let name = who.name();
        if after.bytes > before.bytes / 10 * 11 + SLACK[who as usize] {
            let (now, then) = (after.bytes, before.bytes);
            return Err(format!("{name}: {now} bytes are held, {then} before").into());
        }
        if after.tasks > before.tasks || after.files > before.files {
            return Err(format!("{name}: left over: {after:?}, before {before:?}").into());
        }
    }
    Ok(())
}

impl Show {
    fn work(&mut self) -> Result<(), Error> {
        for process in &mut self.processes[..2] {
            process.order(&Order::Work)?;
        }
        // They have begun before anything happens.
        self.wait(Duration::from_secs(2))
    }

    /// Takes in what processes say, for so long.
    fn wait(&mut self, time: Duration) -> Result<(), Error> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok((who, line)) => drop(self.heard(who, &line)?),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What it holds, if the process is at rest.
    fn heard(&mut self, who: Who, line: &str) -> Result<Option<Holdings>, Error> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let seen = &mut self.seen;
        match word {
            "rested" => return Ok(Some(rest.parse()?)),
            "paused" => {
                let pause: u64 = rest.parse()?;
                let then = Instant::now() - Duration::from_millis(pause);
                let past = self.past.iter().filter(|(_, ended)| *ended >= then);
                let mut names: Vec<_> = self.active.iter().chain(past).collect();
                names.dedup_by_key(|(kind, _)| *kind);
                let names: Vec<_> = names.iter().map(|(kind, _)| kind.to_string()).collect();
                if self.verbose {
                    println!("  {}: {pause} ms without an answer: {names:?}", who.name());
                }
                for name in names {
                    let longest = seen.pauses.entry(name).or_default();
                    *longest = pause.max(*longest);
                }
                seen.longest = seen.longest.max(pause);
            }
            "lost" => {
                if self.verbose {
                    println!("  {}: {line}", who.name());
                }
                seen.lost.push(format!("{}: {rest}", who.name()));
            }
            "broken" => seen.broken.push(format!("{}: {rest}", who.name())),
            "unreached" => seen.unreached += 1,
            "ended" => return Err(format!("the {} has ended", who.name()).into()),
            _ => {
                let count = rest.parse()?;
                seen.counts.insert((who as usize, word.to_owned()), count);
            }
        }
        Ok(None)
    }

    /// Ends all connections. What each process holds then.
    fn rest(&mut self) -> Result<[Holdings; 3], Error> {
        let mut held = Vec::new();
        for who in ALL {
            if who != Who::Faulty {
                // Both clients first, at the same time, and then the server.
                let ready = if who == Who::Server {
                    &ALL[2..]
                } else {
                    &ALL[..2]
                };
                for who in ready {
                    self.processes[*who as usize].order(&Order::Rest)?;
                }
                let until = Instant::now() + PATIENCE;
                let mut rested: Vec<(usize, Holdings)> = Vec::new();
                while rested.len() < ready.len() {
                    let left = until.saturating_duration_since(Instant::now());
                    let (who, line) = self
                        .lines
                        .recv_timeout(left)
                        .map_err(|_| "not at rest in time: something hangs")?;
                    if let Some(holdings) = self.heard(who, &line)? {
                        rested.push((who as usize, holdings));
                    }
                }
                rested.sort_by_key(|(who, _)| *who);
                held.extend(rested.into_iter().map(|(_, holdings)| holdings));
            }
        }
        Ok([held[0], held[1], held[2]])
    }

    /// Lets faults come for so long, and ends them all.
    fn faults(&mut self, time: Duration, dice: &mut Dice) -> Result<(), Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.end_due()?;
            let kind = Kind::draw(dice);
            let lasts = kind.time(dice);
            let fits = self.active.iter().all(|(other, _)| kind.fits(*other));
            if self.active.len() < AT_ONCE && fits && Instant::now() + lasts < end {
                if self.verbose {
                    println!("{kind:?} for {} ms", lasts.as_millis());
                }
                kind.begin(&mut self.place, &mut self.processes, lasts)?;
                *self.seen.faults.entry(kind.to_string()).or_default() += 1;
                self.active.push((kind, Instant::now() + lasts));
            }
            self.wait(Duration::from_millis(50 + dice.below(600)))?;
        }
        while !self.active.is_empty() {
            self.wait(Duration::from_millis(50))?;
            self.end_due()?;
        }
        Ok(())
    }

    fn end_due(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        let due = |(_, until): &mut (Kind, Instant)| *until <= now;
        let over: Vec<_> = self.active.extract_if(.., due).collect();
        for (kind, _) in over {
            kind.end(&self.place, &self.processes)?;
            self.past.push((kind, now));
        }
        self.past
            .retain(|(_, ended)| now - *ended < Duration::from_secs(30));
        Ok(())
    }

    fn tell(&self, minutes: f64, seed: u64, before: &[Holdings; 3], after: &[Holdings; 3]) {
        let seen = &self.seen;
        println!("{minutes} minutes, seed {seed}");
        println!("\n| fault | times | longest pause beside it, ms |\n|---|---|---|");
        for (name, count) in &seen.faults {
            let pause = seen.pauses.get(name).copied().unwrap_or(0);
            println!("| {name} | {count} | {pause} |");
        }
        println!(
            "\n| process | bytes before, after | resident | files | tasks |\n|---|---|---|---|---|"
        );
        for (who, (then, now)) in ALL.into_iter().zip(before.iter().zip(after)) {
            println!(
                "| {} | {}, {} | {}, {} | {}, {} | {}, {} |",
                who.name(),
                then.bytes,
                now.bytes,
                then.resident,
                now.resident,
                then.files,
                now.files,
                then.tasks,
                now.tasks
            );
        }
        println!();
        for ((who, name), count) in &seen.counts {
            println!("{}: {name} {count}", ALL[*who].name());
        }
        println!("longest pause {} ms", seen.longest);
        println!("connections lost {}", seen.lost.len());
        for lost in seen.lost.iter().chain(&seen.broken) {
            println!("  {lost}");
        }
    }

    /// That every byte is right, and nothing was lost.
    fn verdict(&self) -> Result<(), Error> {
        let wrong = self.seen.counts.iter();
        let wrong: u64 = wrong
            .filter(|((_, name), _)| name == "wrong")
            .map(|(_, count)| count)
            .sum();
        if wrong > 0 {
            return Err(format!("{wrong} bytes are wrong").into());
        }
        if !self.seen.lost.is_empty() || !self.seen.broken.is_empty() {
            return Err("connections or streams were lost".into());
        }
        Ok(())
    }
}
