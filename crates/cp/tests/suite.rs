//! The tests of this crate, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here.

#[cfg(unix)]
mod change;
#[cfg(unix)]
mod choose;
mod copy;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod outside;
#[cfg(unix)]
mod pipes;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod settings;
mod several;
#[cfg(unix)]
mod sync;
#[cfg(unix)]
mod users;
