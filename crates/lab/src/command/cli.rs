//! The command line of the lab: its arguments, its output, its exit status.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use mpquic_proto::{CongestionControl, Escaped};
use mpquic_sched::{Registry, RegistryError};

use crate::Pattern;
use crate::command::adaptation;
use crate::command::arena::{self, command::Arguments as ArenaArguments};
use crate::command::curves::{self, Arguments as CurvesArguments};
use crate::command::figures;
use crate::command::help;
use crate::command::listing;
use crate::command::scaffold;
use crate::command::shell;
use crate::command::trace;
use crate::file::experiment::Experiment;
use crate::file::renamed;
use crate::file::scheduler_set::Schedulers;
use crate::plan::Plan;
use crate::plan::shard::{Shard, Share};
use crate::plan::sweep;
use crate::result::compare::{Comparison, check_claims};
use crate::result::record::{Heading, Record};
use crate::result::store::{Results, Store};
use crate::result::summary::Board;
use crate::run::qlogs;
use crate::run::runner::{self, Options};
use crate::run::time_lost;
use crate::run::timelines;
use crate::view::handshake_path;
use crate::view::markdown;
use crate::view::output;
use crate::view::qlog_view::{self, Arguments as LookArguments};
use crate::view::report;
use crate::view::start_compare;
use crate::view::terminal::Terminal;

#[derive(Debug, Parser)]
#[command(
    name = "mpquic-lab",
    version,
    about = "Runs multipath QUIC schedulers on simulated networks, compares them and reports.",
    after_help = help::LAB
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an experiment file, or one network from the command line.
    #[command(after_help = help::RUN)]
    Run(RunArguments),
    /// Put the shards of an experiment together, as if one machine had run it.
    #[command(after_help = help::MERGE)]
    Merge {
        /// The folders of all shards.
        #[arg(required = true)]
        shards: Vec<PathBuf>,
        /// The folder for the results [default: target/lab/NAME].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// List the experiment files in a folder and its subfolders.
    #[command(after_help = help::LIST)]
    List {
        /// The folder.
        #[arg(default_value = "experiments")]
        folder: PathBuf,
    },
    /// List the known schedulers, congestion controls and metrics.
    #[command(after_help = help::NAMES)]
    Names,
    /// Compare two results, or two schedulers in one result, seed by seed.
    #[command(after_help = help::COMPARE)]
    Compare {
        /// Results (a file or its folder). With RESULTS: the label of a scheduler.
        a: PathBuf,
        /// The results or the label to compare A with.
        b: PathBuf,
        /// The results that have both schedulers.
        results: Option<PathBuf>,
        /// The metric to compare by [default: the experiment's headline].
        #[arg(long)]
        metric: Option<String>,
    },
    /// Print the tables and verdicts of results again.
    #[command(after_help = help::TABLE)]
    Table {
        /// Results (files or their folders).
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// Print Markdown.
        #[arg(long)]
        markdown: bool,
    },
    /// Check whether pages of tables still say what their commands print.
    #[command(after_help = help::CHECK_FIGURES)]
    CheckFigures(figures::Arguments),
    /// Run an arena, and say how far each scheduler is behind the best of all in hindsight.
    #[command(after_help = help::ARENA)]
    Arena(ArenaArguments),
    /// Write a crate with a scheduler of your own, and the lab around it.
    #[command(after_help = help::NEW_SCHEDULER)]
    NewScheduler(scaffold::Arguments),
    /// Print where the time of downloads went, and how much the path of the handshake matters.
    #[command(after_help = help::TIME)]
    Time {
        /// Results (files or their folders) of runs with `time_lost`.
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// Print one JSON object per row, and nothing else.
        #[arg(long)]
        json: bool,
    },
    /// Print how long after a change of the network each scheduler took to be as good as the best.
    #[command(after_help = help::ADAPT)]
    Adapt {
        /// Results (a file or its folder) of the workload `repeat` on networks that change.
        results: PathBuf,
        /// Over how much time goodput is taken.
        #[arg(long, default_value = "2s", value_parser = mpquic_sim::units::time::parse)]
        window: Duration,
        /// Print one JSON object per network, congestion control and scheduler, and nothing else.
        #[arg(long, conflicts_with = "markdown")]
        json: bool,
        /// Print Markdown.
        #[arg(long)]
        markdown: bool,
    },
    /// Print how a value changes from one chunk or download to the next, and draw it.
    #[command(after_help = help::CURVES)]
    Curves(CurvesArguments),
    /// Draw connections from their qlog files: windows, RTTs, rates, losses and decisions per path.
    #[command(after_help = help::LOOK)]
    Look(LookArguments),
    /// Run a program in a network namespace whose interfaces lead through the links of a network, in real time. Needs root.
    #[command(after_help = help::SHELL)]
    Shell(shell::Arguments),
    /// Show mobile links, recorded ones and models, and convert recordings to Mahimahi's format.
    #[command(after_help = help::TRACE)]
    Trace(trace::Arguments),
    /// Write the HTML report of results.
    #[command(after_help = help::REPORT)]
    Report {
        /// Results (a file or its folder).
        results: PathBuf,
        /// The file to write [default: report.html in the folder of the results].
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct RunArguments {
    /// The experiment file.
    #[arg(required_unless_present = "network", conflicts_with = "network")]
    file: Option<PathBuf>,
    /// One network: RATE DELAY [LOSS] [key=value].. per path, with `|` between paths.
    #[arg(long, requires_all = ["workload", "scheduler"])]
    network: Option<String>,
    /// The workload of --network, such as file:2MB.
    #[arg(long, requires = "network")]
    workload: Option<String>,
    /// The schedulers of --network, separated by commas.
    #[arg(long, requires = "network", value_delimiter = ',')]
    scheduler: Vec<String>,
    /// The congestion controls of --network, separated by commas [default: that of the library].
    #[arg(long, requires = "network", value_delimiter = ',')]
    congestion: Vec<String>,
    /// How connections start over --network: as the library's do, or as in the papers, on one path, without copies of
    /// the last bytes, the others once the handshake is `confirmed` or `complete`.
    #[arg(long, requires = "network", default_value = "library", value_parser = ["library", "confirmed", "complete"])]
    start: String,
    /// The number of seeds; replaces the number in the file.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Run only combinations NETWORK/WORKLOAD/CONGESTION/SCHEDULER that contain this text. These
    /// characters form a pattern: . * + ? [..] ^ $ |
    #[arg(long, value_name = "PATTERN")]
    only: Option<Pattern>,
    /// The number of threads [default: one per core].
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    jobs: usize,
    /// Print one JSON object per combination of network, workload, congestion control and scheduler,
    /// and nothing else, on standard output.
    #[arg(long)]
    json: bool,
    /// The folder for results [default: target/lab/NAME; target/lab/NAME/shard-I-of-N with --shard; none with --network].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Repeat each run of this command, and write the qlog of both sides into this folder.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Run only one of several equal parts, as 2/4, on this machine; `mpquic-lab merge` puts the parts together.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["network", "json", "qlog"])]
    shard: Option<Shard>,
    /// Discard earlier results.
    #[arg(long)]
    fresh: bool,
    /// Say where the time of downloads went, as `time_lost = true` in the file does.
    #[arg(long)]
    time_lost: bool,
}

/// Why a command failed.
pub(crate) enum Failure {
    /// A run failed, or a file could not be read or written.
    Run(String),
    /// The command line or the experiment file is wrong.
    Usage(String),
}

impl Failure {
    pub(crate) fn run(error: impl Display) -> Self {
        Self::Run(error.to_string())
    }

    pub(crate) fn usage(error: impl Display) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Run(error.to_string())
    }
}

/// Executes a command line. Returns the exit status.
pub fn main(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    main_with(&Schedulers::default(), arguments, out, err)
}

/// The whole program of a lab with schedulers of its own: executes the command line of the process.
///
/// ```no_run
/// # // no_run: a whole program, which reads its arguments
/// use mpquic_sched::{MinRtt, MinRttConfig};
///
/// fn main() -> std::process::ExitCode {
///     mpquic_lab::cli::program(|registry| {
///         registry.register("mine", |config: &MinRttConfig| MinRtt::new(config))?;
///         Ok(())
///     })
/// }
/// ```
pub fn program(
    register: impl Fn(&mut Registry) -> Result<(), RegistryError> + Send + Sync + 'static,
) -> ExitCode {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let code = match Schedulers::of_program(register) {
        Ok(schedulers) => main_with(&schedulers, std::env::args_os(), &mut out, &mut err),
        Err(error) => {
            let _ = writeln!(err, "{error}");
            2
        }
    };
    ExitCode::from(code)
}

/// Executes a command line of a lab that knows these schedulers. Returns the exit status.
pub fn main_with(
    schedulers: &Schedulers,
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let (out, err) = (&mut Terminal(out), &mut Terminal(err));
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are not errors. They go to standard output, for pipes.
            let _ = if error.use_stderr() {
                write!(err, "{}", error.render())
            } else {
                write!(out, "{}", error.render())
            };
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let result = match arguments.command {
        Command::Run(arguments) => run(&arguments, schedulers, out, err),
        Command::Merge {
            shards,
            out: folder,
        } => merge(&shards, folder, out),
        Command::List { folder } => listing::files(&folder, schedulers, out),
        Command::Names => listing::names(schedulers, out),
        Command::Compare {
            a,
            b,
            results,
            metric,
        } => compare(&a, &b, results.as_deref(), metric.as_deref(), out, err),
        Command::Table { results, markdown } => tables(&results, markdown, out, err),
        Command::CheckFigures(arguments) => figures::run(&arguments, schedulers, out, err),
        Command::Arena(arguments) => arena::command::run(&arguments, schedulers, out, err),
        Command::NewScheduler(arguments) => scaffold::run(&arguments, schedulers, out),
        Command::Time { results, json } => spent(&results, json, out, err),
        Command::Adapt {
            results,
            window,
            json,
            markdown,
        } => adapt(&results, window, [json, markdown], out, err),
        Command::Curves(arguments) => curves::run(&arguments, out),
        Command::Look(arguments) => qlog_view::run(&arguments, out),
        Command::Shell(arguments) => match shell::run(&arguments, schedulers, out, err) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Trace(arguments) => trace::run(&arguments, out),
        Command::Report { results, out: file } => write_report(&results, file, out, err),
    };
    let (code, message) = match result {
        Ok(()) => return 0,
        Err(Failure::Run(message)) => (1, message),
        Err(Failure::Usage(message)) => (2, message),
    };
    let _ = writeln!(err, "{message}");
    code
}

fn run(
    arguments: &RunArguments,
    schedulers: &Schedulers,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let mut experiment = match (&arguments.file, &arguments.network) {
        (Some(file), _) => {
            let file = follow_renaming(file, err)?;
            Experiment::load_with(&file, schedulers).map_err(Failure::usage)?
        }
        (None, Some(network)) => {
            let shipped = [CongestionControl::default().to_string()];
            let congestion = match &*arguments.congestion {
                [] => &shipped,
                given => given,
            };
            let workload = arguments.workload.as_deref().unwrap_or_default();
            let (names, start) = (&arguments.scheduler, &*arguments.start);
            Experiment::of_one_network_starting(
                network, workload, names, congestion, start, schedulers,
            )
            .map_err(Failure::usage)?
        }
        (None, None) => return Err(Failure::usage("expected an experiment file or --network")),
    };
    if let Some(seeds) = arguments.seeds {
        experiment.seeds.count = seeds;
    }
    experiment.time_lost |= arguments.time_lost;
    let whole = Plan::new(&experiment, None);
    let plan = Plan::new(&experiment, arguments.only.as_ref());
    if plan.is_empty() {
        return Err(Failure::Usage(no_match(&whole)));
    }
    let mut heading = Heading::new(&experiment, &schedulers.build());
    heading.experiment = plan.identity(&heading);
    let options = Options {
        jobs: arguments.jobs,
        progress: io::stderr().is_terminal(),
        ..Options::default()
    };
    let folder = match (&arguments.out, &arguments.file) {
        (Some(folder), _) => Some(folder.clone()),
        (None, Some(_)) => Some(Path::new("target/lab").join(&experiment.name)),
        (None, None) => None,
    };
    let folder = match (folder, arguments.shard) {
        (Some(folder), Some(shard)) => {
            heading.shard = Some(Share {
                shard,
                runs: plan.len(),
            });
            match arguments.out {
                Some(_) => Some(folder),
                None => Some(folder.join(format!("shard-{}-of-{}", shard.number(), shard.count()))),
            }
        }
        (folder, _) => folder,
    };
    let kept = match arguments.shard {
        // Another part of the same file could only be in the way of `merge`.
        Some(_) => &plan,
        None => &whole,
    };
    let results = carry_out(
        kept,
        &plan,
        heading,
        folder.as_deref(),
        arguments.fresh,
        options,
        err,
    )?;
    if let Some(spec) = &experiment.timeline
        && let Some(folder) = &folder
    {
        timelines::keep(folder, spec, &whole, &results)?;
    }
    if let Some(dir) = &arguments.qlog {
        let written =
            qlogs::keep(dir, &plan, &results).map_err(|error| cannot("write", dir, &error))?;
        writeln!(err, "qlog of {written} runs: {}", dir.display())?;
    }
    if let (Some(shard), Some(folder)) = (arguments.shard, &folder) {
        writeln!(
            out,
            "Shard {shard}: {} of {} runs in {}",
            results.records.len(),
            plan.len(),
            folder.display()
        )?;
        return failures(&Board::new(&results));
    }
    let cells: BTreeSet<_> = plan.cells.iter().map(|cell| &*cell.fingerprint).collect();
    let asked_for =
        |record: &Record| plan.seeds.contains(&record.seed) && cells.contains(&*record.cell);
    let board = Board::of(&results, asked_for);
    if arguments.json {
        for summary in board.summaries(true) {
            let line = serde_json::to_string(&summary).map_err(Failure::run)?;
            writeln!(out, "{line}")?;
        }
    } else {
        print_findings(&board, out)?;
    }
    if let Some(folder) = &folder {
        sweep::write_tables(folder, &results)?;
        if !arguments.json {
            writeln!(out, "Report: {}", folder.join("report.html").display())?;
        }
    }
    failures(&board)
}

fn merge(shards: &[PathBuf], folder: Option<PathBuf>, out: &mut dyn Write) -> Result<(), Failure> {
    let folder = match folder {
        Some(folder) => folder,
        None => {
            let first = shards
                .first()
                .map_or_else(|| Path::new(""), PathBuf::as_path);
            let name = crate::result::merge::name(first).map_err(Failure::run)?;
            Path::new("target/lab").join(name)
        }
    };
    let results = crate::result::merge::merge(shards, &folder).map_err(Failure::run)?;
    let board = Board::new(&results);
    print_findings(&board, out)?;
    writeln!(out, "Report: {}", folder.join("report.html").display())?;
    failures(&board)
}

/// Executes what is missing of a plan, which is a part of the whole one, and returns all results that
/// there are: those in the folder, or only the new ones if there is none.
pub(crate) fn carry_out(
    whole: &Plan<'_>,
    plan: &Plan<'_>,
    heading: Heading,
    folder: Option<&Path>,
    fresh: bool,
    options: Options,
    err: &mut dyn Write,
) -> Result<Results, Failure> {
    let Some(folder) = folder else {
        let mut records = Vec::new();
        runner::run(
            plan,
            options,
            |_, _| false,
            |record| {
                records.push(record);
                Ok(())
            },
        )?;
        return Ok(Results { heading, records });
    };
    let shard = heading.shard;
    let opened = Store::open(folder, &heading, whole, fresh);
    let (mut store, found) = opened.map_err(|error| cannot("write", folder, &error))?;
    if found.kept > 0 {
        writeln!(
            err,
            "{} earlier runs are kept (--fresh discards them)",
            found.kept
        )?;
    }
    if found.outdated > 0 {
        writeln!(
            err,
            "{} earlier runs with other settings are dropped",
            found.outdated
        )?;
    }
    if let Some(aside) = &found.set_aside {
        writeln!(
            err,
            "results of another build were moved to {}",
            aside.display()
        )?;
    }
    let shard = shard.map_or(Shard::WHOLE, |share| share.shard);
    runner::run_into(&mut store, plan, shard, options)?;
    let path = store.finish(whole)?;
    Results::read(&path).map_err(Failure::run)
}

/// Returns the path, or its new path if it has an old name. Prints a note in the second case.
fn follow_renaming<'a>(path: &'a Path, err: &mut dyn Write) -> io::Result<Cow<'a, Path>> {
    let Some(new) = renamed::new_path(path) else {
        return Ok(Cow::Borrowed(path));
    };
    writeln!(
        err,
        "note: {} is now {}; the next release will not know the old name",
        path.display(),
        new.display()
    )?;
    Ok(Cow::Owned(new))
}

pub(crate) fn no_match(whole: &Plan<'_>) -> String {
    let names: Vec<_> = whole
        .cells
        .iter()
        .take(3)
        .map(|cell| cell.id.to_string())
        .collect();
    format!(
        "--only: nothing matches; names are like {}",
        names.join(", ")
    )
}

pub(crate) fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Run(format!("cannot {what} {}: {error}", path.display()))
}

fn print_findings(board: &Board<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    let heading = board.heading;
    writeln!(out, "{}", Escaped::new(&heading.title))?;
    if !heading.source.is_empty() {
        writeln!(out, "Source: {}", Escaped::new(&heading.source))?;
    }
    if !heading.expect.is_empty() {
        writeln!(out, "Expected: {}", Escaped::new(&heading.expect))?;
    }
    writeln!(out, "\n{}", output::summary_table(board))?;
    for checked in check_claims(board) {
        let (text, source) = (&checked.claim.text, &checked.claim.source);
        writeln!(out, "\"{}\" ({})", Escaped::new(text), Escaped::new(source))?;
        writeln!(out, "  {}", Escaped::new(&checked.sentence()))?;
        if (2..=12).contains(&checked.cases.len()) {
            for case in &checked.cases {
                let sentence = case.comparison.sentence();
                let line = format!("{}: {}: {sentence}", case.group, case.outcome.words());
                writeln!(out, "  - {}", Escaped::new(&line))?;
            }
        }
    }
    for table in [
        time_lost::text(board),
        start_compare::text(board),
        handshake_path::text(board),
    ] {
        if !table.is_empty() {
            writeln!(out, "\n{table}")?;
        }
    }
    Ok(())
}

pub(crate) fn failures(board: &Board<'_>) -> Result<(), Failure> {
    let failed: Vec<_> = board.failures().collect();
    let Some((cell, seed, error)) = failed.first() else {
        return Ok(());
    };
    let (cell, error) = (cell.to_string(), Escaped::new(error));
    Err(Failure::Run(format!(
        "{} failed, the first: {}, seed {seed}: {error}",
        match failed.len() {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        },
        Escaped::new(&cell)
    )))
}

fn compare(
    a: &Path,
    b: &Path,
    results: Option<&Path>,
    metric: Option<&str>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let mut read = |path: &Path| {
        let path = follow_renaming(path, err)?;
        Results::read(&path).map_err(Failure::run)
    };
    let (first, second, labels) = match results {
        Some(path) => {
            let results = read(path)?;
            let labels = [a, b].map(|label| label.display().to_string());
            for label in &labels {
                let known: Vec<_> = results
                    .heading
                    .schedulers
                    .iter()
                    .map(|spec| &*spec.label)
                    .collect();
                if !known.contains(&&**label) {
                    let known = known.join(", ");
                    return Err(Failure::Usage(format!(
                        "no scheduler `{label}` in {}, there are: {known}",
                        path.display()
                    )));
                }
            }
            (results.clone(), results, Some(labels))
        }
        None => (read(a)?, read(b)?, None),
    };
    let (first, second) = (Board::new(&first), Board::new(&second));
    let mut compared = 0;
    for group in first.groups() {
        let metrics = first.heading.metrics_of(group.workload);
        let wanted = match metric {
            None => metrics.into_iter().next(),
            Some(name) => crate::run::metrics::find(&group.workload.metrics, name),
        };
        let Some(metric) = wanted else { continue };
        let pairs: Vec<_> = match &labels {
            Some([a, b]) => vec![(group.cell(a), group.cell(b), a.clone(), b.clone())],
            None => first
                .schedulers(&group)
                .into_iter()
                .map(|label| {
                    let name = |path: &Path| format!("{label} of {}", path.display());
                    (group.cell(label), group.cell(label), name(a), name(b))
                })
                .collect(),
        };
        for (cell_a, cell_b, name_a, name_b) in pairs {
            if second.records(&cell_b).is_empty() || first.records(&cell_a).is_empty() {
                continue;
            }
            let comparison = Comparison::of_cells(
                (&first, &cell_a, &name_a),
                (&second, &cell_b, &name_b),
                &metric,
            );
            let line = format!("{}: {}", group.title(first.heading), comparison.sentence());
            writeln!(out, "{}", Escaped::new(&line))?;
            compared += 1;
        }
    }
    if compared == 0 {
        return Err(Failure::usage(
            "the two have no scenario and metric in common",
        ));
    }
    Ok(())
}

fn tables(
    results: &[PathBuf],
    markdown: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    for (number, path) in results.iter().enumerate() {
        let path = follow_renaming(path, err)?;
        let results = Results::read(&path).map_err(Failure::run)?;
        let board = Board::new(&results);
        if markdown {
            // Each section ends with an empty line.
            write!(out, "{}", markdown::section(&board))?;
            continue;
        }
        if number > 0 {
            writeln!(out)?;
        }
        print_findings(&board, out)?;
    }
    Ok(())
}

fn spent(
    results: &[PathBuf],
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    for path in results {
        let path = follow_renaming(path, err)?;
        let results = Results::read(&path).map_err(Failure::run)?;
        let board = Board::new(&results);
        let rows = time_lost::rows(&board);
        if rows.is_empty() {
            return Err(Failure::Usage(format!(
                "{} does not say where time went; run it with --time-lost",
                path.display()
            )));
        }
        if json {
            for row in rows {
                let line = serde_json::to_string(&row).map_err(Failure::run)?;
                writeln!(out, "{line}")?;
            }
            for gain in start_compare::gains(&board) {
                let line = serde_json::to_string(&gain).map_err(Failure::run)?;
                writeln!(out, "{line}")?;
            }
            for spread in handshake_path::spreads(&board) {
                let line = serde_json::to_string(&spread).map_err(Failure::run)?;
                writeln!(out, "{line}")?;
            }
            continue;
        }
        let title = Escaped::new(&results.heading.title);
        writeln!(out, "{title}\n{}", time_lost::text(&board))?;
        for table in [start_compare::text(&board), handshake_path::text(&board)] {
            if !table.is_empty() {
                writeln!(out, "{table}")?;
            }
        }
    }
    Ok(())
}

fn adapt(
    path: &Path,
    window: Duration,
    [json, markdown]: [bool; 2],
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let path = follow_renaming(path, err)?;
    let results = Results::read(&path).map_err(Failure::run)?;
    let rows = adaptation::all(&Board::new(&results), window);
    if rows.is_empty() {
        return Err(Failure::Usage(format!(
            "{} has no downloads back to back (`repeat`) over a network that changes, with two windows after its last change",
            path.display()
        )));
    }
    if json {
        for row in rows {
            let line = serde_json::to_string(&row).map_err(Failure::run)?;
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    let text = adaptation::text(&rows, markdown);
    if !markdown {
        writeln!(out, "{}", Escaped::new(&results.heading.title))?;
    }
    write!(out, "{text}")?;
    Ok(())
}

fn write_report(
    results: &Path,
    file: Option<PathBuf>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let results = follow_renaming(results, err)?;
    let read = Results::read(&results).map_err(Failure::run)?;
    let folder = crate::result::store::results_file(&results);
    let folder = folder.parent().unwrap_or_else(|| Path::new("")).to_owned();
    let file = file.unwrap_or_else(|| folder.join("report.html"));
    let html = report::html(&Board::new(&read), &folder)?;
    std::fs::write(&file, html).map_err(|error| cannot("write", &file, &error))?;
    writeln!(out, "Report: {}", file.display())?;
    Ok(())
}
