//! The live screen: what each link does, and keys to take one out.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{
    self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{cursor, execute, queue};

use crate::client::Client;
use crate::report::Report;
use crate::rows::{Row, Rows};

/// Those that a key goes through; `--scheduler` knows more.
const SCHEDULERS: [&str; 6] = [
    "arrival",
    "minrtt",
    "ecf",
    "blest",
    "roundrobin",
    "redundant",
];
/// How often it is drawn.
const PERIOD: Duration = Duration::from_millis(500);
/// How soon it notices that the client stops.
const LOOK: Duration = Duration::from_millis(100);
/// A link that is out and carries more bytes per second than this carries data: less is what keeps its path.
const KEEPING: f64 = 12_500.0;

/// Draws the links of `client` until the user quits by `q` or Ctrl-C, or the client stops. Blocks: give it a thread of its own.
///
/// What the client tells meanwhile is shown here, and not written to standard error.
///
/// # Errors
///
/// If the terminal fails. It is left as it was found, as far as it takes that.
pub fn show(client: &Client) -> io::Result<()> {
    enable_raw_mode()?;
    client.journal.set_on_screen(true);
    let shown = execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
        .and_then(|()| draw_until_quit(client));
    let left = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
    client.journal.set_on_screen(false);
    let cooked = disable_raw_mode();
    shown.and(left).and(cooked)
}

fn draw_until_quit(client: &Client) -> io::Result<()> {
    let mut before = Report::default();
    let mut rows = Rows::default();
    let mut drawn = Instant::now();
    loop {
        let report = client.report();
        rows.update(&before, &report);
        let text = table(&About::of(client), &rows, drawn.elapsed());
        drawn = Instant::now();
        let mut out = io::stdout().lock();
        queue!(out, Clear(ClearType::All), cursor::MoveTo(0, 0))?;
        out.write_all(fitted(&text, terminal::size().ok()).as_bytes())?;
        out.flush()?;
        drop(out);
        while let Some(left) = PERIOD.checked_sub(drawn.elapsed()) {
            if client.is_stopping() {
                return Ok(());
            }
            if !poll(left.min(LOOK))? {
                continue;
            }
            match action(&read()?, &rows) {
                Action::Quit => return Ok(()),
                Action::Toggle(local, out) => {
                    // A link that just went has nothing to be switched; the last one stays in, as the line below says.
                    let _ = client.set_out(local, out);
                }
                Action::Scheduler => {
                    // All of them are in the registry.
                    let _ = client.set_scheduler(after(&client.scheduler_in_use()));
                }
                Action::None => {}
            }
        }
        before = report;
    }
}

#[derive(Debug, PartialEq)]
enum Action {
    Quit,
    /// Takes a link out, or in again.
    Toggle(IpAddr, bool),
    Scheduler,
    None,
}

fn action(event: &Event, rows: &Rows) -> Action {
    let Event::Key(KeyEvent {
        code,
        modifiers,
        kind: KeyEventKind::Press | KeyEventKind::Repeat,
        ..
    }) = event
    else {
        return Action::None;
    };
    match code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Char('s') => Action::Scheduler,
        // Raw mode takes the signal away.
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Action::Quit,
        KeyCode::Char(digit) => {
            let key = digit.to_digit(10).and_then(|digit| digit.checked_sub(1));
            let row = key.and_then(|key| rows.get(key as usize));
            row.map_or(Action::None, |row| {
                let out = row.now.is_some_and(|figures| figures.out);
                Action::Toggle(row.local, !out)
            })
        }
        _ => Action::None,
    }
}

/// The scheduler after this one.
fn after(current: &str) -> &'static str {
    let index = SCHEDULERS.iter().position(|name| *name == current);
    SCHEDULERS[index.map_or(0, |index| (index + 1) % SCHEDULERS.len())]
}

/// What the screen shows beside the links.
#[derive(Debug, Default)]
struct About {
    server: String,
    scheduler: String,
    /// TCP connections, UDP associations.
    in_use: (usize, usize),
    /// Links that were taken out by hand: others that are out are backups.
    by_hand: Vec<IpAddr>,
    lines: Vec<(Duration, String)>,
}

impl About {
    fn of(client: &Client) -> Self {
        let scheduler = match client.scheduler() {
            Some(chosen) => format!("{chosen}, both ways"),
            None => format!("{} up, the server's own down", client.scheduler_in_use()),
        };
        Self {
            server: client.server(),
            scheduler,
            in_use: client.in_use(),
            by_hand: client.outs().clone(),
            lines: client.journal.shown(),
        }
    }
}

fn name_of(row: &Row) -> String {
    match &row.interface {
        Some(interface) => format!("{interface} {}", row.local),
        None => row.local.to_string(),
    }
}

/// The table: rates are over `elapsed`.
fn table(about: &About, rows: &Rows, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let rate = |bytes: u64| bytes as f64 * 8e-6 / seconds;
    let (tcp, udp) = about.in_use;
    let mut text = format!(
        "mpquic-bond to {}: {tcp} TCP, {udp} UDP\nscheduler: {}\n\n",
        about.server, about.scheduler
    );
    let here = || rows.iter().filter_map(|row| row.now);
    let (down, up) = (
        here().map(|row| row.down).sum(),
        here().map(|row| row.up).sum(),
    );
    let all: u64 = down + up;
    let width = rows
        .iter()
        .map(|row| name_of(row).len())
        .max()
        .unwrap_or(0)
        .max(8);
    // Writing to a string does not fail.
    if here().next().is_none() {
        text.push_str("no connection\n");
    }
    let _ = writeln!(
        text,
        "    {:<width$} {:>8} {:>8} {:>7} {:>6} {:>5}",
        "link", "down", "up", "RTT ms", "loss", "share"
    );
    for (index, row) in rows.iter().enumerate() {
        let name = name_of(row);
        let Some(figures) = row.now else {
            let _ = writeln!(text, "{:>2}  {name:<width$} gone", index + 1);
            continue;
        };
        let carries = (figures.down + figures.up) as f64 / seconds > KEEPING;
        let by_hand = about.by_hand.contains(&row.local);
        let state = match (figures.out, figures.last, carries) {
            (false, ..) => "",
            (true, true, _) => "in: the last",
            (true, false, true) => "still carries",
            (true, false, false) if by_hand => "out",
            (true, false, false) => "backup",
        };
        let loss = figures.lost_packets as f64 / figures.sent_packets.max(1) as f64;
        let share = (figures.down + figures.up) as f64 / all.max(1) as f64;
        let _ = writeln!(
            text,
            "{:>2}  {name:<width$} {:>8.1} {:>8.1} {:>7.1} {:>5.2}% {:>4.0}%  {state}",
            index + 1,
            rate(figures.down),
            rate(figures.up),
            figures.rtt.as_secs_f64() * 1e3,
            100.0 * loss,
            100.0 * share,
        );
    }
    let _ = writeln!(
        text,
        "    {:<width$} {:>8.1} {:>8.1}  Mbit/s",
        "all",
        rate(down),
        rate(up)
    );
    text.push_str("\n1-9: take a link out, or in again    s: next scheduler    q: quit\n");
    for (age, line) in &about.lines {
        let _ = writeln!(text, "{:>5} s ago: {line}", age.as_secs());
    }
    text
}

/// Cut to the terminal: a line that wraps would push others out.
fn fitted(text: &str, size: Option<(u16, u16)>) -> String {
    // Some terminals do not know theirs.
    let size = size.filter(|(columns, lines)| *columns > 0 && *lines > 0);
    let (columns, lines) = size.map_or((usize::MAX, usize::MAX), |(columns, lines)| {
        (columns.into(), lines.into())
    });
    let cut = |line: &str| line.chars().take(columns).collect::<String>();
    text.lines()
        .take(lines)
        .map(cut)
        .collect::<Vec<_>>()
        .join("\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::{link, report};

    const SECOND: Duration = Duration::from_secs(1);

    fn rows(before: &Report, now: &Report) -> Rows {
        let mut rows = Rows::default();
        rows.update(before, now);
        rows
    }

    #[test]
    fn rates_are_over_what_came_since() {
        let before = report(&[link(0, "wlan0", [10, 0, 0, 1], 1_000_000)]);
        // The second path is new.
        let now = report(&[
            link(0, "wlan0", [10, 0, 0, 1], 4_000_000),
            link(1, "wwan0", [10, 0, 0, 2], 1_000_000),
        ]);
        let about = About {
            server: "server.example:4433".to_owned(),
            scheduler: "ecf, both ways".to_owned(),
            in_use: (12, 3),
            lines: vec![(7 * SECOND, "connected again".to_owned())],
            ..About::default()
        };
        let text = table(&about, &rows(&before, &now), SECOND);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "mpquic-bond to server.example:4433: 12 TCP, 3 UDP"
        );
        assert_eq!(lines[1], "scheduler: ecf, both ways");
        assert!(lines[4].starts_with(" 1  wlan0 10.0.0.1 "), "{text}");
        assert!(
            lines[4].contains(" 24.0 ") && lines[4].contains("75%"),
            "{text}"
        );
        assert!(lines[4].contains(" 1.00%"), "{text}");
        assert!(lines[5].starts_with(" 2  wwan0 10.0.0.2 "), "{text}");
        assert!(lines[5].contains(" 8.0 "), "{text}");
        assert!(
            lines[6].contains("all") && lines[6].contains(" 32.0 "),
            "{text}"
        );
        assert!(lines[9].ends_with("7 s ago: connected again"), "{text}");
        let gone = table(&about, &rows(&now, &Report::default()), PERIOD);
        assert!(gone.contains("no connection"), "{gone}");
        assert_eq!(fitted(&text, Some((0, 0))), fitted(&text, None));
        for columns in [60, 80] {
            let cut = fitted(&text, Some((columns, 8)));
            assert!(cut.lines().count() <= 8);
            assert!(
                cut.lines()
                    .all(|line| line.chars().count() <= columns.into())
            );
        }
    }

    #[test]
    fn a_row_is_out_only_while_it_carries_nothing() {
        let still = report(&[
            link(0, "eth0", [10, 0, 0, 1], 0),
            link(1, "eth1", [10, 0, 0, 2], 0),
        ]);
        let state = |received, last, by_hand| {
            let mut second = link(1, "eth1", [10, 0, 0, 2], received);
            (second.out, second.last) = (true, last);
            let mut about = About::default();
            if by_hand {
                about.by_hand.push(second.local);
            }
            let now = report(&[link(0, "eth0", [10, 0, 0, 1], 0), second]);
            let text = table(&about, &rows(&still, &now), SECOND);
            let line = text.lines().nth(5).unwrap();
            line.rsplit_once("%  ").unwrap().1.to_owned()
        };
        assert_eq!(state(100, false, true), "out");
        assert_eq!(state(100, false, false), "backup");
        assert_eq!(state(1_000_000, false, true), "still carries");
        assert_eq!(state(1_000_000, true, true), "in: the last");
        assert_eq!(state(0, true, true), "in: the last");
    }

    #[test]
    fn a_key_goes_through_the_schedulers() {
        let registry = mpquic::sched::Registry::new();
        let mut current = "of the command line";
        for expected in SCHEDULERS.iter().chain(&SCHEDULERS[..1]) {
            let next = after(current);
            assert_eq!(next, *expected);
            assert!(
                registry.factory(next, &Default::default()).is_ok(),
                "{next}"
            );
            current = next;
        }
    }

    #[test]
    fn keys_do_what_they_say() {
        let mut second = link(1, "eth1", [10, 0, 0, 2], 0);
        second.out = true;
        let now = report(&[link(0, "eth0", [10, 0, 0, 1], 0), second]);
        let rows = rows(&Report::default(), &now);
        let key = |code, modifiers| action(&Event::Key(KeyEvent::new(code, modifiers)), &rows);
        let plain = KeyModifiers::NONE;
        assert_eq!(key(KeyCode::Char('q'), plain), Action::Quit);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Action::Quit);
        assert_eq!(key(KeyCode::Char('s'), plain), Action::Scheduler);
        assert_eq!(key(KeyCode::Char('c'), plain), Action::None);
        assert_eq!(
            key(KeyCode::Char('1'), plain),
            Action::Toggle([10, 0, 0, 1].into(), true)
        );
        assert_eq!(
            key(KeyCode::Char('2'), plain),
            Action::Toggle([10, 0, 0, 2].into(), false)
        );
        for code in ['0', '3', 'x'] {
            assert_eq!(key(KeyCode::Char(code), plain), Action::None);
        }
        // Windows tells when a key is let go, too.
        let mut released = KeyEvent::new(KeyCode::Char('q'), plain);
        released.kind = KeyEventKind::Release;
        assert_eq!(action(&Event::Key(released), &rows), Action::None);
    }
}
