//! Command lines: reads them and says in one line what is wrong with them.

use std::process::ExitCode;

use clap::Parser;

/// The exit code of a command line that cannot be.
pub(crate) const USAGE: u8 = 2;

/// Reads the command line. If there is nothing to run (`--help`, or a mistake, of which stderr
/// gets one line), gives the exit code in place of the arguments.
pub(crate) fn parse<T: Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        if error.use_stderr() {
            eprintln!("{}", one_line(&error.to_string()));
            ExitCode::from(USAGE)
        } else {
            // What was asked for: help or version, in full. That stdout is closed is no mistake.
            let _ = error.print();
            ExitCode::SUCCESS
        }
    })
}

/// clap's message is a paragraph, and hints and usage follow it.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let paragraph: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[arg(long)]
        number: u8,
        #[arg(long)]
        text: String,
    }

    #[test]
    fn mistakes_take_one_line() {
        for (arguments, expected) in [
            (
                &["program"][..],
                "error: the following required arguments were not provided: \
                 --number <NUMBER> --text <TEXT>",
            ),
            (
                &["program", "--number", "x", "--text", ""][..],
                "error: invalid value 'x' for '--number <NUMBER>': invalid digit found in string",
            ),
        ] {
            let error = Arguments::try_parse_from(arguments).unwrap_err();
            assert_eq!(one_line(&error.to_string()), expected);
        }
    }
}
