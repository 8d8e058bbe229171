//! Runs the two processes of a measurement, reads what the system says of them, and compares rounds.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::Kind;
use crate::process::{Loops, Process, list};
use crate::stack::Result;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Rounds; in each, every variant runs once, in the opposite order of the round before
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Bytes, requests, handshakes or connections; the default depends on what is measured
    #[arg(long)]
    amount: Option<u64>,
    /// Seconds of a run, where it is not the amount that ends it
    #[arg(long)]
    seconds: Option<u64>,
    /// Core of the server and core of the client
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    cores: Vec<usize>,
    /// The largest datagram of all variants, bytes, where it is not the default of each
    #[arg(long)]
    mtu: Option<u16>,
    /// Without segmentation offload, as on many hosts and interfaces
    #[arg(long)]
    one_by_one: bool,
    /// Only these of the variants, by their names, such as `mpquic,mpquic 2 paths,quinn`; ratios are to the last one
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Keep the cores awake with loops of idle priority, where waking one takes longer than what is measured, and unevenly so
    #[arg(long)]
    awake: bool,
}

/// What is compared.
#[derive(Debug, Clone)]
struct Variant {
    name: &'static str,
    stack: Kind,
    chunks: bool,
    paths: u8,
    server_cores: Vec<usize>,
    client_cores: Vec<usize>,
    mtu: Option<u16>,
    one_by_one: bool,
}

impl Variant {
    fn new(name: &'static str, plan: &Plan) -> Self {
        let core = |index: usize| vec![plan.cores.get(index).copied().unwrap_or(0)];
        Self {
            name,
            stack: match name.split(' ').next() {
                Some("quinn") => Kind::Quinn,
                Some("floor") => Kind::Floor,
                Some("tcp") => Kind::Tcp,
                _ => Kind::Mpquic,
            },
            chunks: name.contains("chunks"),
            paths: if name.contains("2 paths") { 2 } else { 1 },
            server_cores: core(0),
            client_cores: core(1),
            mtu: plan.mtu,
            one_by_one: plan.one_by_one,
        }
    }
}

/// What one run gave.
struct Run {
    /// Of the client, from begin to end.
    seconds: f64,
    results: Vec<Value>,
    /// CPU seconds of server and client meanwhile.
    cpu: [f64; 2],
    /// Of both together, in user space.
    user: f64,
    /// Resident bytes of server and client: before there was a connection, and when all were there.
    memory: [[f64; 2]; 2],
    /// What the server counted.
    server: Value,
}

impl Run {
    fn cpu_sum(&self) -> f64 {
        self.cpu[0] + self.cpu[1]
    }

    fn number(&self, key: &str) -> f64 {
        self.results[0][key].as_f64().unwrap_or(f64::NAN)
    }

    fn counts(&self) -> Vec<f64> {
        self.results.iter().filter_map(Value::as_f64).collect()
    }
}

/// So many addresses of this host.
fn loopback(count: u8) -> String {
    let all: Vec<_> = (1..=count).map(|last| format!("127.0.0.{last}")).collect();
    all.join(",")
}

fn run(variant: &Variant, work: &str, amount: u64, seconds: u64) -> Result<Run> {
    let certificate: PathBuf =
        std::env::temp_dir().join(format!("mpquic-loopback-{}.der", std::process::id()));
    let arguments = |role: &str, cores: &[usize]| {
        let mut arguments = vec![role.to_owned(), "--cores".into(), list(cores)];
        arguments.extend(["--certificate".into(), certificate.display().to_string()]);
        let stack = variant.stack.to_possible_value();
        let stack = stack.map_or_else(String::new, |value| value.get_name().to_owned());
        arguments.extend(["--stack".into(), stack]);
        if variant.chunks {
            arguments.push("--chunks".into());
        }
        if let Some(mtu) = variant.mtu {
            arguments.extend(["--mtu".into(), mtu.to_string()]);
        }
        if variant.one_by_one {
            arguments.push("--one-by-one".into());
        }
        arguments
    };
    let mut server = arguments("server", &variant.server_cores);
    if work == "storm" {
        server.push("--guarded".into());
    }
    let mut server = Process::start(&[], &server)?;
    let address = server.hear()?["address"].clone();
    let mut client = arguments("client", &variant.client_cores);
    for (name, value) in [
        ("--server", address.as_str().unwrap_or_default().to_owned()),
        ("--bind", loopback(variant.paths)),
        ("--work", work.to_owned()),
        ("--amount", amount.to_string()),
        ("--seconds", seconds.to_string()),
    ] {
        client.extend([name.to_owned(), value]);
    }
    let mut client = Process::start(&[], &client)?;
    let begin = [server.memory()?, client.memory()?];
    client.hear()?;
    let memory = [begin, [server.memory()?, client.memory()?]];
    let before = [server.cpu()?, client.cpu()?];
    let user_before = server.split()?[0] + client.split()?[0];
    client.tell()?;
    let answer = client.hear()?;
    let cpu = [server.cpu()? - before[0], client.cpu()? - before[1]];
    let user = server.split()?[0] + client.split()?[0] - user_before;
    server.tell()?;
    let counted = server.hear()?;
    Ok(Run {
        seconds: answer["seconds"].as_f64().ok_or("no seconds")?,
        results: answer["results"].as_array().ok_or("no results")?.clone(),
        cpu,
        user,
        memory,
        server: counted,
    })
}

/// A column of the table.
struct Figure {
    name: &'static str,
    of: fn(&Run, u64) -> f64,
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.as_slice() {
        [] => f64::NAN,
        all if all.len() % 2 == 1 => all[middle],
        all => f64::midpoint(all[middle - 1], all[middle]),
    }
}

/// Runs all variants in alternating rounds; prints medians, and their ratios to the last variant's.
fn compare(
    plan: &Plan,
    work: &str,
    variants: &[Variant],
    amount: u64,
    seconds: u64,
    figures: &[Figure],
) -> Result<Vec<Vec<Run>>> {
    let chosen =
        |one: &&Variant| plan.only.is_empty() || plan.only.iter().any(|name| name == one.name);
    let variants: Vec<&Variant> = variants.iter().filter(chosen).collect();
    if variants.is_empty() {
        return Err("no variant has such a name".into());
    }
    let _awake = match plan.awake {
        true => Loops::start(&plan.cores, &["chrt", "-i", "0"])?,
        false => Loops(Vec::new()),
    };
    let amount = plan.amount.unwrap_or(amount);
    let seconds = plan.seconds.unwrap_or(seconds);
    let mut runs: Vec<Vec<Run>> = variants.iter().map(|_| Vec::new()).collect();
    for round in 0..plan.rounds {
        let mut order: Vec<usize> = (0..variants.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let one = run(variants[index], work, amount, seconds)?;
            eprintln!(
                "round {}, {}: {:.2} s, CPU {:.2} + {:.2} s, {}",
                round + 1,
                variants[index].name,
                one.seconds,
                one.cpu[0],
                one.cpu[1],
                one.server
            );
            runs[index].push(one);
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "{work}, {} rounds, medians (load {})",
        plan.rounds,
        load.trim()
    );
    let middle = |index: usize, figure: &Figure| {
        median(
            runs[index]
                .iter()
                .map(|one| (figure.of)(one, amount))
                .collect(),
        )
    };
    for figure in figures {
        println!("{}", figure.name);
        let base = middle(variants.len() - 1, figure);
        for (index, variant) in variants.iter().enumerate() {
            let value = middle(index, figure);
            println!("  {:24} {value:12.3} {:8.3}", variant.name, value / base);
        }
    }
    Ok(runs)
}

pub(crate) fn bulk(plan: &Plan) -> Result<()> {
    let names = [
        "mpquic",
        "mpquic chunks",
        "mpquic 2 paths",
        "floor",
        "floor chunks",
        "tcp",
        "quinn chunks",
        "quinn",
    ];
    let variants = names.map(|name| Variant::new(name, plan));
    let figures = [
        Figure {
            name: "goodput, MB/s",
            of: |run, bytes| bytes as f64 / run.seconds / 1e6,
        },
        Figure {
            name: "CPU of both sides, ns per byte",
            of: |run, bytes| run.cpu_sum() * 1e9 / bytes as f64,
        },
        Figure {
            name: "CPU of the sender, ns per byte",
            of: |run, bytes| run.cpu[0] * 1e9 / bytes as f64,
        },
        Figure {
            name: "CPU of the receiver, ns per byte",
            of: |run, bytes| run.cpu[1] * 1e9 / bytes as f64,
        },
    ];
    compare(plan, "bulk", &variants, 1 << 30, 0, &figures).map(drop)
}

pub(crate) fn requests(plan: &Plan) -> Result<()> {
    let variants = ["mpquic", "quinn"].map(|name| Variant::new(name, plan));
    let figures = [
        Figure {
            name: "median, us",
            of: |run, _| run.number("p50_us"),
        },
        Figure {
            name: "99th percentile, us",
            of: |run, _| run.number("p99_us"),
        },
        Figure {
            name: "CPU of both sides, us per request",
            of: |run, count| run.cpu_sum() * 1e6 / count as f64,
        },
        Figure {
            name: "of it in user space, us per request",
            of: |run, count| run.user * 1e6 / count as f64,
        },
    ];
    compare(plan, "requests", &variants, 20_000, 0, &figures).map(drop)
}

pub(crate) fn handshakes(plan: &Plan) -> Result<()> {
    let variants = ["mpquic", "quinn"].map(|name| Variant::new(name, plan));
    let figures = [
        Figure {
            name: "CPU of the server, us per handshake",
            of: |run, count| run.cpu[0] * 1e6 / count as f64,
        },
        Figure {
            name: "CPU of the client, us per handshake",
            of: |run, count| run.cpu[1] * 1e6 / count as f64,
        },
    ];
    compare(plan, "handshakes", &variants, 2_000, 0, &figures).map(drop)
}

pub(crate) fn storm(plan: &Plan) -> Result<()> {
    let variants = ["mpquic", "quinn"].map(|name| Variant::new(name, plan));
    let figures = [
        Figure {
            name: "a handshake before, us",
            of: |run, _| run.number("before_us"),
        },
        Figure {
            name: "the first one after the storm broke, us",
            of: |run, _| run.number("first_us"),
        },
        Figure {
            name: "the same, of one before",
            of: |run, _| run.number("first_us") / run.number("before_us"),
        },
        Figure {
            name: "the median one while it lasts, of one before",
            of: |run, _| run.number("median_us") / run.number("before_us"),
        },
        Figure {
            name: "the slowest one, of one before",
            of: |run, _| run.number("slowest_us") / run.number("before_us"),
        },
    ];
    compare(plan, "storm", &variants, 4_000, 2, &figures).map(drop)
}

/// Of the work of `many`.
const RATES: [Figure; 3] = [
    Figure {
        name: "requests per CPU second of both sides",
        of: |run, _| run.counts().iter().sum::<f64>() / run.cpu_sum(),
    },
    Figure {
        name: "requests per second",
        of: |run, _| run.counts().iter().sum::<f64>() / run.seconds,
    },
    Figure {
        name: "slowest connection, of the median",
        of: |run, _| {
            let counts = run.counts();
            let slowest = counts.iter().copied().fold(f64::INFINITY, f64::min);
            slowest / median(counts)
        },
    },
];

pub(crate) fn many(plan: &Plan) -> Result<()> {
    let variants = ["mpquic", "mpquic 2 paths", "quinn"].map(|name| Variant::new(name, plan));
    compare(plan, "many", &variants, 1_000, 5, &RATES).map(drop)
}

pub(crate) fn idle(plan: &Plan) -> Result<()> {
    let variants = ["mpquic", "quinn"].map(|name| Variant::new(name, plan));
    let figures = [
        Figure {
            name: "CPU of both sides, ms per second",
            of: |run, _| run.cpu_sum() * 1e3 / run.seconds,
        },
        Figure {
            name: "memory of the server, kB per connection",
            of: |run, count| (run.memory[1][0] - run.memory[0][0]) / count as f64 / 1e3,
        },
    ];
    compare(plan, "idle", &variants, 10_000, 10, &figures).map(drop)
}

pub(crate) fn shards(plan: &Plan) -> Result<()> {
    let both = plan.cores.clone();
    let on = |name, cores: &[usize]| Variant {
        server_cores: cores.to_vec(),
        client_cores: cores.to_vec(),
        ..Variant::new(name, plan)
    };
    // A shard of the server and a client on each core: with a second core, there is twice of all.
    let variants = [
        on("mpquic, two cores", &both),
        on("mpquic, one core", &both[..1]),
    ];
    let runs = compare(plan, "many", &variants, 500, 5, &RATES)?;
    let rate = |runs: &[Run], per: fn(&Run) -> f64| {
        median(
            runs.iter()
                .map(|run| run.counts().iter().sum::<f64>() / per(run))
                .collect(),
        )
    };
    let [two, one] = runs.as_slice() else {
        return Err("two variants were measured".into());
    };
    println!(
        "speed-up: {:.2} by the clock; {:.2} by requests per CPU second, if both cores were free",
        rate(two, |run| run.seconds) / rate(one, |run| run.seconds),
        2.0 * rate(two, Run::cpu_sum) / rate(one, Run::cpu_sum)
    );
    Ok(())
}

/// What the server counted.
fn counted(run: &Run, key: &str) -> f64 {
    run.server[key].as_f64().unwrap_or(f64::NAN)
}

pub(crate) fn busy(plan: &Plan) -> Result<()> {
    // Other programs, which the system has share the cores with what is measured.
    let _loops = Loops::start(&plan.cores, &[])?;
    let variants = ["mpquic 2 paths", "mpquic"].map(|name| Variant::new(name, plan));
    let figures = [
        Figure {
            name: "bytes sent again after a loss or a suspicion, percent",
            of: |run, _| 100.0 * counted(run, "retransmitted_bytes") / counted(run, "sent_bytes"),
        },
        Figure {
            name: "packets lost, percent",
            of: |run, _| 100.0 * counted(run, "lost_packets") / counted(run, "sent_packets"),
        },
        Figure {
            name: "bytes of copies that the scheduler asked for, percent",
            of: |run, _| 100.0 * counted(run, "copied_bytes") / counted(run, "sent_bytes"),
        },
        Figure {
            name: "goodput, MB/s",
            of: |run, bytes| bytes as f64 / run.seconds / 1e6,
        },
    ];
    compare(plan, "bulk", &variants, 1 << 30, 0, &figures).map(drop)
}
