//! Tests of the whole report: it is well-formed and self-contained, and shows the results.

use std::path::Path;

use super::*;
use crate::file::experiment::Experiment;
use crate::plan::Plan;
use crate::result::record::{Heading, Measured, Outcome as Run, Record};
use crate::result::store::Results;

/// The results of an experiment whose values are a function of cell and seed.
fn results(text: &str, value: impl Fn(&str, &str, u64) -> Option<f64>) -> Results {
    let experiment = Experiment::parse("test.toml", text).unwrap();
    let plan = Plan::new(&experiment, None);
    let mut records = Vec::new();
    for cell in &plan.cells {
        for &seed in &plan.seeds {
            let outcome = match value(&cell.id.network, &cell.id.scheduler, seed) {
                Some(value) => Run::Done(Measured {
                    value,
                    bounds: [("completion".to_owned(), 0.5)].into(),
                    values: [("completion".to_owned(), value)].into(),
                    series: Default::default(),
                    trace_hash: format!("{seed:032x}"),
                }),
                None => Run::Failed {
                    error: "no <way> & no \"time\"".into(),
                },
            };
            records.push(Record {
                cell: cell.fingerprint.clone(),
                network: cell.id.network.clone(),
                workload: cell.id.workload.clone(),
                congestion: cell.id.congestion.clone(),
                scheduler: cell.id.scheduler.clone(),
                seed,
                outcome,
            });
        }
    }
    Results {
        heading: Heading::new(&experiment, "test"),
        records,
    }
}

const HEAD: &str = "title = \"A <test> & more\"\nworkloads = [\"file:2MB\"]\nseeds = 8\n\
                    schedulers = [\"minrtt\", \"rr\"]\n";

fn render(results: &Results) -> String {
    html(&Board::new(results), Path::new("")).unwrap()
}

/// Every tag must be closed in the right order.
fn check_tags(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag that ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') || tag.ends_with('/') {
            continue;
        }
        if tag == "style" {
            // CSS has signs that look like tags to this check.
            rest = &rest[rest.find("</style>").unwrap() + 8..];
            continue;
        }
        let name = tag.split([' ', '\n']).next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "before {:.80}", rest),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn check(html: &str) {
    check_tags(html);
    for outside in ["http:", "https:", "src=", "@import", "url(", "<script"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(
        !html.contains("NaN") && !html.contains("inf"),
        "a number that is none"
    );
}

#[test]
fn single_networks_have_tables_plots_and_verdicts() {
    let text = format!(
        "{HEAD}[[network]]\nname = \"a\"\npaths = \"50Mbit 20ms | 2Mbit 100ms\"\n\
         [[claim]]\ntext = \"minRTT <wins>\"\nsource = \"figure 1\"\nbetter = [\"minrtt\"]\nworse = [\"rr\"]\nby = \"20%\"\n\
         [[paper]]\nscheduler = \"rr\"\nvalue = 1.7\nsource = \"table 9\"\n"
    );
    let html = render(&results(&text, |_, scheduler, seed| {
        Some(if scheduler == "rr" { 1.5 } else { 1.0 } + 0.01 * seed as f64)
    }));
    check(&html);
    for part in [
        "A &lt;test&gt; &amp; more",
        "<b>minRTT &lt;wins&gt;</b>",
        "holds: minrtt is better than rr in completion: -32.4 % (-32.4 to -32.4), 8 paired seeds; the paper says 20 %",
        "worse: +47.8 % (+47.8 to +47.8)",
        "<td title=\"table 9\">1.7</td>",
        "the paper gives 1.7 for rr",
        "box plots of completion [s]",
        "distribution of completion [s]",
    ] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn failed_runs_are_shown_and_left_out() {
    let text = format!("{HEAD}[[network]]\nname = \"a\"\npaths = \"50Mbit 20ms | 2Mbit 100ms\"\n");
    let html = render(&results(&text, |_, scheduler, seed| {
        (scheduler != "rr" || seed != 3).then_some(1.0)
    }));
    check(&html);
    assert!(html.contains("(1 failed)"));
    assert!(html.contains("seed 3: no &lt;way&gt; &amp; no &quot;time&quot;"));
    let all_failed = render(&results(&text, |_, _, _| None));
    check(&all_failed);
}

#[test]
fn grids_become_lines_and_heat_maps_and_samples_gains() {
    let value = |_: &str, scheduler: &str, seed: u64| {
        Some(if scheduler == "rr" { 2.0 } else { 1.0 } + 0.01 * seed as f64)
    };
    let line =
        format!("{HEAD}[[network]]\nname = \"a\"\npaths = [{{ rate = [1, 2, 5], owd = 20 }}]\n");
    let html = render(&results(&line, value));
    check(&html);
    assert!(html.contains("completion [s] over rate1"));

    let map = format!(
        "{HEAD}[[network]]\nname = \"a\"\npaths = [{{ rate = [1, 2, 5], owd = [10, 20], loss = [0, 1] }}]\n"
    );
    let html = render(&results(&map, value));
    check(&html);
    assert!(html.contains("rr against minrtt: gain in completion [%]"));
    assert!(html.contains("loss1=0") && html.contains("loss1=1"));
    assert!(html.contains("Above 0 on 0 of 12 networks"));

    let sample = format!(
        "{HEAD}[[network]]\nname = \"a\"\nsample = {{ points = 15 }}\n\
         paths = [{{ rate = {{ min = 1, max = 5 }}, owd = 20 }}]\n"
    );
    let html = render(&results(&sample, value));
    check(&html);
    assert!(html.contains("gain against minrtt [%], one value per network"));
    assert!(html.contains("a (15)"));
}

#[test]
fn families_become_lines_over_their_setting() {
    let head = HEAD.replace(
        "\"rr\"",
        "{ name = \"ecf_a\", config = { p_wait = \"$p\" }, vary = { p = [0, 0.5, 1] } }",
    );
    let text = format!("{head}[[network]]\nname = \"a\"\npaths = \"50Mbit 20ms | 2Mbit 100ms\"\n");
    let html = render(&results(&text, |_, scheduler, seed| {
        Some(scheduler.len() as f64 + 0.01 * seed as f64)
    }));
    check(&html);
    for part in [
        "Over a scheduler's setting",
        "completion [s] over p",
        "<h3>ecf_a</h3>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // The only scheduler without the setting is level from end to end.
    assert_eq!(html.matches("minrtt: 6.045 at p ").count(), 2);
    assert_eq!(html.matches("ecf_a: ").count(), 3);
}

#[test]
fn where_time_went_becomes_stacked_bars_and_orders_a_table() {
    let text = format!(
        "{HEAD}time_lost = true\n[[network]]\nname = \"a\"\npaths = \"50Mbit 20ms | 2Mbit 100ms\"\n\
         handshake = [1, 2]\n"
    );
    let mut results = results(&text, |network, _, _| {
        Some(if network.ends_with('2') { 1.5 } else { 1.0 })
    });
    let without = render(&results);
    assert!(!without.contains("Where the time went"));
    for record in &mut results.records {
        let Run::Done(measured) = &mut record.outcome else {
            panic!("a failed run");
        };
        let all = crate::run::time_lost::metrics().enumerate();
        let all = all.map(|(number, metric)| (metric.name, number as f64 / 10.0));
        measured.values.extend(all);
    }
    let html = render(&results);
    check(&html);
    // `opening` is the fourth part after the total; 0.4 of 0.0 s in all.
    for part in [
        "Where the time went",
        "stacked bars of time of a download [s], mean",
        "minrtt: opening 0.4 s",
        "the bound with this start: 2.6 s",
        "Which path carries the handshake",
        "<td>1.5</td><td>1.5</td><td>1.5</td>",
        "<th>startup</th>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // One drawing for each of the two orders.
    assert_eq!(html.matches("stacked bars of").count(), 2);
}
