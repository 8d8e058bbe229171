//! The congestion controllers of this crate, by name.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::auto::Auto;
use super::balia::Balia;
use super::bbr::Bbr;
use super::coupled::Coupled;
use super::cubic::Cubic;
use super::lia::Lia;
use super::new_reno::NewReno;
use super::olia::Olia;
use super::{Controller, ControllerContext, ControllerFactory};

/// Which congestion controller a connection uses.
///
/// ```
/// use mpquic_congestion::CongestionControl;
///
/// assert_eq!("olia".parse(), Ok(CongestionControl::Olia));
/// assert_eq!(CongestionControl::NewReno.to_string(), "newreno");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "lowercase")
)]
#[non_exhaustive]
pub enum CongestionControl {
    /// RFC 9002 section 7; each path on its own.
    NewReno,
    /// RFC 9438; each path on its own.
    Cubic,
    /// The Linked Increases Algorithm of RFC 6356, over all paths.
    Lia,
    /// The Opportunistic Linked Increases Algorithm (draft-khalili-mptcp-congestion-control), over
    /// all paths.
    Olia,
    /// Balanced Linked Adaptation (draft-walid-mptcp-congestion-control), over all paths.
    Balia,
    #[cfg_attr(feature = "serde", serde(rename = "bbr3"))]
    /// BBRv3 (draft-ietf-ccwg-bbr): a model of each path on its own.
    Bbr,
    /// The default: CUBIC that does not take losses by chance for congestion, as radio links have them, and hands a path to BBRv3
    /// while chance explains most of its losses; each path on its own. Two paths through one bottleneck take of it what two flows
    /// of CUBIC take: where that is too much, use one of those that work over all paths.
    #[default]
    Auto,
}

impl CongestionControl {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::NewReno,
        Self::Cubic,
        Self::Lia,
        Self::Olia,
        Self::Balia,
        Self::Bbr,
        Self::Auto,
    ];

    /// Its name, as it is parsed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewReno => "newreno",
            Self::Cubic => "cubic",
            Self::Lia => "lia",
            Self::Olia => "olia",
            Self::Balia => "balia",
            Self::Bbr => "bbr3",
            Self::Auto => "auto",
        }
    }
}

impl ControllerFactory for CongestionControl {
    fn build(&self, context: &mut ControllerContext<'_>) -> Box<dyn Controller> {
        let (initial, wanted) = (context.initial_window(), context.slow_start());
        let slow_start = wanted.unwrap_or_default();
        match self {
            Self::NewReno => Box::new(NewReno::new(initial, slow_start)),
            Self::Cubic => Box::new(Cubic::new(initial, slow_start)),
            Self::Lia => Box::new(Coupled::<Lia>::new(initial, slow_start)),
            Self::Olia => Box::new(Coupled::<Olia>::new(initial, slow_start)),
            Self::Balia => Box::new(Coupled::<Balia>::new(initial, slow_start)),
            Self::Bbr => Box::new(Bbr::new(initial, wanted, context.seed())),
            Self::Auto => Box::new(Auto::new(initial, wanted, context.seed())),
        }
    }

    fn label(&self) -> &str {
        Self::name(*self)
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CongestionControl {
    type Err = UnknownCongestionControl;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.iter().find(|control| control.name() == name);
        named
            .copied()
            .ok_or_else(|| UnknownCongestionControl { name: name.into() })
    }
}

/// No congestion controller has this name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "unknown congestion controller {name:?}, expected one of {}{}",
    known_names(),
    hint(name)
)]
#[non_exhaustive]
pub struct UnknownCongestionControl {
    /// What was asked for.
    pub name: String,
}

/// Whether it looks like a part of a name, or another version: `bbr`, `bbrv2`, `Reno`.
fn hint(name: &str) -> String {
    let asked = name.to_ascii_lowercase();
    let asked = asked.trim_end_matches(|c: char| c.is_ascii_digit() || c == 'v');
    let like = |control: &&CongestionControl| !asked.is_empty() && control.name().contains(asked);
    let found = CongestionControl::ALL.iter().find(like);
    found.map_or_else(String::new, |control| format!(": did you mean {control}?"))
}

fn known_names() -> String {
    let names: Vec<_> = CongestionControl::ALL
        .iter()
        .map(|control| control.name())
        .collect();
    names.join(", ")
}
