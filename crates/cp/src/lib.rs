//! Copies files and folders over multipath QUIC: a server of a folder, and a client that gets, puts and lists.
//!
//! [`Server`] serves a folder, read-only unless it is told otherwise. [`Client`] has one connection to it, over as many local addresses as it
//! is given. The program `mpquic-cp` is both.
//!
//! What is promised:
//!
//! - A file has its name only when it is complete and its SHA-256 is right. Until then it is a hidden file in the same folder.
//! - A transfer that was interrupted goes on where it stopped, if the part that is there is the beginning of the file: both sides compare its
//!   SHA-256.
//! - What cannot be copied of a folder is left out and told, and all else is copied.
//! - Neither side touches anything outside its folder, whatever names and links the other one sends or finds.
//! - A server takes files only if it is told to, and only from clients that prove who they are.
//! - No client can take what the others of a server need: what each may have at a time, and all of them, has limits.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod client;
mod content;
mod error;
mod get;
mod limits;
mod name;
mod part;
mod passing;
mod place;
mod plan;
mod progress;
mod put;
mod requests;
mod select;
mod server;
mod settings;
mod several;
mod surplus;
mod tree;
mod wire;

pub use client::{Client, ClientSettings, CopyOptions, List, Locals};
pub use error::{Error, Exit};
pub use name::{BadName, Name};
pub use passing::Passed;
pub use plan::{Action, Planned};
pub use progress::{Event, PathShare, Progress, Summary};
pub use select::Select;
pub use server::{Server, ServerSettings, is_below, users};
pub use settings::{client_tls, server_tls};
pub use wire::{ALPN, Entry, Kind, Omission, Refusal, RefusalKind};
