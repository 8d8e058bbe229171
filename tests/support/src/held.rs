//! Programs that a test starts end with it, even if the test is killed and drops nothing.

use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};

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
    use std::io::Read as _;

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
