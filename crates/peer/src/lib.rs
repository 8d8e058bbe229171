//! What programs over multipath QUIC share: who their two ends are, how one finds the other, and how they speak to users.
//!
//! - [`Identity`]: a certificate and its key, from files, or made once and kept in a folder. Its [`Fingerprint`] is for pinning, and
//!   the keys of an endpoint that must outlive the process come from it.
//! - [`Trust`]: how a client recognises its server; [`client_tls`] and [`server_tls`] make the configurations.
//! - [`Token`]: a secret that both ends share. It is proven, and never sent.
//! - [`users`]: named users with a secret each, in a file that changes while a server runs, and what each may; [`Door`] judges who
//!   comes. [`Ticket`]: all that a client needs, as one word. [`KnownServers`]: those that a user has met.
//! - [`status`]: what a program does, for Prometheus and as a page with charts.
//! - [`Rate`], [`Throttle`]: rates as users write them, and what keeps to them.
//! - [`dial`]: connects to a server by name, over all of its addresses. [`with_port`], [`resolve`] and [`Local`] understand names and
//!   addresses as users write them.
//! - [`all_links`]: an endpoint over all links of the machine, as they come and go.
//! - [`LinkRule`], [`Usage`]: what a link costs, and how much of it was used in this month.
//! - [`say!`], [`note!`]: lines for users that never end the program; [`log!`], [`report!`]: those of a service, which wait for
//!   no reader; [`Pace`] for those about a peer. [`Escaped`] for what a peer says. [`log_to_stderr`] shows what `RUST_LOG` asks for.
//! - [`stopped`]: Ctrl-C, SIGTERM, or the end of the terminal. [`raise_open_files`]: as many sockets as the system gives.
//! - [`service`]: what systemd is told. [`write_manual`]: manual pages and completions, from a command line.
//! - [`Given`]: a command line with a file of settings beside it.
//! - [`Transport`]: scheduler and congestion controller by name.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod dial;
mod error;
mod greeting;
mod identity;
pub mod invitation;
mod key_log;
mod known_servers;
mod link_rule;
mod links;
mod logging;
mod manual;
mod name;
mod open_files;
mod output;
mod pace;
mod passwords;
mod rate;
pub mod service;
mod settings_file;
pub mod status;
mod stop;
mod ticket;
mod token;
mod transport;
mod trust;
mod usage;
mod user_key;
pub mod users;
mod way;

pub use dial::dial;
pub use error::Error;
pub use greeting::{Door, Greeting};
pub use identity::{Fingerprint, Identity, identity_folder};
pub use key_log::KeyLog;
pub use known_servers::KnownServers;
pub use link_rule::LinkRule;
pub use links::all_links;
pub use logging::log_to_stderr;
pub use manual::write_manual;
pub use mpquic::Escaped;
pub use name::{Local, host_of, own_addresses, resolve, socket_address, with_port};
pub use open_files::raise_open_files;
pub use output::{LogFormat, drain_lines, log_in, log_line, report_line, write_line};
pub use pace::Pace;
pub use passwords::Passwords;
pub use rate::{Rate, Throttle};
pub use settings_file::Given;
pub use stop::{Hangups, Stop, stopped};
pub use ticket::{Ticket, qr_code};
pub use token::{PROOF, Token};
pub use transport::{Transport, schedulers};
pub use trust::{ClientTls, Trust, client_tls, server_tls};
pub use usage::{Usage, size_text};
pub use user_key::{UserKey, UserSecret, random};
pub use users::{Admitted, Right, User, Users};
pub use way::Way;
