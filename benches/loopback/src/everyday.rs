//! What mpquic costs where people are: everyday rates, small requests, handshakes, with and without offload, beside others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::links::Machine;
use crate::measure::median;
use crate::process::Process;
use crate::rows::{Row, Stack, Work, all};
use crate::stack::Result;

/// The largest datagram of all, but for rows of defaults: what quinn looks for by itself.
const MTU: u16 = 1452;

#[derive(Debug, Args)]
pub(crate) struct Everyday {
    /// Rounds; in each, every row runs once with each stack, in the opposite order of the round before
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only rows whose names contain one of these texts, also of those that are else left out
    #[arg(long, value_delimiter = ';')]
    only: Vec<String>,
    /// Only these stacks, by their names
    #[arg(long, value_delimiter = ';')]
    stacks: Vec<String>,
    /// Print the names of all rows, with a star before those that are measured if none are named
    #[arg(long)]
    list: bool,
    /// Print a JSON object for each row and stack in place of the table
    #[arg(long)]
    json: bool,
    /// Core of the server and core of the client
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    cores: Vec<usize>,
    /// The program with the lab's shell, for rows with delay [default: mpquic-lab beside this program]
    #[arg(long)]
    lab: Option<PathBuf>,
}

/// The figures of one run, by name: per unit, but for rates and times. What nobody could count is not there.
type Figures = BTreeMap<&'static str, f64>;

pub(crate) fn run(plan: &Everyday) -> Result<()> {
    let mut rows = all();
    if plan.list {
        for row in rows {
            println!("{} {}", if row.chosen { '*' } else { ' ' }, row.name);
        }
        return Ok(());
    }
    rows.retain(|row| match &*plan.only {
        [] => row.chosen,
        only => only.iter().any(|text| row.name.contains(&**text)),
    });
    for row in &mut rows {
        let wanted = |stack: &Stack| plan.stacks.iter().any(|name| name == stack.name);
        row.stacks
            .retain(|stack| plan.stacks.is_empty() || wanted(stack));
    }
    let machine = Machine::look(plan.lab.clone());
    let mut left_out = BTreeMap::new();
    rows.retain(|row| match machine.lacks(&row.network) {
        None => true,
        Some(why) => {
            left_out.insert(why, left_out.get(why).copied().unwrap_or(0) + 1);
            false
        }
    });
    for (why, count) in &left_out {
        eprintln!("{count} rows are left out: {why}");
    }
    let total: usize = rows.iter().map(|row| row.stacks.len()).sum::<usize>() * plan.rounds;
    let (mut done, mut runs) = (0, BTreeMap::<(usize, usize), Vec<Figures>>::new());
    let begin = Instant::now();
    for round in 0..plan.rounds {
        for (number, row) in rows.iter().enumerate() {
            let mut order: Vec<usize> = (0..row.stacks.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for index in order {
                let stack = &row.stacks[index];
                // Counting takes time: in the last of several rounds only.
                let counts = round + 1 == plan.rounds;
                let figures = measure(plan, &machine, row, stack, counts);
                done += 1;
                let left = begin.elapsed().as_secs_f64() / done as f64 * (total - done) as f64;
                let said = match &figures {
                    Ok(figures) => rate(row, figures),
                    Err(error) => error.to_string(),
                };
                let name = &row.name;
                eprintln!(
                    "[{done}/{total}, {left:.0} s left] {name}: {}: {said}",
                    stack.name
                );
                if let Ok(figures) = figures {
                    runs.entry((number, index)).or_default().push(figures);
                }
            }
        }
    }
    report(plan, &rows, &runs);
    Ok(())
}

fn arguments(role: &str, stack: &Stack, core: usize, certificate: &Path) -> Vec<String> {
    let kind = stack.kind.to_possible_value();
    let kind = kind.map_or_else(String::new, |value| value.get_name().to_owned());
    let certificate = certificate.display().to_string();
    let mut arguments: Vec<String> = vec![
        role.into(),
        "--stack".into(),
        kind,
        "--cores".into(),
        core.to_string(),
    ];
    arguments.extend(["--certificate".into(), certificate]);
    if let Some(variant) = stack.variant.to_possible_value() {
        arguments.extend(["--variant".into(), variant.get_name().to_owned()]);
    }
    if !stack.defaults {
        arguments.extend(["--mtu".into(), MTU.to_string()]);
    }
    arguments
}

fn measure(
    plan: &Everyday,
    machine: &Machine,
    row: &Row,
    stack: &Stack,
    counts: bool,
) -> Result<Figures> {
    let certificate =
        std::env::temp_dir().join(format!("mpquic-loopback-{}.der", std::process::id()));
    let links = machine.set_up(&row.network)?;
    let core = |index: usize| plan.cores.get(index).copied().unwrap_or(0);
    let mut server = arguments("server", stack, core(0), &certificate);
    let mut client = arguments("client", stack, core(1), &certificate);
    if !row.offload {
        links.without_offload()?;
        server.push("--one-by-one".into());
        client.push("--one-by-one".into());
    }
    let mut server = Process::start(&links.server_front(), &server)?;
    let told = server.hear()?;
    let (front, addresses) = links.client(told["address"].as_str().unwrap_or_default())?;
    client.extend(addresses);
    let mut add = |name: &str, value: String| client.extend([name.to_owned(), value]);
    add("--amount", row.amount().to_string());
    add("--seconds", row.seconds().to_string());
    let work = match row.work {
        Work::Down => "bulk",
        Work::Up => "up",
        Work::Requests(size) => {
            add("--size", size.to_string());
            "requests"
        }
        Work::Paced { size, rate, .. } => {
            add("--size", size.to_string());
            add("--rate", rate.to_string());
            "paced"
        }
        Work::Handshakes { .. } => "handshakes",
    };
    add("--work", work.into());
    if row.work == (Work::Handshakes { resume: true }) {
        client.push("--resume".into());
    }
    let mut client = Process::start(&front, &client)?;
    client.hear()?;
    server.tell()?;
    let before_sent = server.hear()?;
    let calls = match counts {
        true => (server.count_calls().ok(), client.count_calls().ok()),
        false => (None, None),
    };
    let before = [sample(&server)?, sample(&client)?];
    client.tell()?;
    let answer = client.hear()?;
    let after = [sample(&server)?, sample(&client)?];
    let calls = [calls.0, calls.1].map(|calls| calls?.end().ok());
    server.tell()?;
    let after_sent = server.hear()?;

    let result = &answer["results"][0];
    let seconds = answer["seconds"].as_f64().ok_or("no seconds")?;
    let (units, _) = row.units(result["count"].as_f64().unwrap_or(f64::NAN));
    let mut figures = Figures::from([("rate", units / seconds)]);
    let mut note = |name, value: Option<f64>| {
        figures.extend(
            value
                .filter(|value| value.is_finite())
                .map(|value| (name, value)),
        );
    };
    for (side, names) in SIDES.iter().enumerate() {
        let [cpu, user, system, wakeups] =
            [0, 1, 2, 3].map(|index| after[side][index] - before[side][index]);
        note(names[0], Some(cpu * 1e6 / units));
        // The system splits in ticks of 10 ms what it counts in nanoseconds.
        // A short run may be between two ticks.
        let ticks = user + system;
        let in_user = (ticks > 0.0).then(|| cpu * 1e6 * user / ticks / units);
        note(names[1], in_user);
        note(names[2], Some(wakeups / units));
        note(names[3], calls[side].map(|calls| calls / units));
    }
    let sent = |told: &Value| told["sent_datagrams"].as_f64();
    note(
        "datagrams_server",
        sent(&after_sent)
            .zip(sent(&before_sent))
            .map(|(a, b)| (a - b) / units),
    );
    note(
        "datagrams_client",
        result["datagrams"].as_f64().map(|sent| sent / units),
    );
    note("p50_us", result["p50_us"].as_f64());
    note("p99_us", result["p99_us"].as_f64());
    note("left_out", result["left_out"].as_f64());
    Ok(figures)
}

/// The names of a side's figures: CPU and that in user space, microseconds; wake-ups; system calls.
const SIDES: [[&str; 4]; 2] = [
    [
        "cpu_server",
        "user_server",
        "wakeups_server",
        "calls_server",
    ],
    [
        "cpu_client",
        "user_client",
        "wakeups_client",
        "calls_client",
    ],
];

/// CPU seconds of a process, those in user space and in the system, and how often it was woken.
fn sample(process: &Process) -> Result<[f64; 4]> {
    let [user, system] = process.split()?;
    Ok([process.cpu()?, user, system, process.wakeups()?])
}

/// The medians of the rounds.
fn medians(runs: &[Figures]) -> Figures {
    let names: Vec<_> = runs.iter().flat_map(|run| run.keys().copied()).collect();
    let all = |name| {
        runs.iter()
            .filter_map(|run| run.get(name).copied())
            .collect()
    };
    names
        .into_iter()
        .map(|name| (name, median(all(name))))
        .collect()
}

const HEAD: &str = "\
| what | stack | rate | CPU server, client (of it in user space) | wake-ups | system calls | datagrams | p50, p99 |
|---|---|---|---|---|---|---|---|";

fn report(plan: &Everyday, rows: &[Row], runs: &BTreeMap<(usize, usize), Vec<Figures>>) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    if !plan.json {
        println!(
            "{} rounds, medians; x: of quinn's, or of noq's where quinn is not there. Load {}\n",
            plan.rounds,
            load.trim()
        );
        println!("{HEAD}");
    }
    for (number, row) in rows.iter().enumerate() {
        let of = |index: usize| runs.get(&(number, index)).map(|runs| medians(runs));
        let base = |name: &str| {
            row.stacks
                .iter()
                .position(|stack| stack.name == name)
                .and_then(of)
        };
        let base = base("quinn").or_else(|| base("noq"));
        for (index, stack) in row.stacks.iter().enumerate() {
            let Some(figures) = of(index) else {
                if !plan.json {
                    println!("| {} | {} | no figures | | | | | |", row.name, stack.name);
                }
                continue;
            };
            if plan.json {
                println!(
                    "{}",
                    json!({ "row": row.name, "stack": stack.name, "figures": figures })
                );
            } else {
                println!(
                    "| {} | {} | {} |",
                    row.name,
                    stack.name,
                    cells(row, &figures, base.as_ref())
                );
            }
        }
    }
}

/// What was done in a second.
fn rate(row: &Row, figures: &Figures) -> String {
    let rate = figures.get("rate").copied().unwrap_or(f64::NAN);
    match row.units(f64::NAN).1 {
        "MB" => format!("{:.1} Mbit/s", rate * 8.0),
        _ => format!("{rate:.0} per s"),
    }
}

/// The cells of a row's figures behind its name.
fn cells(row: &Row, figures: &Figures, base: Option<&Figures>) -> String {
    let unit = row.units(f64::NAN).1;
    let get = |name: &str| figures.get(name).copied();
    let ratio = |name: &str| Some(get(name)? / base?.get(name)?);
    // With what it is of the base's.
    let beside = |text: String, name: &str| match ratio(name) {
        Some(ratio) => format!("{text} (x {ratio:.2})"),
        None => text,
    };
    let cpu = |names: &[&str; 4]| {
        let [all, user] = [0, 1].map(|index| get(names[index]));
        let [all, user] = [all, user]
            .map(|figure| figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.0}")));
        beside(format!("{all} ({user})"), names[0])
    };
    let both = |name: &str| {
        let sides = ["server", "client"].map(|side| get(&format!("{name}_{side}")));
        let text = sides.map(|side| side.map_or_else(|| "–".into(), |value| format!("{value:.2}")));
        text.join(", ")
    };
    let time = |name: &str| get(name).map(|us| beside(format!("{us:.0} us"), name));
    let times: Vec<_> = ["p50_us", "p99_us"].into_iter().filter_map(time).collect();
    let left_out = get("left_out").filter(|count| *count > 0.0);
    let left_out = left_out.map_or(String::new(), |count| {
        format!("; {count:.0} requests were too many")
    });
    [
        beside(rate(row, figures), "rate") + &left_out,
        format!("{}, {} us per {unit}", cpu(&SIDES[0]), cpu(&SIDES[1])),
        both("wakeups"),
        both("calls"),
        both("datagrams"),
        times.join(", "),
    ]
    .join(" | ")
}
