//! The program: its command line, a server, and clients with a screen.

pub(crate) mod arguments;
pub(crate) mod change;
pub(crate) mod invite;
pub(crate) mod list;
pub(crate) mod places;
pub(crate) mod screen;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod share;
pub(crate) mod transfer;
