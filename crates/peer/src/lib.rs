//! What programs over multipath QUIC share: who their two ends are, and how one finds the other.
//!
//! - [`Identity`]: a certificate and its key, from files, or made once and kept in a folder. Its [`Fingerprint`] is for pinning.
//! - [`Trust`]: how a client recognises its server; [`client_tls`] and [`server_tls`] make the configurations.
//! - [`Token`]: a secret that both ends share. It is proven, and never sent.
//! - [`dial`]: connects to a server by name, over all of its addresses.
//! - [`all_links`]: an endpoint over all links of the machine, as they come and go.
//! - [`log_to_stderr`]: shows what `RUST_LOG` asks for.
//! - [`Transport`]: scheduler and congestion controller by name.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod dial;
mod error;
mod identity;
mod key_log;
mod links;
mod logging;
mod token;
mod transport;
mod trust;

pub use dial::{dial, host_of, resolve};
pub use error::Error;
pub use identity::{Fingerprint, Identity};
pub use key_log::KeyLog;
pub use links::all_links;
pub use logging::log_to_stderr;
pub use token::{PROOF, Token};
pub use transport::Transport;
pub use trust::{Trust, client_tls, server_tls};
