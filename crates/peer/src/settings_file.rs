//! A command line with a file beside it: each flag of the program is a key of a TOML file, and flags win.
//!
//! The keys are those that the command line has by itself: nothing is written twice, and nothing can be missing in the file. What the
//! file says goes through the same checks as flags, with the file and the line in what is told.

use std::any::TypeId;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::identity::read;
use crate::link_rule::LinkRule;

/// The flag that names the file.
const CONFIG: &str = "config";
/// The subcommand that shows what another one would do: its arguments are that command.
const CHECK: &str = "check";
/// How alike two names are (Jaro-Winkler) for one to be meant by the other; clap has the same measure.
const ALIKE: f64 = 0.7;

/// What a program was told, by its command line and its file.
#[derive(Debug)]
pub struct Given<T> {
    /// All of it.
    pub arguments: T,
    /// Whether the program is only to say what it would do: it was called as `PROGRAM check COMMAND ...`.
    pub is_check: bool,
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// What is in force, and where it comes from, as a file that says all of it.
    pub shown: String,
    argv: Vec<OsString>,
}

impl<T: CommandFactory + FromArgMatches> Given<T> {
    /// The command line of this process, with what the file says that its flag `--config`, or the environment variable of that flag, names. Ends
    /// the program if it is wrong, or asks for help.
    pub fn from_env() -> Self {
        Self::from(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// That of another command line: the program's name, and its arguments.
    ///
    /// # Errors
    ///
    /// If it, or the file, makes no sense, or it asks for help.
    pub fn from(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Self, clap::Error> {
        let mut argv: Vec<OsString> = argv.into_iter().map(Into::into).collect();
        let is_check = argv.len() > 2
            && argv[1] == CHECK
            && !argv[2].to_string_lossy().starts_with('-')
            && T::command().find_subcommand(&argv[2]).is_some();
        if is_check {
            argv.remove(1);
        }
        let mut given = Self::read(argv)?;
        given.is_check = is_check;
        Ok(given)
    }

    /// The same command line once more, with what the file says now.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn again(&self) -> Result<Self, String> {
        let again = Self::read(self.argv.clone());
        again.map_err(|error| brief(&error))
    }

    fn read(argv: Vec<OsString>) -> Result<Self, clap::Error> {
        let mut command = T::command();
        command.build();
        // What is missing may be in the file.
        let alone = command.clone().ignore_errors(true);
        let alone = alone.try_get_matches_from(&argv)?;
        let (file, added) = match alone.subcommand() {
            Some((name, flags)) => match config_of(flags) {
                Some(path) => {
                    let added = added(&command, name, flags, &path)?;
                    (Some(path), added)
                }
                None => (None, Vec::new()),
            },
            None => (None, Vec::new()),
        };
        let mut all = argv.clone();
        for from_file in &added {
            let end = all.len();
            let at = if from_file.is_positional { end } else { 2 };
            all.splice(at.min(end)..at.min(end), from_file.words.clone());
        }
        let matches = command
            .clone()
            .try_get_matches_from(all)
            .map_err(|error| at_its_line(error, &command, file.as_deref(), &added))?;
        let shown = show(&command, &matches, file.as_deref(), &added);
        let arguments =
            T::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        Ok(Self {
            arguments,
            is_check: false,
            file,
            shown,
            argv,
        })
    }
}

/// What the file adds to the command line.
#[derive(Debug)]
struct Added {
    id: String,
    words: Vec<OsString>,
    is_positional: bool,
    line: usize,
}

fn config_of(flags: &ArgMatches) -> Option<PathBuf> {
    // A command may have none.
    flags.try_get_one::<PathBuf>(CONFIG).ok().flatten().cloned()
}

/// The file's settings for a subcommand, but for those that the command line has, or that exclude one of these.
fn added(
    program: &Command,
    name: &str,
    flags: &ArgMatches,
    path: &Path,
) -> Result<Vec<Added>, clap::Error> {
    let refused = |why: String| program.clone().error(ErrorKind::InvalidValue, why);
    let text = read(path).map_err(|error: Error| refused(error.to_string()))?;
    let text =
        String::from_utf8(text).map_err(|_| refused(format!("{}: not UTF-8", path.display())))?;
    let parsed = DeTable::parse(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        refused(format!("{}: {}", place(path, &text, at), error.message()))
    })?;
    let tables = Tables {
        program,
        path,
        text: &text,
    };
    let subcommand = program.find_subcommand(name);
    let mut entries: Vec<Added> = Vec::new();
    // Those of the subcommand's own table win over those for all.
    for (key, value) in tables.entries(parsed.get_ref(), name).map_err(refused)? {
        let Some(arg) = subcommand.and_then(|subcommand| find(subcommand, key.get_ref())) else {
            // It is of another subcommand.
            continue;
        };
        let id = arg.get_id().to_string();
        if entries.iter().any(|entry| entry.id == id) {
            continue;
        }
        let is_given = |arg: &Arg| {
            let source = flags.value_source(arg.get_id().as_str());
            source.is_some_and(|source| source != ValueSource::DefaultValue)
        };
        let excluded = subcommand.is_some_and(|subcommand| {
            subcommand.get_arguments().any(|other| {
                let excludes = |one: &Arg, two: &Arg| {
                    let list = subcommand.get_arg_conflicts_with(one);
                    list.iter()
                        .any(|conflict| conflict.get_id() == two.get_id())
                };
                is_given(other) && (excludes(arg, other) || excludes(other, arg))
            })
        });
        // It is checked all the same.
        let words = tables.words(arg, value).map_err(refused)?;
        if !is_given(arg) && !excluded {
            entries.push(Added {
                id,
                words,
                is_positional: arg.is_positional(),
                line: line_of(&text, key.span().start),
            });
        }
    }
    Ok(entries)
}

/// What a file has, read for a program.
struct Tables<'a> {
    program: &'a Command,
    path: &'a Path,
    text: &'a str,
}

type Entry<'a> = (
    &'a Spanned<std::borrow::Cow<'a, str>>,
    &'a Spanned<DeValue<'a>>,
);

impl Tables<'_> {
    /// The entries for a subcommand: its own first, then those for all. All keys of the file are known.
    fn entries<'a>(&self, root: &'a DeTable<'a>, name: &str) -> Result<Vec<Entry<'a>>, String> {
        let (mut own, mut common) = (Vec::new(), Vec::new());
        let all = self.program.get_subcommands();
        let subcommands: Vec<_> = all.filter(|one| is_configured(one)).collect();
        for (key, value) in root {
            let text: &str = key.get_ref();
            match (value.get_ref(), self.program.find_subcommand(text)) {
                (DeValue::Table(table), Some(subcommand)) if is_configured(subcommand) => {
                    for entry in table {
                        self.known(entry.0, &[subcommand])?;
                        self.words_of(subcommand, entry)?;
                        if subcommand.get_name() == name {
                            own.push(entry);
                        }
                    }
                }
                (DeValue::Table(_), _) if subcommands.iter().any(|one| is_tables(one, text)) => {
                    common.push((key, value));
                }
                (DeValue::Table(_), _) => {
                    let names = subcommands.iter().map(|one| one.get_name().to_owned());
                    let names = names.collect();
                    return Err(self.unknown("table", key, names));
                }
                _ => {
                    self.known(key, &subcommands)?;
                    common.push((key, value));
                }
            }
        }
        own.append(&mut common);
        Ok(own)
    }

    fn words_of(&self, subcommand: &Command, (key, value): Entry<'_>) -> Result<(), String> {
        match find(subcommand, key.get_ref()) {
            Some(arg) => self.words(arg, value).map(|_| ()),
            None => Ok(()),
        }
    }

    fn known(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        of: &[&Command],
    ) -> Result<(), String> {
        if of
            .iter()
            .any(|subcommand| find(subcommand, key.get_ref()).is_some())
        {
            return Ok(());
        }
        let names = of.iter().flat_map(|subcommand| keys(subcommand)).collect();
        Err(self.unknown("key", key, names))
    }

    fn unknown(
        &self,
        what: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        mut names: Vec<String>,
    ) -> String {
        let place = self.place(key.span().start);
        let key = key.get_ref();
        names.sort();
        names.dedup();
        let likeness = |name: &String| strsim::jaro_winkler(key, name);
        let meant = names
            .iter()
            .max_by(|one, two| likeness(one).total_cmp(&likeness(two)))
            .filter(|name| likeness(name) > ALIKE);
        let key = mpquic::Escaped::new(key.as_ref());
        match meant {
            Some(meant) => format!("{place}: unknown {what} `{key}`, did you mean `{meant}`?"),
            None => format!(
                "{place}: unknown {what} `{key}`, there are {}",
                names.join(", ")
            ),
        }
    }

    /// A setting as words of a command line. A relative path is meant from the file's folder.
    fn words(&self, arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<OsString>, String> {
        let place = self.place(value.span().start);
        let key = key_of(arg);
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            return match value.get_ref() {
                DeValue::Boolean(true) => Ok(vec![format!("--{key}").into()]),
                DeValue::Boolean(false) => Ok(Vec::new()),
                _ => Err(format!("{place}: `{key}` is true or false")),
            };
        }
        if is_rule(arg)
            && let DeValue::Table(links) = value.get_ref()
        {
            let rules = links.iter().map(|link| self.rule(key, link));
            return rules.collect();
        }
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        let values: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(values) if is_list => values.iter().collect(),
            DeValue::Array(_) => return Err(format!("{place}: `{key}` has one value, no list")),
            _ => vec![value],
        };
        let is_path = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        let folder = self.path.parent().unwrap_or_else(|| Path::new(""));
        let mut words = Vec::new();
        for value in values {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                DeValue::Float(number) => number.to_string(),
                DeValue::Boolean(yes) => yes.to_string(),
                DeValue::Datetime(time) => time.to_string(),
                DeValue::Array(_) | DeValue::Table(_) => {
                    return Err(format!(
                        "{place}: `{key}` has texts or numbers, nothing nested"
                    ));
                }
            };
            let word = match is_path {
                true => folder.join(text).into_os_string(),
                false => OsString::from(text),
            };
            if arg.is_positional() {
                words.push(word);
            } else {
                let mut flag = OsString::from(format!("--{key}="));
                flag.push(word);
                words.push(flag);
            }
        }
        Ok(words)
    }

    /// A table about one link, such as `[link.wwan0]`, as a word.
    fn rule(&self, flag: &str, (link, value): Entry<'_>) -> Result<OsString, String> {
        let (place, name) = (self.place(link.span().start), link.get_ref());
        let DeValue::Table(entries) = value.get_ref() else {
            return Err(format!("{place}: `{flag}.{name}` is a table"));
        };
        let mut rules = Vec::new();
        for (key, value) in entries {
            if !LinkRule::KEYS.contains(&key.get_ref().as_ref()) {
                let names = LinkRule::KEYS.map(str::to_owned).to_vec();
                return Err(self.unknown("key", key, names));
            }
            rules.push(match value.get_ref() {
                DeValue::String(text) => format!("{}={text}", key.get_ref()),
                DeValue::Integer(number) => format!("{}={number}", key.get_ref()),
                DeValue::Boolean(yes) => format!("{}={yes}", key.get_ref()),
                _ => {
                    let place = self.place(value.span().start);
                    return Err(format!(
                        "{place}: `{}` is a text or a number",
                        key.get_ref()
                    ));
                }
            });
        }
        let rule = format!("{name}:{}", rules.join(","));
        // With the line of its table.
        let checked: Result<LinkRule, String> = rule.parse();
        checked.map_err(|why| format!("{place}: {why}"))?;
        Ok(format!("--{flag}={rule}").into())
    }

    fn place(&self, at: usize) -> String {
        place(self.path, self.text, at)
    }
}

/// Whether a subcommand can have a file.
fn is_configured(subcommand: &Command) -> bool {
    subcommand.get_arguments().any(|arg| arg.get_id() == CONFIG)
}

/// Whether an argument has rules about links, which may be tables.
fn is_rule(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<LinkRule>()
}

fn is_tables(subcommand: &Command, key: &str) -> bool {
    find(subcommand, key).is_some_and(is_rule)
}

/// The key of an argument: its flag; of the one that has no flag, its name.
fn key_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_else(|| arg.get_id().as_str())
}

/// Those that a file may have. An argument without a flag is told by its place, and so can be left to the file only if it is the only one.
fn arguments(subcommand: &Command) -> impl Iterator<Item = &Arg> {
    let only = subcommand.get_positionals().count() == 1;
    subcommand.get_arguments().filter(move |arg| {
        let id = arg.get_id();
        id != CONFIG && id != "help" && id != "version" && (only || !arg.is_positional())
    })
}

fn keys(subcommand: &Command) -> impl Iterator<Item = String> {
    let shown = arguments(subcommand).filter(|arg| !arg.is_hide_set());
    shown.map(|arg| key_of(arg).to_owned())
}

fn find<'c>(subcommand: &'c Command, key: &str) -> Option<&'c Arg> {
    let key = key.replace('_', "-");
    arguments(subcommand).find(|arg| {
        let names = arg.get_all_aliases().unwrap_or_default();
        key_of(arg).replace('_', "-") == key || names.contains(&key.as_str())
    })
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

fn place(path: &Path, text: &str, at: usize) -> String {
    format!("{}:{}", path.display(), line_of(text, at))
}

/// An error about something that the file says has the file and the line.
fn at_its_line(
    error: clap::Error,
    program: &Command,
    file: Option<&Path>,
    added: &[Added],
) -> clap::Error {
    let Some(file) = file else { return error };
    let about = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) => name.clone(),
        _ => return error,
    };
    let of = |entry: &&Added| {
        let flag = entry.id.replace('_', "-");
        about.trim_start_matches('-').split([' ', '=', '[']).next() == Some(&flag)
    };
    match added.iter().find(of) {
        Some(entry) => {
            let why = brief(&error);
            let why = format!("{}:{}: {why}", file.display(), entry.line);
            program.clone().error(ErrorKind::InvalidValue, why)
        }
        None => error,
    }
}

/// The first paragraph of what clap says, without its `error: `.
fn brief(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let first = text.split("\n\n").next().unwrap_or(text);
    first.trim_end().to_owned()
}

/// All that is in force, as a file that says it, with where each comes from.
fn show(program: &Command, matches: &ArgMatches, file: Option<&Path>, added: &[Added]) -> String {
    let Some((name, flags)) = matches.subcommand() else {
        return String::new();
    };
    let Some(subcommand) = program.find_subcommand(name) else {
        return String::new();
    };
    let mut shown = format!("[{name}]\n");
    for arg in arguments(subcommand) {
        let id = arg.get_id().as_str();
        let values: Vec<String> = match flags.get_raw(id) {
            Some(values) => values
                .map(|value| value.to_string_lossy().into_owned())
                .collect(),
            None => continue,
        };
        let whence = match (
            flags.value_source(id),
            added.iter().find(|entry| entry.id == id),
        ) {
            (Some(ValueSource::DefaultValue), _) => "default".to_owned(),
            (Some(ValueSource::EnvVariable), _) => "environment".to_owned(),
            (_, Some(entry)) => {
                let path = file.unwrap_or_else(|| Path::new("")).display();
                format!("{path}:{}", entry.line)
            }
            _ => "command line".to_owned(),
        };
        let is_plain =
            |value: &String| value.parse::<i64>().is_ok() || value.parse::<bool>().is_ok();
        let quoted = |value: &String| match is_plain(value) {
            true => value.clone(),
            false => toml::Value::String(value.clone()).to_string(),
        };
        let value = match arg.get_action() {
            ArgAction::Append => {
                let values: Vec<_> = values.iter().map(quoted).collect();
                format!("[{}]", values.join(", "))
            }
            _ => values.first().map(quoted).unwrap_or_default(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(shown, "{} = {value} # {whence}", key_of(arg));
    }
    shown
}

#[cfg(test)]
mod tests;
