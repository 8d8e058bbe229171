//! Attacks over real sockets on a server process, with what they do to an honest client.

pub mod attacker;
pub mod attacks;
pub mod beside;
pub mod foreign;
pub mod heap;
pub mod honest;
pub mod idle;
pub mod paths;
pub mod report;
pub mod server;
