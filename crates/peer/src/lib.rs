//! What programs over multipath QUIC share: who their two ends are, how one finds the other, and how they speak to users.
//!
//! - [`Identity`]: a certificate and its key, from files, or made once and kept in a folder. Its [`Fingerprint`] is for pinning, and
//!   the keys of an endpoint that must outlive the process come from it.
//! - [`Trust`]: how a client recognises its server; [`client_tls`] and [`server_tls`] make the configurations.
//! - [`Token`]: a secret that both ends share. It is proven, and never sent.
//! - [`dial`]: connects to a server by name, over all of its addresses. [`with_port`], [`resolve`] and [`Local`] understand names and
//!   addresses as users write them.
//! - [`all_links`]: an endpoint over all links of the machine, as they come and go.
//! - [`say!`], [`note!`]: lines for users that never end the program; [`log!`], [`report!`]: those of a service, which wait for
//!   no reader; [`Pace`] for those about a peer. [`Escaped`] for what a peer says. [`log_to_stderr`] shows what `RUST_LOG` asks for.
//! - [`stopped`]: Ctrl-C, SIGTERM, or the end of the terminal. [`raise_open_files`]: as many sockets as the system gives.
//! - [`Given`]: a command line with a file of settings beside it.
//! - [`Transport`]: scheduler and congestion controller by name.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod dial;
mod error;
mod identity;
mod key_log;
mod links;
mod logging;
mod name;
mod open_files;
mod output;
mod pace;
mod settings_file;
mod stop;
mod token;
mod transport;
mod trust;

pub use dial::dial;
pub use error::Error;
pub use identity::{Fingerprint, Identity, identity_folder};
pub use key_log::KeyLog;
pub use links::all_links;
pub use logging::log_to_stderr;
pub use mpquic::Escaped;
pub use name::{Local, host_of, resolve, socket_address, with_port};
pub use open_files::raise_open_files;
pub use output::{drain_lines, log_line, report_line, write_line};
pub use pace::Pace;
pub use settings_file::Given;
pub use stop::{Hangups, Stop, stopped};
pub use token::{PROOF, Token};
pub use transport::{Transport, schedulers};
pub use trust::{ClientTls, Trust, client_tls, server_tls};
