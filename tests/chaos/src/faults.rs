//! What can happen, how it begins and how it ends.

use std::fmt;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::Error;
use crate::control::Order;
use crate::director::{Process, Who};
use crate::faulty::Fault;
use crate::pattern::Pattern;
use crate::place::{LINKS, Place};

/// Errors of system calls, by their names and Linux's numbers.
const CODES: [(&str, i32); 8] = [
    ("ENOBUFS", 105),
    ("EAGAIN", 11),
    ("EPERM", 1),
    ("EMSGSIZE", 90),
    ("EMFILE", 24),
    ("ENOMEM", 12),
    ("ENETUNREACH", 101),
    ("ECONNREFUSED", 111),
];

/// How a system refuses by a rule.
const REFUSALS: [&str; 3] = ["prohibit", "unreachable", "blackhole"];

/// One kind, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The client's interface is taken down.
    Down(u8),
    /// The server's is: the client's has no carrier.
    FarDown(u8),
    /// The interfaces are removed, and others of the same name come.
    Unplug(u8),
    /// Another address.
    Readdress(u8),
    /// The link takes 1,280 bytes.
    Mtu(u8),
    /// The client's system refuses to send.
    Refuse(u8, usize),
    /// What goes to the server is dropped without a word, or what comes from it.
    Swallow(u8, bool),
    /// All of the client's interfaces are taken down.
    AllDown,
    /// All that goes to the server is dropped, or all that comes from it.
    AllSwallow(bool),
    /// A process stands still.
    Stop(Who),
    /// The clock of the client with faulty sockets stands still.
    Stand,
    /// The client with the system's sockets may open no more files, and has to.
    Files(u8),
    /// Calls fail: an index of [`CODES`], percent of those that send and that receive.
    Fail(Who, usize, u32, u32),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(_) => f.write_str("interface down"),
            Self::FarDown(_) => f.write_str("carrier lost"),
            Self::Unplug(_) => f.write_str("interface removed"),
            Self::Readdress(_) => f.write_str("address changed"),
            Self::Mtu(_) => f.write_str("MTU 1,280"),
            Self::Refuse(_, how) => write!(f, "route says {}", REFUSALS[*how]),
            Self::Swallow(..) => f.write_str("black hole"),
            Self::AllDown => f.write_str("all interfaces down"),
            Self::AllSwallow(_) => f.write_str("black hole on all links"),
            Self::Stop(Who::Server) => f.write_str("server stopped"),
            Self::Stop(_) => f.write_str("client stopped"),
            Self::Stand => f.write_str("clock stands still"),
            Self::Files(_) => f.write_str("no more files, address changed"),
            Self::Fail(_, code, sends, receives) => {
                let what = match (sends, receives) {
                    (_, 0) => "sends",
                    (0, _) => "receives",
                    _ => "both",
                };
                let share = match sends.max(receives) {
                    100 => "all",
                    _ => "some",
                };
                write!(f, "{}, {share} {what}", CODES[*code].0)
            }
        }
    }
}

/// Numbers by chance, the same for the same seed.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed << 32)
    }

    /// Below `count`.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 += 1;
        Pattern::sample(self.0) % count
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

impl Kind {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let link = 1 + dice.below(LINKS.into()) as u8;
        match dice.below(20) {
            0 | 1 => Self::Down(link),
            2 => Self::FarDown(link),
            3 | 4 => Self::Unplug(link),
            5 | 6 => Self::Readdress(link),
            7 => Self::Mtu(link),
            8 => Self::Refuse(link, dice.below(3) as usize),
            9 => Self::Swallow(link, dice.below(2) == 0),
            10 => Self::AllDown,
            11 => Self::AllSwallow(dice.below(2) == 0),
            12 => Self::Stop(dice.one_of(&[Who::System, Who::Faulty, Who::Server])),
            13 => Self::Stand,
            14 => Self::Files(link),
            _ => {
                let who = dice.one_of(&[Who::Faulty, Who::Faulty, Who::Server]);
                let code = dice.below(CODES.len() as u64) as usize;
                let share = dice.one_of(&[10, 50, 100]);
                match dice.below(3) {
                    0 => Self::Fail(who, code, share, 0),
                    1 => Self::Fail(who, code, 0, share),
                    _ => Self::Fail(who, code, share, share),
                }
            }
        }
    }

    /// How long it is to last.
    pub(crate) fn time(self, dice: &mut Dice) -> Duration {
        let millis = match self {
            Self::Stand | Self::Stop(_) => 2000,
            // Those without any way out are shorter.
            Self::AllDown | Self::AllSwallow(_) => 500 + dice.below(2500),
            _ => 300 + dice.below(3700),
        };
        Duration::from_millis(millis)
    }

    /// Whether both can be at the same time, and each be undone.
    pub(crate) fn fits(self, other: Self) -> bool {
        let links = |kind: Self| match kind {
            Self::Down(link)
            | Self::FarDown(link)
            | Self::Unplug(link)
            | Self::Readdress(link)
            | Self::Mtu(link)
            | Self::Refuse(link, _)
            | Self::Swallow(link, _)
            | Self::Files(link) => 1 << link,
            Self::AllDown | Self::AllSwallow(_) => 0xff,
            Self::Stop(_) | Self::Stand | Self::Fail(..) => 0_u32,
        };
        let who = |kind: Self| match kind {
            Self::Stop(who) | Self::Fail(who, ..) => Some(who),
            Self::Stand => Some(Who::Faulty),
            Self::Files(_) => Some(Who::System),
            _ => None,
        };
        links(self) & links(other) == 0 && (who(self).is_none() || who(self) != who(other))
    }

    pub(crate) fn begin(
        self,
        place: &mut Place,
        processes: &mut [Process],
        time: Duration,
    ) -> Result<(), Error> {
        let process = |who: Who| -> usize { who as usize };
        match self {
            Self::Down(link) => place.down(link),
            Self::FarDown(link) => place.set_far(link, "down"),
            Self::Unplug(link) => place.unplug(link),
            Self::Readdress(link) => place.readdress(link),
            Self::Mtu(link) => place.mtu(link, 1280),
            Self::Refuse(link, how) => place.refuse(link, "add", REFUSALS[how]),
            Self::Swallow(link, at_server) => place.swallow(link, "add", at_server),
            Self::AllDown => (1..=LINKS).try_for_each(|link| place.down(link)),
            Self::AllSwallow(at_server) => {
                (1..=LINKS).try_for_each(|link| place.swallow(link, "add", at_server))
            }
            Self::Stop(who) => Ok(kill_process(processes[process(who)].pid()?, Signal::STOP)?),
            Self::Stand => processes[process(Who::Faulty)].order(&Order::Stand(time)),
            Self::Files(link) => {
                let pid = processes[process(Who::System)].pid()?;
                let open = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?;
                // One that is closed makes no room for another.
                set_files(pid, open.count().saturating_sub(3) as u64)?;
                place.readdress(link)
            }
            Self::Fail(who, code, of_sends, of_receives) => {
                processes[process(who)].order(&Order::Fail(Fault {
                    code: CODES[code].1,
                    of_sends,
                    of_receives,
                    time,
                }))
            }
        }
    }

    pub(crate) fn end(self, place: &Place, processes: &[Process]) -> Result<(), Error> {
        match self {
            Self::Down(link) => place.up(link),
            Self::FarDown(link) => place.set_far(link, "up"),
            Self::Unplug(link) => place.plug(link),
            Self::Mtu(link) => place.mtu(link, 1500),
            Self::Refuse(link, how) => place.refuse(link, "del", REFUSALS[how]),
            Self::Swallow(link, at_server) => place.swallow(link, "del", at_server),
            Self::AllDown => (1..=LINKS).try_for_each(|link| place.up(link)),
            Self::AllSwallow(at_server) => {
                (1..=LINKS).try_for_each(|link| place.swallow(link, "del", at_server))
            }
            Self::Stop(who) => Ok(kill_process(processes[who as usize].pid()?, Signal::CONT)?),
            Self::Files(_) => {
                let hard = getrlimit(Resource::Nofile).maximum;
                let pid = processes[Who::System as usize].pid()?;
                set_files(pid, hard.map_or(1024, |hard| hard.min(1024)))
            }
            Self::Readdress(_) | Self::Stand | Self::Fail(..) => Ok(()),
        }
    }
}

/// How many files a process may have open.
fn set_files(pid: Pid, count: u64) -> Result<(), Error> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: Some(count),
        maximum,
    };
    prlimit(Some(pid), Resource::Nofile, limit)?;
    Ok(())
}
