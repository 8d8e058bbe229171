//! What the director says to a process, a line at a time on its standard input.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::faulty::Fault;

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Order {
    /// Move data.
    Work,
    /// End all connections, and tell what is held then.
    Rest,
    /// Sockets fail for a while.
    Fail(Fault),
    /// The clock stands still for so long.
    Stand(Duration),
}

impl Order {
    pub(crate) fn to_line(&self) -> String {
        match self {
            Self::Work => "work".to_owned(),
            Self::Rest => "rest".to_owned(),
            Self::Stand(time) => format!("stand {}", time.as_millis()),
            Self::Fail(fault) => format!(
                "fail {} {} {} {}",
                fault.code,
                fault.of_sends,
                fault.of_receives,
                fault.time.as_millis()
            ),
        }
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let first = words.next()?;
        let mut number = || words.next()?.parse::<u32>().ok();
        Some(match first {
            "work" => Self::Work,
            "rest" => Self::Rest,
            "stand" => Self::Stand(Duration::from_millis(number()?.into())),
            "fail" => Self::Fail(Fault {
                code: number()? as i32,
                of_sends: number()?,
                of_receives: number()?,
                time: Duration::from_millis(number()?.into()),
            }),
            _ => return None,
        })
    }
}

/// The orders as they come; they end with the standard input.
pub(crate) fn orders() -> mpsc::UnboundedReceiver<Order> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if let Some(order) = Order::from_line(&line) {
                if tell.send(order).is_err() {
                    return;
                }
            } else {
                eprintln!("not understood: {line}");
            }
        }
    });
    told
}
