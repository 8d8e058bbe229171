//! Findings about made-up scenarios, where the truth is known.

use super::*;
use crate::networks::sampling::Draws;

/// The logarithm of a cost in a scenario, on a seed.
type Cost = fn(usize, usize) -> f64;

/// Scenarios with the logarithms of costs of schedulers: all seeds alike, unless noise is added.
fn made_up(count: usize, costs: &[(&str, Cost)]) -> Vec<Scenario> {
    let one = |number: usize| Scenario {
        name: format!("made/{number}"),
        paths: format!("path 1 | path 2 of {number}"),
        source: ["prior", "release"][number % 2].into(),
        group: ["prior plain", "prior loss", "world falls"][number % 3].into(),
        kind: ["file", "page", "video"][number % 3].into(),
        congestion: ["olia", "bbr3"][number / 2 % 2].into(),
        twin: format!("made/{}", number / 2),
        costs: costs
            .iter()
            .map(|(label, cost)| {
                let seeds = (0..6).map(|seed| cost(number, seed));
                ((*label).to_owned(), seeds.collect())
            })
            .collect(),
        with_handshake: BTreeMap::new(),
        queues: BTreeMap::new(),
        twice: BTreeMap::from([("best".to_owned(), vec![number as f64, 2.0])]),
        failed: BTreeMap::new(),
    };
    (0..count).map(one).collect()
}

fn row<'a>(arena: &'a Arena, label: &str) -> &'a Row {
    let row = arena.rows.iter().find(|row| row.scheduler == label);
    row.unwrap()
}

#[test]
fn regrets_shares_and_names_are_those_of_the_truth() {
    // `best` is the best but in scenario 7, where it takes half as long again as minRTT.
    let scenarios = made_up(
        20,
        &[
            (
                "best",
                |number, _| if number == 7 { 1.5_f64.ln() } else { 0.0 },
            ),
            (
                "minrtt",
                |number, _| {
                    if number == 7 { 0.0 } else { 1.03_f64.ln() }
                },
            ),
            ("ecf", |_, _| 1.5_f64.ln()),
            ("path 1", |_, _| 1.2_f64.ln()),
            ("path 2", |number, _| {
                if number == 3 {
                    0.9_f64.ln()
                } else {
                    2.0_f64.ln()
                }
            }),
        ],
    );
    let arena = Arena::of(scenarios, vec!["path 1".into(), "path 2".into()]).unwrap();
    assert_eq!(arena.scenarios, 20);
    assert_eq!(arena.seeds, [6, 6]);
    assert_eq!(arena.rivals, ["minrtt", "ecf"]);
    let labels: Vec<_> = arena.rows.iter().map(|row| &*row.scheduler).collect();
    assert_eq!(
        labels,
        ["best", "minrtt", "ecf"],
        "single paths have no row"
    );

    let best = row(&arena, "best");
    assert!((best.regret.median - 1.0).abs() < 1e-9);
    assert!((best.regret.worst - 1.5).abs() < 1e-9);
    assert_eq!(best.regret.where_worst[0].scenario, "made/7");
    let [two, five] = [&best.within[0], &best.within[1]];
    assert_eq!((two.estimate, two.shown), (0.95, 0.95));
    assert!((two.behind - 0.05).abs() < 1e-9);
    assert_eq!(five.estimate, 0.95);
    // Scenario 7 is of the source `release`.
    assert_eq!(best.by_source["prior"].estimate, 1.0);
    assert_eq!(best.by_source["release"].estimate, 0.9);
    let minrtt = row(&arena, "minrtt");
    assert_eq!(
        (minrtt.within[0].estimate, minrtt.within[1].estimate),
        (0.05, 1.0)
    );

    let against = |row: &Row, rival: &str| {
        let found = row.overall.iter().find(|compared| compared.rival == rival);
        found.map(|compared| (compared.ratio, compared.differs))
    };
    let (ratio, differs) = against(minrtt, "ecf").unwrap();
    let expected = ((19.0 * 1.03_f64.ln()) / 20.0 - 1.5_f64.ln()).exp();
    assert!((ratio - expected).abs() < 1e-9 && differs);
    assert_eq!(against(minrtt, "minrtt"), None);
    // Twins count once.
    assert_eq!(minrtt.overall[0].scenarios, 10);

    // Scenarios 2, 5, 8, 11, 14 and 17 are of this kind, 3 and 7 are not; 7 is the only one of `prior loss` with a regret.
    let kind = |kind: &str| &best.by_kind[kind];
    assert_eq!(
        (kind("world falls").scenarios, kind("prior loss").scenarios),
        (6, 7)
    );
    assert_eq!(kind("world falls").within, [1.0, 1.0]);
    assert!((kind("world falls").regret - 1.0).abs() < 1e-9);
    assert!((kind("prior loss").within[0] - 6.0 / 7.0).abs() < 1e-9);
    assert_eq!(kind("world falls").never_slower, Some(1.0));
    assert!((kind("prior plain").never_slower.unwrap() - 6.0 / 7.0).abs() < 1e-9);
    // The means of 2, 5, 8, 11, 14, 17 and of six times 2.
    assert!((kind("world falls").twice - (9.5 + 2.0) / 2.0).abs() < 1e-9);

    // The better path is path 1 but in scenario 3.
    let alone = best.alone.as_ref().unwrap();
    assert!((alone.slower - 0.1).abs() < 1e-9, "in scenarios 3 and 7");
    assert!((alone.worst - 1.25).abs() < 1e-9);
    assert_eq!(alone.where_worst, "made/7");
}

/// Three seconds from the request on with all paths, two with the better one, whose handshake takes a second longer.
#[test]
fn a_single_path_has_its_own_handshake() {
    let slower = |growth: f64| {
        let mut scenarios = made_up(
            10,
            &[
                ("best", |_, _| 3_f64.ln()),
                ("minrtt", |_, _| 4_f64.ln()),
                ("path 1", |_, _| 2_f64.ln()),
            ],
        );
        for scenario in &mut scenarios {
            scenario.with_handshake = BTreeMap::from([("path 1".to_owned(), vec![growth; 6])]);
        }
        let arena = Arena::of(scenarios, vec!["path 1".into()]).unwrap();
        let alone = row(&arena, "best").alone.as_ref().unwrap();
        (alone.ratio, alone.slower_by_2)
    };
    assert!(slower(0.0).1 > 0.99);
    let (ratio, slower) = slower(1.5_f64.ln());
    assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
    assert!(slower < 0.01);
}

#[test]
fn noise_alone_is_no_difference() {
    fn noise(number: usize, seed: usize, salt: u64) -> f64 {
        let mut draws = Draws::new(salt * 1_000_000 + (number * 1000 + seed) as u64);
        draws.unit() - 0.5
    }
    let scenarios = made_up(
        60,
        &[
            ("minrtt", |number, seed| noise(number, seed, 1)),
            ("ecf", |number, seed| noise(number, seed, 5)),
        ],
    );
    let arena = Arena::of(scenarios, Vec::new()).unwrap();
    for row in &arena.rows {
        assert!(row.overall.iter().all(|compared| !compared.differs));
        assert!(row.within[0].behind < 0.1, "{:?}", row.within[0]);
        assert!(row.alone.is_none());
        assert!(row.regret.naive_mean >= row.regret.mean);
    }
}

#[test]
fn tables_have_all_schedulers_in_all_forms() {
    let scenarios = made_up(
        12,
        &[
            ("minrtt", |number, _| number as f64 / 10.0),
            ("ecf", |_, _| 0.3),
            ("path 1", |_, _| 0.5),
        ],
    );
    let arena = Arena::of(scenarios, vec!["path 1".into()]).unwrap();
    for text in [text(&arena), markdown(&arena)] {
        assert!(
            text.contains("2 schedulers in 12 scenarios, 6 seeds each."),
            "{text}"
        );
        for title in [
            "Regret to the best",
            "Where the",
            "By workload",
            "Against the better path",
            "By the kind of the network",
        ] {
            assert!(text.contains(title), "{title}");
        }
        assert!(!text.contains("NaN"));
    }
    // All rows of a Markdown table have as many cells as its head, although two paths have a bar between them.
    let bars = |line: &str| line.matches('|').count() - line.matches(r"\|").count();
    let mut cells = 0;
    for line in markdown(&arena).lines() {
        match line.starts_with('|') {
            false => cells = 0,
            true if cells == 0 => cells = bars(line),
            true => assert_eq!(bars(line), cells, "{line}"),
        }
    }
    let lines = json(&arena);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["scenarios"], 12);
    assert_eq!(lines[1]["within"][0]["scenarios"], 12);
    let plot = crate::view::report::regrets(&arena.curves());
    assert!(plot.starts_with("<svg xmlns") && plot.contains("minrtt"));
}

#[test]
fn nobody_is_judged_alone() {
    assert!(Arena::of(made_up(3, &[("minrtt", |_, _| 0.0)]), Vec::new()).is_none());
    assert!(Arena::of(Vec::new(), Vec::new()).is_none());
}
