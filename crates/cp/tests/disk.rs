//! A disk that fills in the middle of a copy, at either end, and has room again: a file system in memory of a few megabytes. Needs root
//! and Linux; elsewhere it says why it does nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{Place, fails, names, program};

const SIZE: usize = 8_000_000;

/// A small file system on a folder; unmounted in the end.
struct Disk(PathBuf);

fn mount(options: &str, folder: &Path) -> Result<(), String> {
    let mut command = Command::new("mount");
    command
        .args(["-t", "tmpfs", "-o", options, "none"])
        .arg(folder);
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

impl Disk {
    fn new(folder: PathBuf) -> Result<Self, String> {
        mount("size=4m", &folder)?;
        Ok(Self(folder))
    }

    /// There is room.
    fn grow(&self) {
        mount("remount,size=40m", &self.0).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Nothing else keeps it but a process that has just ended.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn data() -> Vec<u8> {
    (0..SIZE)
        .map(|at| ((at * 7 + at / 253) % 251) as u8)
        .collect()
}

#[test]
fn a_client_s_disk_fills_and_has_room_again() {
    let place = Place::new();
    std::fs::create_dir(place.path("out")).unwrap();
    let disk = match Disk::new(place.path("out")) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("not tested, since there can be no small disk: {why}"),
    };
    std::fs::write(place.path("far/big"), data()).unwrap();
    let server = place.server(&[]);
    let out = place.text("out");
    let get = ["get", &server.address, "big", &out, "--pin", &server.pin];
    fails(&program(&get), 8, "No space left on device");
    // What was written is gone, so that others have the room.
    assert_eq!(names(&place.path("out")), [""; 0]);
    disk.grow();
    let got = program(&get);
    assert!(got.status.success(), "{got:?}");
    assert!(std::fs::read(place.path("out/big")).unwrap() == data());
}

#[test]
fn a_server_s_disk_fills_and_has_room_again() {
    let place = Place::new();
    let disk = match Disk::new(place.path("far")) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("not tested, since there can be no small disk: {why}"),
    };
    std::fs::write(place.path("far/small"), "there").unwrap();
    std::fs::write(place.path("near/big"), data()).unwrap();
    let token = place.text("token");
    let server = place.server(&["--allow-put", "--token-file", &token]);
    let known = ["--pin", &server.pin, "--token-file", &token];
    let big = place.text("near/big");
    let put = [&["put", &server.address, &big][..], &known].concat();
    let list = [&["ls", &server.address][..], &known].concat();
    for _ in 0..2 {
        fails(&program(&put), 8, "the server's disk is full");
        // It serves on.
        let listed = program(&list);
        assert_eq!(String::from_utf8_lossy(&listed.stdout).trim(), "5  small");
    }
    disk.grow();
    let done = program(&put);
    assert!(done.status.success(), "{done:?}");
    assert!(std::fs::read(place.path("far/big")).unwrap() == data());
}
