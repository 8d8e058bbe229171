//! Makes networks from a description with variable values: grids over lists, sampled points, values
//! that are redrawn over time.

use std::time::Duration;

use super::reader::{FileError, Item, Node, Table, Value};
use crate::file::network::Parameter;
use crate::networks::sampling::{self, Method};

/// The keys whose value is a list and not a grid.
const LISTS: [&str; 10] = [
    "outages",
    "steps",
    "paths",
    "shared",
    "cross_traffic",
    "schedulers",
    "workloads",
    "earlier",
    "vary",
    "sample",
];
/// The keys of a network's table that describe how to make networks.
const RECIPE: [&str; 4] = ["vary", "sample", "redraw", "path_count"];
/// The most networks: more than anyone can run. The limit catches typing errors.
pub(super) const MAX_NETWORKS: usize = 100_000;

/// A network with fixed values.
pub(super) struct Concrete {
    /// The values in which it differs from the others; empty if it is the only one.
    pub(super) suffix: String,
    /// The same without `handshake`, `start`, `race`, `memory` and `tokens`, which change how a connection starts and
    /// not the network.
    pub(super) twin: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) node: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Place {
    Key(String),
    Index(usize),
}

/// A value that varies, and its place.
struct Variable {
    name: String,
    places: Vec<Vec<Place>>,
    values: Values,
}

impl Variable {
    /// Whether it says only how a connection starts.
    fn is_start(&self) -> bool {
        self.places.iter().all(|place| match place.as_slice() {
            [Place::Key(key)] => matches!(
                key.as_str(),
                "handshake"
                    | "start"
                    | "race"
                    | "early_path_data"
                    | "slow_start"
                    | "memory"
                    | "tokens"
            ),
            _ => false,
        })
    }

    fn can_change(&self) -> bool {
        self.places.iter().all(|place| match place.as_slice() {
            [_, Place::Index(_), Place::Key(key)] => {
                matches!(key.as_str(), "rate" | "owd" | "jitter" | "loss")
            }
            _ => false,
        })
    }
}

enum Values {
    Grid(Vec<Node>),
    /// Line, minimum, maximum.
    Box(usize, f64, f64),
}

struct Sample {
    points: usize,
    seed: u64,
    method: Method,
}

/// All networks of one description in the order of the grid. The last variable changes fastest.
pub(super) fn expand(item: &Item<'_>) -> Result<Vec<Concrete>, FileError> {
    let table = item.table("a network's table")?;
    let sample = read_sample(&table)?;
    let redraw = read_redraw(&table)?;
    let counts = path_counts(&table)?;
    let mut node = item.node.clone();
    if let Some(most) = counts.iter().flatten().max() {
        repeat_paths(&mut node, *most);
    }
    let mut variables = read_vary(&table)?;
    let whole = Item {
        node: &node,
        ..item.clone()
    };
    find(&whole, &mut Vec::new(), "", &mut variables)?;
    if let Some(unused) = variables.iter().find(|variable| variable.places.is_empty()) {
        let fault = format!("nothing is set to \"${}\"", unused.name);
        return Err(at_key(item, &format!("vary.{}", unused.name), fault));
    }
    if let Some(counts) = &counts
        && counts.len() > 1
    {
        variables.push(Variable {
            name: "paths".into(),
            places: vec![vec![Place::Key("path_count".into())]],
            values: Values::Grid(
                counts
                    .iter()
                    .map(|&count| Node::number(node.line, count as f64))
                    .collect(),
            ),
        });
    }
    let boxes: Vec<_> = variables
        .iter()
        .filter(|variable| matches!(variable.values, Values::Box(..)))
        .collect();
    if boxes.is_empty() != sample.is_none() {
        return Err(match sample {
            None => item.error(format!(
                "`{}` is drawn from a range, expected `sample = {{ points = N, seed = N, method = \"wsp\" or \"uniform\" }}`",
                boxes[0].name
            )),
            Some(_) => at_key(item, "sample", "nothing to draw, expected a value `{ min = .., max = .. }` in a path".into()),
        });
    }
    if redraw.is_some()
        && let Some(odd) = boxes.iter().find(|variable| !variable.can_change())
    {
        let fault = format!(
            "`{}` cannot change during a run, expected a path's own rate, owd, jitter or loss",
            odd.name
        );
        return Err(at_key(item, "redraw", fault));
    }
    let drawn = match &sample {
        None => vec![Vec::new()],
        Some(sample) => {
            let points = match &redraw {
                None => sample.points,
                // One state per interval; the first one starts at 0.
                Some((every, until)) => (until.as_secs_f64() / every.as_secs_f64()).ceil() as usize,
            };
            sampling::points(sample.method, points.max(1), boxes.len(), sample.seed)
        }
    };
    let grids: Vec<_> = variables
        .iter()
        .filter_map(|variable| match &variable.values {
            Values::Grid(values) => Some((variable, values)),
            Values::Box(..) => None,
        })
        .collect();
    let combinations = grids
        .iter()
        .try_fold(1_usize, |n, grid| n.checked_mul(grid.1.len()))
        .filter(|&n| n.saturating_mul(drawn.len()) <= MAX_NETWORKS)
        .ok_or_else(|| item.error(format!("stands for more than {MAX_NETWORKS} networks")))?;

    let mut networks = Vec::new();
    for combination in 0..combinations {
        let mut fixed = node.clone();
        let mut parameters = Vec::new();
        let mut left = combination;
        for (variable, values) in grids.iter().rev() {
            let value = &values[left % values.len()];
            left /= values.len();
            put(&mut fixed, variable, value);
            parameters.push(Parameter::new(&variable.name, value.label()));
        }
        parameters.reverse();
        let label = |parameter: &Parameter| format!("{}={}", parameter.name, parameter.value);
        let labels: Vec<_> = parameters.iter().map(label).collect();
        let grid_suffix = labels.join(",");
        let of_network = grids.iter().zip(&parameters);
        let of_network = of_network.filter(|((variable, _), _)| !variable.is_start());
        let labels: Vec<_> = of_network.map(|(_, parameter)| label(parameter)).collect();
        let grid_twin = labels.join(",");
        if redraw.is_some() {
            let mut fixed = fixed.clone();
            redraw_over_time(&mut fixed, &boxes, &drawn, redraw.as_ref());
            networks.push(finish(fixed, [grid_suffix, grid_twin], parameters));
            continue;
        }
        for (number, point) in drawn.iter().enumerate() {
            let mut fixed = fixed.clone();
            let mut parameters = parameters.clone();
            for (variable, unit) in boxes.iter().zip(point) {
                let value = at(variable, *unit);
                put(&mut fixed, variable, &value);
                parameters.push(Parameter::drawn(&variable.name, value.label()));
            }
            let mut suffixes = [grid_suffix.clone(), grid_twin.clone()];
            if sample.is_some() {
                for suffix in &mut suffixes {
                    if !suffix.is_empty() {
                        suffix.push('/');
                    }
                    *suffix += &format!("{:03}", number + 1);
                }
            }
            networks.push(finish(fixed, suffixes, parameters));
        }
    }
    Ok(networks)
}

fn finish(mut node: Node, suffixes: [String; 2], parameters: Vec<Parameter>) -> Concrete {
    if let Value::Table(entries) = &mut node.value {
        let count = entries.iter().find_map(|(key, value)| match value.value {
            Value::Number(count, _) if key == "path_count" => Some(count as usize),
            _ => None,
        });
        for (key, value) in entries.iter_mut() {
            if let (Value::List(paths), "paths", Some(count)) =
                (&mut value.value, key.as_str(), count)
            {
                paths.truncate(count);
            }
        }
        entries.retain(|(key, _)| !RECIPE.contains(&key.as_str()));
    }
    let [suffix, twin] = suffixes;
    Concrete {
        suffix,
        twin,
        parameters,
        node,
    }
}

/// A value within a box, rounded so that the network's name shows it completely.
fn at(variable: &Variable, unit: f64) -> Node {
    match variable.values {
        Values::Box(line, low, high) => {
            let value = low + unit * (high - low);
            Node::number(line, (value * 1e4).round() / 1e4)
        }
        Values::Grid(_) => Node::number(0, unit),
    }
}

fn put(node: &mut Node, variable: &Variable, value: &Node) {
    for place in &variable.places {
        set(node, place, value);
    }
}

fn set(node: &mut Node, place: &[Place], new: &Node) {
    let Some((first, rest)) = place.split_first() else {
        *node = new.clone();
        return;
    };
    let child = match (&mut node.value, first) {
        (Value::Table(entries), Place::Key(key)) => entries
            .iter_mut()
            .find(|entry| entry.0 == *key)
            .map(|entry| &mut entry.1),
        (Value::List(list), Place::Index(index)) => list.get_mut(*index),
        _ => None,
    };
    if let Some(child) = child {
        set(child, rest, new);
    }
}

/// The first point applies from the start. Each other point becomes a step of its paths.
fn redraw_over_time(
    node: &mut Node,
    boxes: &[&Variable],
    points: &[Vec<f64>],
    redraw: Option<&(Duration, Duration)>,
) {
    let Some((every, _)) = redraw else { return };
    for (number, point) in points.iter().enumerate() {
        for (variable, unit) in boxes.iter().zip(point) {
            let value = at(variable, *unit);
            if number == 0 {
                put(node, variable, &value);
                continue;
            }
            for place in &variable.places {
                add_step(node, place, number, *every, &value);
            }
        }
    }
}

/// Adds a value to the step with this number of the path at `place`, and creates the step if it
/// does not exist.
fn add_step(node: &mut Node, place: &[Place], number: usize, every: Duration, value: &Node) {
    let [Place::Key(_), Place::Index(path), Place::Key(key)] = place else {
        return;
    };
    let Value::Table(network) = &mut node.value else {
        return;
    };
    let Some((_, paths)) = network.iter_mut().find(|entry| entry.0 == "paths") else {
        return;
    };
    let Value::List(paths) = &mut paths.value else {
        return;
    };
    let Some(Value::Table(path)) = paths.get_mut(*path).map(|path| &mut path.value) else {
        return;
    };
    if !path.iter().any(|entry| entry.0 == "steps") {
        let steps = Node {
            line: value.line,
            value: Value::List(Vec::new()),
        };
        path.push(("steps".into(), steps));
    }
    let steps = path.iter_mut().find(|entry| entry.0 == "steps");
    let Some(Value::List(steps)) = steps.map(|entry| &mut entry.1.value) else {
        return;
    };
    if steps.len() < number {
        let at = every.as_secs_f64() * 1e3 * number as f64;
        let at = Node::number(value.line, at);
        steps.push(Node {
            line: value.line,
            value: Value::Table(vec![("at".into(), at)]),
        });
    }
    if let Some(Value::Table(step)) = steps.last_mut().map(|step| &mut step.value) {
        step.push((key.clone(), value.clone()));
    }
}

/// Collects the values that vary.
fn find(
    item: &Item<'_>,
    place: &mut Vec<Place>,
    owner: &str,
    variables: &mut Vec<Variable>,
) -> Result<(), FileError> {
    let Value::Table(_) = &item.node.value else {
        return Ok(());
    };
    for (key, child) in item.table("a table")?.all() {
        place.push(Place::Key(key.to_owned()));
        match &child.node.value {
            Value::Table(_) if key == "earlier" && place.len() == 1 => {
                find(&child, place, "earlier", variables)?;
            }
            Value::List(_) if key == "paths" && (place.len() == 1 || owner == "earlier") => {
                for (index, path) in child.list().iter().enumerate() {
                    place.push(Place::Index(index));
                    find(path, place, &format!("{owner}{}", index + 1), variables)?;
                    place.pop();
                }
            }
            Value::Table(_) if matches!(key, "up" | "down" | "trace" | "burst_loss") => {
                find(&child, place, &format!("{owner}.{key}"), variables)?;
            }
            _ if LISTS.contains(&key) || RECIPE.contains(&key) => {}
            Value::Text(text) if text.starts_with('$') => {
                let name = &text[1..];
                let known = variables.iter_mut().find(|variable| variable.name == name);
                match known {
                    Some(variable) => variable.places.push(place.clone()),
                    None => return Err(child.expected("the name of a list in `vary`")),
                }
            }
            Value::List(_) | Value::Table(_) => variables.push(Variable {
                name: format!("{key}{owner}"),
                places: vec![place.clone()],
                values: values(&child)?,
            }),
            _ => {}
        }
        place.pop();
    }
    Ok(())
}

const VALUES: &str =
    "a value, a list of values, { from = .., to = .., step = .. } or { min = .., max = .. }";

fn values(item: &Item<'_>) -> Result<Values, FileError> {
    if let Value::List(list) = &item.node.value {
        if list.is_empty() {
            return Err(item.error("empty list, expected at least one value"));
        }
        if let Some(odd) = item
            .list()
            .into_iter()
            .find(|item| matches!(item.node.value, Value::List(_) | Value::Table(_)))
        {
            return Err(odd.expected("a number or a string"));
        }
        return Ok(Values::Grid(list.clone()));
    }
    let table = item.table(VALUES)?;
    if let Some(low) = table.get("min") {
        let high = table.require("max", "the largest value")?;
        let (bottom, top) = (low.float("a number")?, high.float("a number")?);
        if bottom > top {
            return Err(high.expected("a number not below `min`"));
        }
        table.finish()?;
        return Ok(Values::Box(item.node.line, bottom, top));
    }
    let Some(from) = table.get("from") else {
        return Err(item.expected(VALUES));
    };
    let (to, step) = (
        table.require("to", "the last value")?,
        table.require("step", "the distance between values")?,
    );
    let (first, last) = (from.float("a number")?, to.float("a number")?);
    let width = step.float("a number above 0")?;
    if width <= 0.0 || last < first {
        return Err(item.error("expected `step` above 0 and `to` not below `from`"));
    }
    // Half a step of tolerance for the rounding of decimal fractions.
    let count = ((last - first) / width + 0.5).floor();
    if count >= MAX_NETWORKS as f64 {
        return Err(step.error(format!("gives more than {MAX_NETWORKS} values")));
    }
    table.finish()?;
    Ok(Values::Grid(
        (0..=count as usize)
            .map(|n| Node::number(item.node.line, first + n as f64 * width))
            .collect(),
    ))
}

fn read_vary(table: &Table<'_>) -> Result<Vec<Variable>, FileError> {
    let Some(item) = table.get("vary") else {
        return Ok(Vec::new());
    };
    item.table("a table of lists, as { delay = [80, 140] } for `owd = \"$delay\"`")?
        .all()
        .map(|(name, item)| {
            Ok(Variable {
                name: name.to_owned(),
                places: Vec::new(),
                values: values(&item)?,
            })
        })
        .collect()
}

/// The lists of a `vary` that does not belong to a network, each with its name.
pub(super) fn lists(item: &Item<'_>) -> Result<Vec<(String, Vec<Node>)>, FileError> {
    let mut lists = Vec::new();
    for (name, item) in item
        .table("a table of lists, as { p = [0, 0.5, 1] } for `\"$p\"`")?
        .all()
    {
        match values(&item)? {
            Values::Grid(values) => lists.push((name.to_owned(), values)),
            Values::Box(..) => {
                return Err(item.expected("a list of values, or { from = .., to = .., step = .. }"));
            }
        }
    }
    Ok(lists)
}

fn read_sample(table: &Table<'_>) -> Result<Option<Sample>, FileError> {
    let Some(item) = table.get("sample") else {
        return Ok(None);
    };
    let inner = item.table("{ points = 100, seed = 1, method = \"wsp\" or \"uniform\" }")?;
    let points = match inner.get("points") {
        Some(points) => points.integer(1, 10_000, "a whole number from 1 to 10000")?,
        None if table.get("redraw").is_some() => 1,
        None => {
            return inner
                .require("points", "how many points to draw")
                .map(|_| None);
        }
    };
    let seed = match inner.get("seed") {
        Some(seed) => seed.integer(0, 1 << 53, "a whole number")?,
        None => 1,
    };
    let method = match inner.get("method") {
        None => Method::Wsp,
        Some(item) => match item.text("\"wsp\" or \"uniform\"")? {
            "wsp" => Method::Wsp,
            "uniform" => Method::Uniform,
            _ => return Err(item.expected("\"wsp\" or \"uniform\"")),
        },
    };
    inner.finish()?;
    Ok(Some(Sample {
        points: points as usize,
        seed,
        method,
    }))
}

fn read_redraw(table: &Table<'_>) -> Result<Option<(Duration, Duration)>, FileError> {
    let Some(item) = table.get("redraw") else {
        return Ok(None);
    };
    let inner = item.table("{ every = \"60s\", until = \"3000s\" }")?;
    let time = |key, what| -> Result<Duration, FileError> {
        let item = inner.require(key, what)?;
        let time = item.time()?;
        if time < Duration::from_millis(1) {
            return Err(item.expected("at least 1 ms"));
        }
        Ok(time)
    };
    let times = (
        time("every", "a time like \"60s\"")?,
        time("until", "a time like \"3000s\"")?,
    );
    inner.finish()?;
    if times.1.as_secs_f64() / times.0.as_secs_f64() > 10_000.0 {
        return Err(item.error("more than 10000 redraws"));
    }
    Ok(Some(times))
}

fn path_counts(table: &Table<'_>) -> Result<Option<Vec<usize>>, FileError> {
    let Some(item) = table.get("path_count") else {
        return Ok(None);
    };
    let counts = item.list().into_iter().map(|item| {
        item.integer(1, 8, "a number of paths from 1 to 8, or a list of them")
            .map(|count| count as usize)
    });
    counts.collect::<Result<Vec<_>, _>>().map(Some)
}

/// Repeats the paths in turn until there are `count` of them.
fn repeat_paths(node: &mut Node, count: usize) {
    let Value::Table(entries) = &mut node.value else {
        return;
    };
    for (key, value) in entries {
        if let (Value::List(paths), "paths") = (&mut value.value, key.as_str())
            && !paths.is_empty()
        {
            let given = paths.clone();
            *paths = given.iter().cycle().take(count).cloned().collect();
        }
    }
}

fn at_key(item: &Item<'_>, key: &str, message: String) -> FileError {
    let mut error = item.error(message);
    error.key = format!("{}.{key}", item.key);
    error
}
