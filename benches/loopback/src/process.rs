//! A process that is measured, what the system says of it, and programs beside it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::stack::Result;

/// A process that is measured.
pub(crate) struct Process {
    child: Child,
    /// The measured one, which a command in front of it may have started.
    pid: u32,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// This program with such arguments, behind a command and its arguments, if there are any.
    pub(crate) fn start(front: &[String], arguments: &[String]) -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut command = match front {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = child.stdout.take().ok_or("no output")?;
        Ok(Self {
            pid: child.id(),
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// The next line that it says.
    pub(crate) fn hear(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("a process ended early".into());
        }
        let said: Value = serde_json::from_str(&line)?;
        if let Some(pid) = said["pid"].as_u64() {
            self.pid = u32::try_from(pid)?;
        }
        Ok(said)
    }

    pub(crate) fn tell(&mut self) -> Result<()> {
        Ok(self.input.write_all(b"\n")?)
    }

    /// CPU seconds of all its threads.
    pub(crate) fn cpu(&self) -> Result<f64> {
        let mut nanoseconds = 0.0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let first = text.split_whitespace().next().unwrap_or_default();
            nanoseconds += first.parse::<f64>()?;
        }
        Ok(nanoseconds / 1e9)
    }

    /// CPU seconds in user space and in the system, to a hundredth.
    pub(crate) fn split(&self) -> Result<[f64; 2]> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // The name before it, in brackets, may have spaces. Fields 14 and 15 of proc_pid_stat(5), in ticks of USER_HZ, which
        // is 100.
        let behind = stat.rsplit_once(')').ok_or("no name")?.1;
        let mut ticks = behind.split_whitespace().skip(11).map(str::parse::<f64>);
        let mut next = || Result::Ok(ticks.next().ok_or("no utime or stime")?? / 100.0);
        Ok([next()?, next()?])
    }

    /// How often its threads slept and were woken.
    pub(crate) fn wakeups(&self) -> Result<f64> {
        let mut sum = 0.0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let status = std::fs::read_to_string(task?.path().join("status"))?;
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sum += line.unwrap_or_default().trim().parse::<f64>()?;
        }
        Ok(sum)
    }

    /// Counts its system calls from now on.
    pub(crate) fn count_calls(&self) -> Result<Calls> {
        Calls::of(self.pid)
    }

    /// Resident bytes.
    pub(crate) fn memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(kilobytes.ok_or("no VmRSS")?.parse::<f64>()? * 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Loops that run on cores until this is dropped.
pub(crate) struct Loops(pub(crate) Vec<Child>);

impl Loops {
    /// With a command in front of the loop, as a word and its arguments, or none.
    pub(crate) fn start(cores: &[usize], front: &[&str]) -> Result<Self> {
        let mut loops = Self(Vec::new());
        for core in cores {
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string()]).args(front);
            command.args(["sh", "-c", "while :; do :; done"]);
            loops.0.push(command.spawn()?);
        }
        Ok(loops)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// System calls of a process, counted by `perf` until this is asked.
pub(crate) struct Calls(Child);

/// So long `perf` takes to begin at most; it does not say when it has.
const BEGINS: Duration = Duration::from_millis(250);

impl Calls {
    fn of(pid: u32) -> Result<Self> {
        let child = Command::new("perf")
            .args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p"])
            .arg(pid.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        std::thread::sleep(BEGINS);
        Ok(Self(child))
    }

    /// How many they were.
    pub(crate) fn end(mut self) -> Result<f64> {
        kill_process(Pid::from_child(&self.0), Signal::INT)?;
        let mut text = String::new();
        let errors = self.0.stderr.as_mut().ok_or("no output")?;
        errors.read_to_string(&mut text)?;
        let line = text.lines().find(|line| line.contains("sys_enter"));
        let count = line.and_then(|line| line.split(',').next());
        Ok(count.ok_or("perf counts no system calls here")?.parse()?)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn list(cores: &[usize]) -> String {
    let text: Vec<_> = cores.iter().map(usize::to_string).collect();
    text.join(",")
}
