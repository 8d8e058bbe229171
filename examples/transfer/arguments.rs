//! Parses command lines. An error takes one line.

use std::process::ExitCode;

use clap::Parser;

/// The exit code for an invalid command line.
pub(crate) const USAGE: u8 = 2;

/// Parses the command line. If there is nothing to run, returns the exit code instead of the
/// arguments: after `--help`, or after an error, of which stderr gets one line.
pub(crate) fn parse<T: Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        if error.use_stderr() {
            note!("{}", one_line(&error.to_string()));
            ExitCode::from(USAGE)
        } else {
            // The user asked for help or the version, which is printed completely. A closed stdout
            // is not an error.
            let _ = error.print();
            ExitCode::SUCCESS
        }
    })
}

/// clap's message is a paragraph, followed by hints and usage.
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
