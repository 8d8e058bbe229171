//! A TOML file as a tree with line numbers, and tables that detect unknown keys.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use mpquic_proto::Escaped;
use mpquic_sim::units::{UnitError, rate, share, size, time};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::view::text::{shortened, significant};

/// An error in an experiment file: one line with the place, the key, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileError {
    /// The file, by the name that the caller gave.
    pub file: String,
    /// The line, from 1; 0 if there are no lines.
    pub line: usize,
    /// The key with its tables, such as `network[1].paths[2].rate`; empty for the file itself.
    pub key: String,
    /// What was found and what was expected.
    pub message: String,
    /// The Cargo feature without which this program cannot run the file, if that is the fault.
    pub feature: Option<&'static str>,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The file's texts are in it.
        write!(f, "{}", Escaped::new(&self.file))?;
        // The command line has no lines: line 0.
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        f.write_str(": ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", Escaped::new(&*shortened(&self.key, MAX_FAULT)))?;
        }
        write!(f, "{}", Escaped::new(&*shortened(&self.message, MAX_FAULT)))
    }
}

impl std::error::Error for FileError {}

/// The most elements of a list, keys of a table, and bytes of a text in a file.
const MAX_LIST: usize = 10_000;
const MAX_KEYS: usize = 1000;
const MAX_TEXT: usize = 100_000;
/// The most characters of a value in an error, and of the error.
const MAX_SHOWN: usize = 100;
const MAX_FAULT: usize = 2000;

/// A value and its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// A TOML value. Numbers keep their original text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Number(f64, String),
    Flag(bool),
    List(Vec<Node>),
    /// In the order of the file.
    Table(Vec<(String, Node)>),
}

impl Node {
    /// Parses a file into a tree.
    ///
    /// # Errors
    ///
    /// If it is not TOML.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let lines = Lines::new(text);
        match DeTable::parse(text) {
            Ok(table) => {
                let root = Self {
                    line: 1,
                    value: Value::Table(Self::entries(table.into_inner(), &lines)),
                };
                root.check(&Item::root(file, &root))?;
                Ok(root)
            }
            Err(error) => Err(FileError {
                file: file.to_owned(),
                line: error.span().map_or(1, |span| lines.of(span.start)),
                key: String::new(),
                // Some messages have several lines.
                message: error.message().replace('\n', ", "),
                feature: None,
            }),
        }
    }

    /// Refuses what nobody wrote by hand, so that whatever compares all elements of a list with each other stays fast.
    fn check(&self, item: &Item<'_>) -> Result<(), FileError> {
        let (found, most, what) = match &self.value {
            Value::List(list) => (list.len(), MAX_LIST, "elements of a list"),
            Value::Table(entries) => (entries.len(), MAX_KEYS, "keys of a table"),
            Value::Text(text) => (text.len(), MAX_TEXT, "bytes of a text"),
            Value::Number(..) | Value::Flag(_) => return Ok(()),
        };
        if found > most {
            return Err(item.error(format!("found {found} {what}, expected {most} at most")));
        }
        let inner: Vec<_> = match &self.value {
            Value::List(_) => item.list(),
            Value::Table(_) => item.table("a table")?.all().map(|entry| entry.1).collect(),
            _ => Vec::new(),
        };
        inner.iter().try_for_each(|inner| inner.node.check(inner))
    }

    fn entries(table: DeTable<'_>, lines: &Lines) -> Vec<(String, Self)> {
        let mut entries: Vec<_> = table.into_iter().collect();
        // The map is sorted by name. Experiments keep the order of the file.
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
            .into_iter()
            .map(|(key, value)| {
                let line = lines.of(key.span().start);
                let mut node = Self::new(value, lines);
                // The span of a table may start at its header or at its first key.
                if !matches!(node.value, Value::Table(_) | Value::List(_)) {
                    node.line = line;
                }
                (key.into_inner().into_owned(), node)
            })
            .collect()
    }

    fn new(value: Spanned<DeValue<'_>>, lines: &Lines) -> Self {
        let line = lines.of(value.span().start);
        let value = match value.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => {
                let text = number.to_string();
                let value = i64::from_str_radix(number.as_str(), number.radix());
                Value::Number(value.map_or(f64::NAN, |value| value as f64), text)
            }
            DeValue::Float(number) => {
                let text = number.as_str().to_owned();
                Value::Number(text.parse().unwrap_or(f64::NAN), text)
            }
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Datetime(time) => Value::Text(time.to_string()),
            DeValue::Array(list) => Value::List(
                list.into_iter()
                    .map(|node| Self::new(node, lines))
                    .collect(),
            ),
            DeValue::Table(table) => Value::Table(Self::entries(table, lines)),
        };
        Self { line, value }
    }

    /// A number that is not in a file.
    pub(crate) fn number(line: usize, number: f64) -> Self {
        let value = Value::Number(number, significant(number, 6));
        Self { line, value }
    }

    /// The original text, for names.
    pub(crate) fn label(&self) -> String {
        match &self.value {
            Value::Text(text) | Value::Number(_, text) => text.replace(['/', ','], "-"),
            Value::Flag(flag) => flag.to_string(),
            Value::List(_) => "list".into(),
            Value::Table(_) => "table".into(),
        }
    }

    /// A description for error messages.
    pub(crate) fn show(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("\"{}\"", shortened(text, MAX_SHOWN)),
            Value::Number(_, text) => text.clone(),
            Value::Flag(flag) => flag.to_string(),
            Value::List(_) => "a list".into(),
            Value::Table(_) => "a table".into(),
        }
    }

    /// The value as JSON, for parsers that use serde.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Text(text) => Json::String(text.clone()),
            Value::Number(_, text) if text.parse::<i64>().is_ok() => {
                Json::from(text.parse::<i64>().unwrap_or_default())
            }
            Value::Number(number, _) => Json::from(*number),
            Value::Flag(flag) => Json::Bool(*flag),
            Value::List(list) => list.iter().map(Self::to_json).collect(),
            Value::Table(entries) => entries
                .iter()
                .map(|(key, node)| (key.clone(), node.to_json()))
                .collect(),
        }
    }
}

/// The offsets at which lines start.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(breaks.map(|(at, _)| at).collect())
    }

    fn of(&self, at: usize) -> usize {
        self.0.partition_point(|&end| end < at) + 1
    }
}

/// A value with its key.
#[derive(Debug, Clone)]
pub(crate) struct Item<'a> {
    pub(crate) file: &'a str,
    pub(crate) key: String,
    pub(crate) node: &'a Node,
}

impl<'a> Item<'a> {
    pub(crate) fn root(file: &'a str, node: &'a Node) -> Self {
        Self {
            file,
            key: String::new(),
            node,
        }
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> FileError {
        FileError {
            file: self.file.to_owned(),
            line: self.node.line,
            key: self.key.clone(),
            message: message.into(),
            feature: None,
        }
    }

    /// The usual error: what was found and what was expected.
    pub(crate) fn expected(&self, what: &str) -> FileError {
        self.error(format!("found {}, expected {what}", self.node.show()))
    }

    pub(crate) fn text(&self, what: &str) -> Result<&'a str, FileError> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.expected(what)),
        }
    }

    /// A number with a unit. `parse` supplies the unit if it is missing.
    fn quantity<T>(
        &self,
        what: &str,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Result<T, FileError> {
        let parsed = match &self.node.value {
            // Formatted from its value, since the units module does not parse exponents.
            Value::Number(number, _) => parse(&number.to_string()),
            Value::Text(text) => parse(text),
            _ => return Err(self.expected(what)),
        };
        parsed.map_err(|fault| self.error(format!("{fault}, as {what}")))
    }

    /// A rate in bit/s. Without a unit: Mbit/s.
    pub(crate) fn rate(&self) -> Result<u64, FileError> {
        const WHAT: &str = "50 (Mbit/s) or \"50Mbit/s\"";
        let rate = self.quantity(WHAT, |text| rate::parse_or(text, "Mbit/s"))?;
        if !(1..=1_000_000_000_000).contains(&rate) {
            return Err(self.expected("a rate from 1 bit/s to 1000 Gbit/s, as 50 (Mbit/s)"));
        }
        Ok(rate)
    }

    /// A time up to one hour. Without a unit: milliseconds.
    pub(crate) fn time(&self) -> Result<Duration, FileError> {
        const WHAT: &str = "20 (ms) or \"20ms\"";
        let time = self.quantity(WHAT, |text| time::parse_or(text, "ms"))?;
        if time > Duration::from_secs(3600) {
            return Err(self.expected("a time of at most an hour, as 20 (ms) or \"20ms\""));
        }
        Ok(time)
    }

    /// A fraction from 0 to 1, given in percent with or without the sign.
    pub(crate) fn share(&self) -> Result<f64, FileError> {
        const WHAT: &str = "1.5 (percent) or \"1.5%\"";
        let share = self.quantity(WHAT, |text| share::parse_or(text, "%"))?;
        if share > 1.0 {
            return Err(self.expected("at most 100 percent, as 1.5 or \"1.5%\""));
        }
        Ok(share)
    }

    /// A size in bytes, which needs a unit.
    pub(crate) fn size(&self) -> Result<u64, FileError> {
        self.quantity("\"6MB\"", size::parse)
    }

    /// An integer within bounds.
    pub(crate) fn integer(&self, low: u64, high: u64, what: &str) -> Result<u64, FileError> {
        match self.node.value {
            Value::Number(number, _)
                if number.fract() == 0.0 && (low as f64..=high as f64).contains(&number) =>
            {
                Ok(number as u64)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// A finite number.
    pub(crate) fn float(&self, what: &str) -> Result<f64, FileError> {
        match self.node.value {
            Value::Number(number, _) if number.is_finite() => Ok(number),
            _ => Err(self.expected(what)),
        }
    }

    /// The elements of a list, or the value itself if it is not a list.
    pub(crate) fn list(&self) -> Vec<Self> {
        match &self.node.value {
            Value::List(list) => list
                .iter()
                .enumerate()
                .map(|(at, node)| Self {
                    file: self.file,
                    key: format!("{}[{}]", self.key, at + 1),
                    node,
                })
                .collect(),
            _ => vec![self.clone()],
        }
    }

    /// A list of strings, or one string.
    pub(crate) fn texts(&self, what: &str) -> Result<Vec<String>, FileError> {
        let texts = self.list().into_iter();
        texts
            .map(|item| item.text(what).map(str::to_owned))
            .collect()
    }

    pub(crate) fn table(&self, what: &str) -> Result<Table<'a>, FileError> {
        match &self.node.value {
            Value::Table(entries) => Ok(Table {
                item: self.clone(),
                entries,
                asked: RefCell::default(),
            }),
            _ => Err(self.expected(what)),
        }
    }
}

/// A table that is being read. [`finish`](Self::finish) detects the keys that were not read.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) item: Item<'a>,
    entries: &'a [(String, Node)],
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Table<'a> {
    pub(crate) fn get(&self, key: &'static str) -> Option<Item<'a>> {
        self.asked.borrow_mut().push(key);
        self.entry(key)
    }

    pub(crate) fn require(&self, key: &'static str, what: &str) -> Result<Item<'a>, FileError> {
        self.get(key).ok_or_else(|| {
            let mut error = self.item.error(format!("missing, expected {what}"));
            error.key = self.key(key);
            error
        })
    }

    fn entry(&self, key: &str) -> Option<Item<'a>> {
        self.entries
            .iter()
            .find(|entry| entry.0 == key)
            .map(|(_, node)| Item {
                file: self.item.file,
                key: self.key(key),
                node,
            })
    }

    fn key(&self, key: &str) -> String {
        match self.item.key.as_str() {
            "" => key.to_owned(),
            table => format!("{table}.{key}"),
        }
    }

    /// All entries, whatever their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a str, Item<'a>)> {
        self.entries.iter().map(|(key, node)| {
            let item = Item {
                file: self.item.file,
                key: self.key(key),
                node,
            };
            (key.as_str(), item)
        })
    }

    /// Checks that every key was read.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        let asked = self.asked.borrow();
        match self.all().find(|(key, _)| !asked.contains(key)) {
            Some((_, item)) => {
                let known = asked.join(", ");
                Err(item.error(format!("unknown key, expected one of {known}")))
            }
            None => Ok(()),
        }
    }
}
