//! Holds qlog files against the drafts' own CDDL (RFC 8610), as far as the drafts use that language, and against ours.
//! Stricter than CDDL in one thing: a frame must be one that a schema names.
//!
//! There is a crate for all of CDDL; it brings in 134 others.
#![allow(dead_code, reason = "each test binary uses its part of it")]

use std::collections::BTreeMap;

use serde_json::Value;

const SCHEMAS: [&str; 3] = [
    include_str!("main.cddl"),
    include_str!("quic.cddl"),
    include_str!("../../schema/mpquic.cddl"),
];

#[derive(Debug, Clone)]
enum Type {
    /// A rule or one of the words that CDDL knows by itself.
    Name(String),
    Literal(String),
    Map(Vec<Entry>),
    Array(Box<Self>, usize, usize),
    Choice(Vec<Self>),
    Size(Box<Self>, u32),
    Regexp(String),
}

#[derive(Debug, Clone)]
enum Entry {
    Field(bool, String, Type),
    /// `* text => any`
    Anything,
    /// A group of that name, if there is one.
    Socket(String),
    /// The fields of another map.
    Unwrap(String),
}

/// The rules of all schemas.
pub(crate) struct Schema {
    types: BTreeMap<String, Vec<Type>>,
    groups: BTreeMap<String, Vec<Entry>>,
}

fn tokens(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for line in text.lines() {
        let mut chars = line.chars().peekable();
        while let Some(&c) = chars.peek() {
            let mut token = String::new();
            let word = |c: char| c.is_alphanumeric() || "$_-.".contains(c);
            if c == ';' {
                break;
            } else if c == '"' {
                chars.next();
                token.push('"');
                token.extend(chars.by_ref().take_while(|c| *c != '"'));
            } else if word(c) {
                while let Some(c) = chars.next_if(|c| word(*c)) {
                    token.push(c);
                }
            } else if "/=".contains(c) {
                while let Some(c) = chars.next_if(|c| "/=>".contains(*c)) {
                    token.push(c);
                }
            } else {
                chars.next();
                if c.is_whitespace() {
                    continue;
                }
                token.push(c);
            }
            all.push(token);
        }
    }
    all
}

struct Parser(std::iter::Peekable<std::vec::IntoIter<String>>);

impl Parser {
    fn peek(&mut self) -> &str {
        self.0.peek().map_or("", String::as_str)
    }

    fn take(&mut self) -> String {
        self.0.next().expect("more of the schema")
    }

    fn found(&mut self, token: &str) -> bool {
        self.0.next_if(|next| next == token).is_some()
    }

    fn expect(&mut self, token: &str) {
        let next = self.take();
        assert_eq!(next, token, "in the schema, before {:?}", self.peek());
    }

    fn ty(&mut self) -> Type {
        let mut choices = vec![self.one()];
        while self.found("/") {
            choices.push(self.one());
        }
        match choices.len() {
            1 => choices.remove(0),
            _ => Type::Choice(choices),
        }
    }

    fn one(&mut self) -> Type {
        let token = self.take();
        let mut ty = match token.as_str() {
            "{" => Type::Map(self.entries("}")),
            "[" => {
                let (least, most) = match self.peek() {
                    "*" => (0, usize::MAX),
                    "+" => (1, usize::MAX),
                    "1" => {
                        self.take();
                        self.expect("*");
                        (1, self.peek().parse().expect("a number"))
                    }
                    other => panic!("an array of {other:?}"),
                };
                self.take();
                let ty = self.ty();
                self.expect("]");
                Type::Array(Box::new(ty), least, most)
            }
            literal if literal.starts_with('"') => Type::Literal(literal[1..].into()),
            name => Type::Name(name.into()),
        };
        loop {
            if self.found(".default") {
                self.take();
            } else if self.found(".size") {
                ty = Type::Size(Box::new(ty), self.take().parse().expect("a number"));
            } else if self.found(".regexp") {
                ty = Type::Regexp(self.take()[1..].into());
            } else {
                return ty;
            }
        }
    }

    fn entries(&mut self, end: &str) -> Vec<Entry> {
        let mut entries = Vec::new();
        while !self.found(end) {
            let entry = if self.found("*") {
                match self.take().as_str() {
                    "text" => {
                        self.expect("=>");
                        self.expect("any");
                        Entry::Anything
                    }
                    socket => Entry::Socket(socket.into()),
                }
            } else if self.found("~") {
                Entry::Unwrap(self.take())
            } else {
                let optional = self.found("?");
                let key = self.take();
                self.expect(":");
                Entry::Field(optional, key, self.ty())
            };
            entries.push(entry);
        }
        entries
    }
}

impl Schema {
    pub(crate) fn new() -> Self {
        let mut this = Self {
            types: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        for text in SCHEMAS {
            let mut parser = Parser(tokens(text).into_iter().peekable());
            while parser.0.peek().is_some() {
                let name = parser.take();
                match parser.take().as_str() {
                    "//=" => {
                        parser.expect("(");
                        let entries = parser.entries(")");
                        this.groups.entry(name).or_default().extend(entries);
                    }
                    "=" | "/=" => this.types.entry(name).or_default().push(parser.ty()),
                    other => panic!("{name} {other}"),
                }
            }
        }
        this
    }

    /// Everything in a file that is not as its schemas have it, and how many events of each name it has.
    pub(crate) fn check(&self, file: &str) -> (Vec<String>, BTreeMap<String, usize>) {
        let (mut wrong, mut names) = (Vec::new(), BTreeMap::new());
        let mut last = 0.0;
        for (number, text) in file.split('\x1e').enumerate() {
            // RFC 7464: every text begins with the separator and ends with a line feed.
            if number == 0 || !text.ends_with('\n') {
                if !text.is_empty() {
                    wrong.push(format!("{number}: not framed: {text}"));
                }
                continue;
            }
            let value: Value = match serde_json::from_str(text) {
                Ok(value) => value,
                Err(error) => {
                    wrong.push(format!("{number}: {error}: {text}"));
                    continue;
                }
            };
            let mut errors = Vec::new();
            if number == 1 {
                self.value(&value, &Type::Name("QlogFileSeq".into()), "", &mut errors);
            } else {
                let name = value["name"].as_str().unwrap_or_default().to_owned();
                self.event(&value, &name, &mut errors);
                let time = value["time"].as_f64().unwrap_or(-1.0);
                if time < last {
                    errors.push(format!("time {time} after {last}"));
                }
                last = time;
                *names.entry(name).or_insert(0) += 1;
            }
            wrong.extend(
                errors
                    .into_iter()
                    .map(|error| format!("{number}: {error}: {text}")),
            );
        }
        (wrong, names)
    }

    fn event(&self, value: &Value, name: &str, errors: &mut Vec<String>) {
        let map = self.types["Event"][0].clone();
        let Type::Map(mut entries) = map else {
            panic!("an event is a map");
        };
        let rule = name.replace([':', '_'], "");
        let known = self.types.keys().find(|key| key.to_lowercase() == rule);
        let Some(known) = known else {
            errors.push(format!("no schema has an event {name}"));
            return;
        };
        for entry in &mut entries {
            if let Entry::Field(_, key, ty) = entry
                && key == "data"
            {
                *ty = Type::Name(known.clone());
            }
        }
        self.value(value, &Type::Map(entries), "", errors);
    }

    fn value(&self, value: &Value, ty: &Type, at: &str, errors: &mut Vec<String>) {
        let mut expect = |what: &str, holds: bool| {
            if !holds {
                errors.push(format!("{at} is not {what}"));
            }
        };
        match ty {
            Type::Name(name) => match name.as_str() {
                "any" => {}
                "text" => expect("text", value.is_string()),
                "bool" => expect("a bool", value.is_boolean()),
                "uint" => expect("a uint", value.is_u64()),
                "float32" | "float64" => expect("a number", value.is_number()),
                name => {
                    let rules = self.types.get(name);
                    let rules = rules.unwrap_or_else(|| panic!("no rule {name}"));
                    self.any_of(value, rules, at, errors);
                }
            },
            Type::Literal(literal) => expect(literal, value.as_str() == Some(literal)),
            Type::Choice(choices) => self.any_of(value, choices, at, errors),
            Type::Regexp(pattern) => {
                let hex = |text: &str| {
                    let digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
                    text.bytes().all(digit)
                };
                let text = value.as_str().unwrap_or("not text");
                let holds = match pattern.as_str() {
                    "([0-9a-f]{2})*" => text.len().is_multiple_of(2) && hex(text),
                    "crypto_error_0x1[0-9a-f][0-9a-f]" => text
                        .strip_prefix("crypto_error_0x1")
                        .is_some_and(|rest| rest.len() == 2 && hex(rest)),
                    other => panic!("no such pattern was in the drafts: {other}"),
                };
                expect(pattern, holds);
            }
            Type::Size(base, size) => {
                self.value(value, base, at, errors);
                let fits = match value {
                    Value::Number(number) => {
                        *size >= 8 || number.as_u64().is_some_and(|n| n >> (8 * size) == 0)
                    }
                    Value::String(text) => text.len() == 2 * *size as usize,
                    _ => false,
                };
                if !fits {
                    errors.push(format!("{at} is not of size {size}"));
                }
            }
            Type::Array(ty, least, most) => match value {
                Value::Array(items) if (*least..=*most).contains(&items.len()) => {
                    for item in items {
                        self.value(item, ty, &format!("{at}[]"), errors);
                    }
                }
                _ => expect("an array of that length", false),
            },
            Type::Map(entries) => match value {
                Value::Object(fields) => {
                    let mut left: Vec<&String> = fields.keys().collect();
                    let open = self.fields(fields, entries, at, &mut left, errors);
                    if !open {
                        errors.extend(left.iter().map(|key| format!("{at}.{key} is unknown")));
                    }
                }
                _ => expect("a map", false),
            },
        }
    }

    /// Strikes the fields that are there off the list. Whether there may be others.
    fn fields(
        &self,
        fields: &serde_json::Map<String, Value>,
        entries: &[Entry],
        at: &str,
        left: &mut Vec<&String>,
        errors: &mut Vec<String>,
    ) -> bool {
        let mut open = false;
        for entry in entries {
            match entry {
                Entry::Anything => open = true,
                Entry::Socket(name) => {
                    let group = self.groups.get(name).map_or(&[][..], Vec::as_slice);
                    open |= self.fields(fields, group, at, left, errors);
                }
                Entry::Unwrap(name) => match &self.types[name][0] {
                    Type::Map(inner) => open |= self.fields(fields, inner, at, left, errors),
                    other => panic!("{other:?} unwrapped"),
                },
                Entry::Field(optional, key, ty) => {
                    left.retain(|known| *known != key);
                    match fields.get(key) {
                        Some(value) => self.value(value, ty, &format!("{at}.{key}"), errors),
                        None if *optional => {}
                        None => errors.push(format!("{at}.{key} is missing")),
                    }
                }
            }
        }
        open
    }

    /// One of these; if none, what the one says that comes closest.
    fn any_of(&self, value: &Value, types: &[Type], at: &str, errors: &mut Vec<String>) {
        let tried = types.iter().map(|ty| {
            let mut found = Vec::new();
            self.value(value, ty, at, &mut found);
            found
        });
        errors.extend(tried.min_by_key(Vec::len).unwrap_or_default());
    }
}
