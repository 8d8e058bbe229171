//! Lines on standard output and standard error that never end the program, nor hold up a service.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Writes a line to standard output. What cannot be written, to a full disk or a pipe without a reader, is lost; the
/// program goes on. `println!` panics there.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => {
        // What is lost is told nowhere: there is no better place for it.
        _ = $crate::write_line(&mut ::std::io::stdout().lock(), ::std::format_args!($($arg)*))
    };
}

/// Writes a line to standard error, and goes on if it cannot be written, as [`say!`].
#[macro_export]
macro_rules! note {
    ($($arg:tt)*) => {
        _ = $crate::write_line(&mut ::std::io::stderr().lock(), ::std::format_args!($($arg)*))
    };
}

/// Writes a line of a service to standard error, with the time of day before it (RFC 3339, UTC). Waits for nobody who reads it: see
/// [`drain_lines`](crate::drain_lines).
#[macro_export]
macro_rules! log {
    ($($arg:tt)*) => {
        $crate::log_line(::std::format_args!($($arg)*))
    };
}

/// Writes a line of a service to standard output, and waits for nobody who reads it, as [`log!`].
#[macro_export]
macro_rules! report {
    ($($arg:tt)*) => {
        $crate::report_line(::std::format_args!($($arg)*))
    };
}

/// Lines of a service that wait for a reader, bytes; those beyond are counted.
const WAITING: usize = 1 << 20;

static LOG: Outlet = Outlet::new(true, |text| io::stderr().lock().write_all(text.as_bytes()));
// Whoever reads JSON lines reads nothing else.
static REPORTS: Outlet = Outlet::new(false, |text| {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
});

/// Writes a line at once, so that those of several tasks do not mix.
///
/// # Errors
///
/// If it cannot be written.
pub fn write_line(to: &mut impl Write, line: Arguments<'_>) -> io::Result<()> {
    let line = format!("{line}\n");
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// How lines of a service are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// The time and the text.
    Text,
    /// An object of JSON with `time`, `level` and `text`.
    Json,
}

impl std::str::FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!(
                "{other:?} is no format of a log: there are text and json"
            )),
        }
    }
}

/// Writes the lines of [`log!`] so from now on.
pub fn log_in(format: LogFormat) {
    IN_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

static IN_JSON: AtomicBool = AtomicBool::new(false);

/// Gives a line with the time to standard error: what [`log!`] does.
pub fn log_line(line: Arguments<'_>) {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    LOG.put(match IN_JSON.load(Ordering::Relaxed) {
        false => format!("{now} {line}\n"),
        true => {
            let line = serde_json::json!({
                "time": now.to_string(),
                "level": "info",
                "text": line.to_string(),
            });
            format!("{line}\n")
        }
    });
}

/// Gives a line to standard output: what [`report!`] does.
pub fn report_line(line: Arguments<'_>) {
    REPORTS.put(format!("{line}\n"));
}

/// Waits until the lines of [`log!`] and [`report!`] are written, and for so long at most: before the program ends.
///
/// They are written by threads of their own. A reader that does not read, such as a pager that nobody scrolls or a terminal that is
/// stopped, holds up these, and not what the service does; a MiB of lines waits for it.
pub fn drain_lines(patience: Duration) {
    let until = Instant::now() + patience;
    for outlet in [&LOG, &REPORTS] {
        outlet.drain(until);
    }
}

/// A way out for lines, with a thread that writes them.
struct Outlet {
    /// Whether a line says how many were lost.
    tells: bool,
    write: fn(&str) -> io::Result<()>,
    state: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug)]
struct Lines {
    waiting: String,
    /// Those that had no room.
    lost: u64,
    has_thread: bool,
    is_writing: bool,
}

impl Outlet {
    const fn new(tells: bool, write: fn(&str) -> io::Result<()>) -> Self {
        Self {
            tells,
            write,
            state: Mutex::new(Lines {
                waiting: String::new(),
                lost: 0,
                has_thread: false,
                is_writing: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&'static self, line: String) {
        let mut lines = self.lines();
        if !lines.has_thread {
            let thread = std::thread::Builder::new().name("lines".to_owned());
            lines.has_thread = thread.spawn(|| self.write_all()).is_ok();
        }
        if !lines.has_thread {
            // A system that gives no thread may take the line. If not, it is lost.
            drop(lines);
            return drop((self.write)(&line));
        }
        if lines.waiting.len() + line.len() > WAITING {
            lines.lost += 1;
            return;
        }
        lines.waiting.push_str(&line);
        drop(lines);
        self.changed.notify_all();
    }

    fn write_all(&self) -> ! {
        loop {
            let mut lines = self.lines();
            while lines.waiting.is_empty() {
                lines = self
                    .changed
                    .wait(lines)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let mut text = std::mem::take(&mut lines.waiting);
            let lost = std::mem::take(&mut lines.lost);
            if lost > 0 && self.tells {
                text.push_str(&format!(
                    "{lost} lines are lost here: nobody read those before\n"
                ));
            }
            lines.is_writing = true;
            drop(lines);
            // What cannot be written is lost.
            let _ = (self.write)(&text);
            self.lines().is_writing = false;
            self.changed.notify_all();
        }
    }

    fn drain(&self, until: Instant) {
        let mut lines = self.lines();
        while lines.is_writing || !lines.waiting.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_at_once() {
        struct Writes(Vec<Vec<u8>>);
        impl Write for Writes {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.push(bytes.to_vec());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut to = Writes(Vec::new());
        write_line(&mut to, format_args!("{} of {}", 1, 2)).unwrap();
        assert_eq!(to.0, [b"1 of 2\n".to_vec()]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_cannot_be_written_is_an_error_and_no_panic() {
        let mut full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let refused = write_line(&mut full, format_args!("line")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_reader_that_does_not_read_holds_up_nobody() {
        static WRITTEN: Mutex<String> = Mutex::new(String::new());
        static STOPPED: Outlet = Outlet::new(true, |text| {
            WRITTEN.lock().unwrap().push_str(text);
            Ok(())
        });
        let all = |of: std::ops::Range<usize>| -> String {
            of.map(|number| format!("{number:>99}\n")).collect()
        };
        let reader = WRITTEN.lock().unwrap();
        STOPPED.put(all(0..1));
        // From here on, its thread waits in the middle of a write.
        while !STOPPED.lines().waiting.is_empty() {
            std::thread::yield_now();
        }
        let fit = WAITING / 100;
        for number in 1..=fit + 7 {
            STOPPED.put(all(number..number + 1));
        }
        STOPPED.drain(Instant::now());
        assert_eq!(STOPPED.lines().waiting.len(), 100 * fit);
        drop(reader);
        STOPPED.drain(Instant::now() + Duration::from_secs(60));
        let told = "7 lines are lost here: nobody read those before\n";
        assert_eq!(*WRITTEN.lock().unwrap(), all(0..fit + 1) + told);
        STOPPED.put("after\n".to_owned());
        STOPPED.drain(Instant::now() + Duration::from_secs(60));
        assert!(WRITTEN.lock().unwrap().ends_with("before\nafter\n"));
    }
}
