//! The command `check-figures`: whether pages of tables still say what their commands print.

mod page;
mod runs;

use std::collections::BTreeSet;
use std::hash::Hasher as _;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use self::page::{Kind, Place, Section};
use self::runs::Runs;
use crate::Pattern;
use crate::command::cli::{Failure, cannot};
use crate::file::experiment::Experiment;
use crate::file::scheduler_set::Schedulers;
use crate::plan::{CellId, Plan};
use crate::result::record::Heading;
use crate::result::store::Results;
use crate::result::summary::Board;
use crate::run::runner::Options;
use crate::view::markdown;

/// The arguments of `check-figures`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pages, or folders of pages.
    #[arg(default_value = "docs/results/tables")]
    pages: Vec<PathBuf>,
    /// Check all figures, not a draw, those over sets of networks and the verdicts too: hours for all pages.
    #[arg(long, conflicts_with = "draw")]
    all: bool,
    /// How many figures to draw, of those with one network and one scheduler.
    #[arg(long, default_value_t = 10, value_name = "N")]
    draw: usize,
    /// What decides which ones are drawn, such as the hash of a commit.
    #[arg(long, default_value = "", value_name = "TEXT")]
    by: String,
    /// Say what would be run, and run nothing.
    #[arg(long)]
    list: bool,
    /// The number of threads [default: one per core].
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    jobs: usize,
    /// Print one JSON object per figure, and nothing else.
    #[arg(long)]
    json: bool,
}

/// A figure of a page, and what its command says now.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    page: &'a str,
    section: &'a str,
    metric: &'a str,
    row: &'a [String],
    column: &'a str,
    /// On the page.
    says: &'a str,
    /// What comes out; absent if it was not run, or the command makes no such figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<String>,
}

impl Checked<'_> {
    fn moved(&self) -> bool {
        self.now.as_deref() != Some(self.says)
    }
}

/// The experiment that a section's command names, as that command runs it.
struct Source {
    experiment: Experiment,
    only: Option<Pattern>,
    /// Each with the set of its network.
    cells: Vec<(CellId, String)>,
}

impl Source {
    fn of(section: &Section, schedulers: &Schedulers) -> Result<Self, String> {
        let mut words = section.command.iter();
        let file = words.next().ok_or("names no experiment")?;
        let mut experiment = Experiment::load_with(Path::new(file), schedulers)
            .map_err(|error| error.to_string())?;
        let mut only = None;
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} has no value"))?;
            match &**word {
                "--seeds" => {
                    experiment.seeds.count =
                        value.parse().map_err(|_| format!("--seeds {value}"))?
                }
                "--only" => {
                    only = Some(
                        value
                            .parse::<Pattern>()
                            .map_err(|error| error.to_string())?,
                    )
                }
                other => return Err(format!("has {other}, which is not understood here")),
            }
        }
        let plan = Plan::new(&experiment, only.as_ref());
        let cells = plan.cells.into_iter();
        let cells = cells
            .map(|cell| (cell.id, cell.network.set.clone()))
            .collect();
        Ok(Self {
            experiment,
            only,
            cells,
        })
    }

    /// The cells behind a figure; none if the command does not make it.
    fn cells<'a>(&'a self, place: &'a Place) -> Box<dyn Iterator<Item = &'a CellId> + 'a> {
        let cells = self.cells.iter();
        let (Some(first), rest) = (place.row.first(), place.row.get(1..).unwrap_or_default())
        else {
            return Box::new(std::iter::empty());
        };
        let is_of = |id: &CellId, names: &[String]| {
            let mut names = names.iter();
            names.all(|name| *name == id.workload || *name == id.congestion)
        };
        match place.kind {
            Kind::Network => Box::new(cells.map(|(id, _)| id).filter(move |id| {
                id.network == *first && is_of(id, rest) && id.scheduler == place.column
            })),
            Kind::Set => {
                let set = first.rsplit_once(" (").map_or("", |(set, _)| set);
                let (scheduler, names) = rest
                    .split_last()
                    .map_or(("", rest), |(one, rest)| (&**one, rest));
                let compared = move |id: &CellId| {
                    id.scheduler == scheduler || id.scheduler == self.experiment.baseline
                };
                let of_set = cells.filter(move |(_, of)| of == set).map(|(id, _)| id);
                Box::new(of_set.filter(move |id| is_of(id, names) && compared(id)))
            }
            Kind::Verdict => {
                let claims = self.experiment.claims.iter();
                let claims = claims
                    .filter(|claim| claim.text == *first && claim.source == place.column)
                    .collect::<Vec<_>>();
                Box::new(cells.map(|(id, _)| id).filter(move |id| {
                    claims.iter().any(|claim| {
                        let mut labels = [&claim.better, &claim.worse, &claim.similar].into_iter();
                        labels.any(|labels| labels.contains(&id.scheduler))
                            && claim
                                .cells
                                .matches(&id.network, &id.workload, &id.congestion)
                    })
                }))
            }
        }
    }

    /// What is run for these figures: nothing that none of them is made of.
    fn plan<'a>(&'a self, figures: &[(&Place, &str)]) -> Plan<'a> {
        let cells: BTreeSet<_> = figures
            .iter()
            .flat_map(|(place, _)| self.cells(place))
            .collect();
        let mut plan = Plan::new(&self.experiment, self.only.as_ref());
        plan.cells.retain(|cell| cells.contains(&cell.id));
        plan
    }

    /// What comes out of a plan: the section, as far as a page would have it.
    fn section(
        &self,
        plan: &Plan<'_>,
        runs: &mut Runs,
        options: Options,
        schedulers: &Schedulers,
    ) -> io::Result<String> {
        Ok(markdown::section(&Board::new(&Results {
            heading: Heading::new(&self.experiment, &schedulers.build()),
            records: runs.of(plan, options)?,
        })))
    }
}

/// A section of which figures are checked.
struct Chosen<'a> {
    page: &'a str,
    section: &'a Section,
    /// Or why it cannot be run.
    source: Result<Source, String>,
    figures: Vec<(&'a Place, &'a str)>,
}

/// Executes the command.
pub(crate) fn run(
    arguments: &Arguments,
    schedulers: &Schedulers,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let pages = read(&arguments.pages)?;
    let mut drawn = Vec::new();
    for (page, sections) in &pages {
        for section in sections
            .iter()
            .filter(|section| arguments.all || !section.old)
        {
            for (place, says) in &section.figures {
                drawn.push((&**page, section, place, &**says));
            }
        }
    }
    if drawn.is_empty() {
        return Err(Failure::Usage(
            "these pages have no section with a command and a table of medians that is not said to be old".into(),
        ));
    }
    let known = drawn.len();
    if !arguments.all {
        // Each has a lot of its own, so that a figure more elsewhere changes no other's.
        drawn.sort_by_key(|(page, section, place, _)| {
            lot(&arguments.by, page, &section.title, place)
        });
    }
    let mut wanted = if arguments.all { known } else { arguments.draw };
    // Sections, with what they were made from once that was asked for, and the figures to check.
    let mut chosen: Vec<Chosen<'_>> = Vec::new();
    for (page, section, place, says) in drawn {
        if wanted == 0 {
            break;
        }
        let known = chosen
            .iter()
            .position(|chosen| std::ptr::eq(chosen.section, section));
        let at = known.unwrap_or_else(|| {
            chosen.push(Chosen {
                page,
                section,
                source: Source::of(section, schedulers),
                figures: Vec::new(),
            });
            chosen.len() - 1
        });
        let Chosen {
            source, figures, ..
        } = &mut chosen[at];
        if let Ok(source) = source
            && (arguments.all || place.kind == Kind::Network && source.cells(place).count() == 1)
        {
            figures.push((place, says));
            wanted -= 1;
        }
    }
    let mut runs = Runs::default();
    let mut sources = Vec::new();
    for one in chosen
        .iter()
        .filter(|one| !one.figures.is_empty() || one.source.is_err())
    {
        match &one.source {
            Ok(source) => {
                let plan = source.plan(&one.figures);
                runs.announce(&plan);
                sources.push((one, source, plan));
            }
            Err(why) => writeln!(
                err,
                "not checked: {}, {}: {why}",
                one.page, one.section.title
            )?,
        }
    }
    let options = Options {
        jobs: arguments.jobs,
        progress: io::stderr().is_terminal(),
        lines: arguments.all && !io::stderr().is_terminal(),
        slim: true,
    };
    let mut checked = Vec::new();
    for (one, source, plan) in sources {
        let now = if arguments.list {
            None
        } else {
            let text = source.section(&plan, &mut runs, options, schedulers)?;
            Some(page::figures(&text))
        };
        for (place, says) in &one.figures {
            let one = Checked {
                page: one.page,
                section: &one.section.title,
                metric: &place.metric,
                row: &place.row,
                column: &place.column,
                says,
                now: now.as_ref().and_then(|now| now.get(*place).cloned()),
            };
            tell(&one, arguments, out)?;
            checked.push(one.moved());
        }
    }
    if checked.is_empty() {
        return Err(Failure::Usage(
            "none of these figures can be checked".into(),
        ));
    }
    if arguments.list {
        let (made, shared) = runs.announced();
        writeln!(
            err,
            "{} figures, {made} runs to make, {shared} shared",
            checked.len()
        )?;
        return Ok(());
    }
    let moved = checked.iter().filter(|moved| **moved).count();
    if !arguments.json {
        writeln!(
            out,
            "{} of {known} figures checked, {moved} moved; {} runs made, {} shared",
            checked.len(),
            runs.made,
            runs.shared
        )?;
    }
    if moved > 0 {
        return Err(Failure::Run(format!(
            "{moved} figures are not what their commands print: run those again, and `mpquic-lab table --markdown` for the page"
        )));
    }
    Ok(())
}

/// Prints a figure.
fn tell(one: &Checked<'_>, arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    if arguments.json {
        let line = serde_json::to_string(one).map_err(Failure::run)?;
        writeln!(out, "{line}")?;
        return Ok(());
    }
    let Checked {
        page,
        section,
        metric,
        column,
        says,
        ..
    } = one;
    let verdict = match &one.now {
        _ if arguments.list => String::new(),
        Some(now) if now == says => ": holds".to_owned(),
        Some(now) => format!(": now {now}"),
        None => ": not made any more".to_owned(),
    };
    writeln!(
        out,
        "{page}, {section}: {metric}, {}, {column}: {says}{verdict}",
        one.row.join(", ")
    )?;
    Ok(())
}

/// A page's name, and its sections.
type Page = (String, Vec<Section>);

/// The pages, in the order of their names.
fn read(paths: &[PathBuf]) -> Result<Vec<Page>, Failure> {
    let mut files = BTreeSet::new();
    for path in paths {
        if !path.is_dir() {
            files.insert(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).map_err(|error| cannot("read", path, &error))?;
        let pages = entries.filter_map(|entry| Some(entry.ok()?.path()));
        files.extend(pages.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    files
        .into_iter()
        .map(|file| {
            let text =
                std::fs::read_to_string(&file).map_err(|error| cannot("read", &file, &error))?;
            Ok((file.display().to_string(), page::sections(&text)))
        })
        .collect()
}

/// The place of a figure in the draw.
fn lot(by: &str, page: &str, section: &str, place: &Place) -> u128 {
    let mut hasher = SipHasher13::new();
    let row = place.row.iter().map(String::as_str);
    for part in [by, page, section, &place.metric, &place.column]
        .into_iter()
        .chain(row)
    {
        hasher.write(part.as_bytes());
        hasher.write_u8(0);
    }
    hasher.finish128().as_u128()
}
