//! Programs that a test starts end with it, even if the test is killed and drops nothing.

use std::io::{self, Read as _, Write as _};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Output, Stdio};

/// A shell waits for a line on a pipe of which this process alone has the other end. If this process ends, the pipe does, and no line has come.
const WATCH: &str = "trap '' HUP INT TERM; read -r line || kill -KILL \"$0\"";

/// A child that is killed when this is dropped, or when this process ends without dropping it.
#[derive(Debug)]
pub struct Held {
    child: Child,
    watch: Option<Child>,
    more: Option<Child>,
}

impl Held {
    /// Of a child that runs, and has not been waited for. Where there is no shell, it outlives a process that is killed.
    pub fn new(child: Child) -> Self {
        let watch = watch(child.id()).ok();
        Self {
            child,
            watch,
            more: None,
        }
    }

    /// And a process that the child has started and that runs: one in a terminal of its own outlives that terminal if it ignores hangups, as under `nohup`.
    pub fn with(mut self, id: u32) -> Self {
        self.more = watch(id).ok();
        self
    }

    /// What it writes until it ends, of what is piped; its standard input ends first.
    ///
    /// # Errors
    ///
    /// If that cannot be read, or the child not be waited for.
    pub fn output(mut self) -> io::Result<Output> {
        drop(self.child.stdin.take());
        let errors = self.child.stderr.take().map(|mut from| {
            std::thread::spawn(move || {
                let mut stderr = Vec::new();
                from.read_to_end(&mut stderr).map(|_| stderr)
            })
        });
        let mut stdout = Vec::new();
        if let Some(from) = &mut self.child.stdout {
            from.read_to_end(&mut stdout)?;
        }
        let stderr = errors.map(|errors| errors.join().expect("it reads, and does no more"));
        Ok(Output {
            status: self.child.wait()?,
            stdout,
            stderr: stderr.transpose()?.unwrap_or_default(),
        })
    }
}

fn watch(id: u32) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", WATCH, &id.to_string()]);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Deref for Held {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its number may be another process's from here on.
        if let Some(watch) = &mut self.watch {
            if let Some(mut pipe) = watch.stdin.take() {
                let _ = pipe.write_all(b"over\n");
            }
            let _ = watch.wait();
        }
        if let Some(more) = &mut self.more {
            drop(more.stdin.take());
            let _ = more.wait();
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_it_writes_and_how_it_ends_is_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; echo out; echo err >&2; exit 3"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let output = Held::new(child).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (output.stdout, output.stderr),
            (b"out\n".to_vec(), b"err\n".to_vec())
        );
    }

    #[test]
    fn what_is_held_ends_with_who_holds_it() {
        // It says nothing; its output ends when it does.
        let sleeper = || {
            Command::new("sleep")
                .arg("1000")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let ends =
            |output: &mut std::process::ChildStdout| output.read_to_end(&mut Vec::new()).is_ok();
        let mut child = sleeper();
        let mut output = child.stdout.take().unwrap();
        drop(Held::new(child));
        assert!(ends(&mut output));
        // As if the process were killed: the pipe ends, and nothing was said.
        let mut child = sleeper();
        let mut output = child.stdout.take().unwrap();
        let mut held = Held::new(child);
        drop(held.watch.as_mut().unwrap().stdin.take());
        assert!(ends(&mut output));
    }
}
