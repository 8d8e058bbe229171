//! The tests of this crate, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here; one that needs a process of its own, in `Cargo.toml`.

mod caps;
mod common;
#[cfg(unix)]
mod forward;
#[cfg(unix)]
mod governed;
#[cfg(unix)]
mod hostile;
mod links;
mod live;
#[cfg(unix)]
mod program;
mod proxy;
#[cfg(target_os = "linux")]
mod service;
#[cfg(unix)]
mod settings;
#[cfg(unix)]
mod status;
#[cfg(target_os = "linux")]
mod tun;
#[cfg(target_os = "linux")]
mod tun_hostile;
#[cfg(unix)]
mod users;
