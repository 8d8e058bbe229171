//! The live screen: what each link does, and keys to take one out.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, poll, read};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};

use crate::client::Client;
use crate::report::{LinkReport, Report};

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

/// Draws the links of `client` until the user quits by `q` or Ctrl-C. Blocks: give it a thread of its own.
///
/// # Errors
///
/// If the terminal fails. It is left as it was found.
pub fn show(client: &Client) -> io::Result<()> {
    enable_raw_mode()?;
    let shown = execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
        .and_then(|()| draw_until_quit(client));
    let left = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
    disable_raw_mode()?;
    shown.and(left)
}

fn draw_until_quit(client: &Client) -> io::Result<()> {
    let mut before = Report::default();
    let mut drawn = Instant::now();
    loop {
        let report = client.report();
        let scheduler = client.scheduler();
        let text = table(&before, &report, drawn.elapsed(), scheduler.as_deref());
        drawn = Instant::now();
        let mut out = io::stdout().lock();
        queue!(out, Clear(ClearType::All), cursor::MoveTo(0, 0))?;
        out.write_all(text.replace('\n', "\r\n").as_bytes())?;
        out.flush()?;
        while let Some(left) = PERIOD.checked_sub(drawn.elapsed()) {
            if !poll(left)? {
                break;
            }
            match action(&read()?, &report) {
                Action::Quit => return Ok(()),
                Action::Toggle(link) => {
                    // A link that just went has nothing to be switched.
                    let _ = client.set_out(link.local, !link.out);
                }
                Action::Scheduler => {
                    // All of them are in the registry.
                    let _ = client.set_scheduler(after(client.scheduler().as_deref()));
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
    Toggle(LinkReport),
    Scheduler,
    None,
}

fn action(event: &Event, report: &Report) -> Action {
    let Event::Key(KeyEvent {
        code, modifiers, ..
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
            let index = digit.to_digit(10).and_then(|digit| digit.checked_sub(1));
            let link = index.and_then(|index| report.links.get(index as usize));
            link.map_or(Action::None, |link| Action::Toggle(*link))
        }
        _ => Action::None,
    }
}

/// The scheduler after this one.
fn after(current: Option<&str>) -> &'static str {
    let index = SCHEDULERS.iter().position(|name| Some(*name) == current);
    SCHEDULERS[index.map_or(0, |index| (index + 1) % SCHEDULERS.len())]
}

/// The table: rates are over the time since `before`.
fn table(before: &Report, now: &Report, elapsed: Duration, scheduler: Option<&str>) -> String {
    let mut text = format!(
        "mpquic-bond, scheduler: {}\n\n",
        scheduler.unwrap_or("as begun")
    );
    if now.links.is_empty() {
        text.push_str("no connection\n");
    } else {
        text.push_str(
            "    link                      down Mbit/s   up Mbit/s    RTT ms    loss   share\n",
        );
    }
    let rate = |bytes: u64| bytes as f64 * 8e-6 / elapsed.as_secs_f64().max(1e-3);
    let grown = |link: &LinkReport| {
        let earlier = before.links.iter().find(|other| other.path == link.path);
        let (received, sent) = earlier.map_or((0, 0), |earlier| (earlier.received, earlier.sent));
        (
            link.received.saturating_sub(received),
            link.sent.saturating_sub(sent),
        )
    };
    let all: u64 = now
        .links
        .iter()
        .map(grown)
        .map(|(down, up)| down + up)
        .sum();
    for (index, link) in now.links.iter().enumerate() {
        let (down, up) = grown(link);
        let loss = link.lost_packets as f64 / link.sent_packets.max(1) as f64;
        let share = (down + up) as f64 / all.max(1) as f64;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:>2}  {:<24}  {:>11.1} {:>11.1} {:>9.1} {:>6.2}% {:>6.0}%  {}",
            index + 1,
            link.local,
            rate(down),
            rate(up),
            link.rtt.as_secs_f64() * 1e3,
            100.0 * loss,
            100.0 * share,
            if link.out { "out" } else { "" },
        );
    }
    text.push_str("\n1-9: take a link out, or in again    s: next scheduler    q: quit\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(path: u32, received: u64) -> LinkReport {
        LinkReport {
            local: [10, 0, 0, path as u8 + 1].into(),
            path,
            out: path == 1,
            rtt: Duration::from_millis(20),
            sent: 0,
            received,
            sent_packets: 100,
            lost_packets: 1,
        }
    }

    fn report(links: &[LinkReport]) -> Report {
        let mut report = Report::default();
        report.links.extend_from_slice(links);
        report
    }

    #[test]
    fn rates_are_over_what_came_since() {
        let before = report(&[link(0, 1_000_000)]);
        // The second path is new.
        let now = report(&[link(0, 4_000_000), link(1, 1_000_000)]);
        let text = table(&before, &now, Duration::from_secs(1), Some("ecf"));
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[3].contains("10.0.0.1") && lines[3].contains("24.0"),
            "{text}"
        );
        assert!(
            lines[3].contains("75%") && lines[3].contains("1.00%"),
            "{text}"
        );
        assert!(
            lines[4].contains("8.0") && lines[4].ends_with("out"),
            "{text}"
        );
        assert!(lines[0].ends_with("scheduler: ecf"), "{text}");
        assert!(table(&now, &Report::default(), PERIOD, None).contains("no connection"));
    }

    #[test]
    fn a_key_goes_through_the_schedulers() {
        let registry = mpquic::sched::Registry::new();
        let mut current = None;
        for expected in SCHEDULERS.iter().chain(&SCHEDULERS[..1]) {
            let next = after(current);
            assert_eq!(next, *expected);
            assert!(
                registry.factory(next, &Default::default()).is_ok(),
                "{next}"
            );
            current = Some(next);
        }
        assert_eq!(after(Some("of the command line")), SCHEDULERS[0]);
    }

    #[test]
    fn keys_do_what_they_say() {
        let report = report(&[link(0, 0), link(1, 0)]);
        let key = |code, modifiers| action(&Event::Key(KeyEvent::new(code, modifiers)), &report);
        let plain = KeyModifiers::NONE;
        assert_eq!(key(KeyCode::Char('q'), plain), Action::Quit);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Action::Quit);
        assert_eq!(key(KeyCode::Char('s'), plain), Action::Scheduler);
        assert_eq!(key(KeyCode::Char('c'), plain), Action::None);
        assert_eq!(
            key(KeyCode::Char('2'), plain),
            Action::Toggle(report.links[1])
        );
        for code in ['0', '3', 'x'] {
            assert_eq!(key(KeyCode::Char(code), plain), Action::None);
        }
    }
}
