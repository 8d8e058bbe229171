//! Lines that end no program: `say!` panics where nobody reads, or on a full disk, after a transfer as before.

/// A line on standard output. What cannot be written is lost.
#[allow(unused_macros, reason = "each program uses some of them")]
macro_rules! say {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($arg)*);
    }};
}

/// A line on standard error, likewise.
#[allow(unused_macros, reason = "each program uses some of them")]
macro_rules! note {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($arg)*);
    }};
}
