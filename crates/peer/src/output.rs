//! Lines on standard output and standard error that never end the program.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::time::SystemTime;

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

/// Writes a line to standard error with the time of day before it (RFC 3339, UTC), and goes on if it cannot be written.
#[macro_export]
macro_rules! log {
    ($($arg:tt)*) => {
        _ = $crate::log_line(::std::format_args!($($arg)*))
    };
}

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

/// Writes a line with the time to standard error: what [`log!`] does.
///
/// # Errors
///
/// If it cannot be written.
pub fn log_line(line: Arguments<'_>) -> io::Result<()> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    write_line(&mut io::stderr().lock(), format_args!("{now} {line}"))
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
}
