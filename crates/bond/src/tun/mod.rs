//! A tunnel for all of a machine's packets: a TUN device at each end, and lanes and datagrams of the connection between them.

mod client;
mod codel;
mod device;
mod packet;
mod routes;
mod server;
mod tunnel;
mod wire;

pub use client::{Near, TunSettings};
pub use routes::restore;
pub use server::Pool;
pub(crate) use server::{OwnTunnel, TunServer};
