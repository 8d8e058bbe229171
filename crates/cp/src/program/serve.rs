//! `serve`: a folder for clients.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use mpquic_cp::{Error, Server, ServerSettings, server_tls};
use mpquic_peer::{Identity, identity_folder, log, note, say};

use crate::program::arguments::Serve;
use crate::program::session::{PORT, Stopping};

/// What this program's identity is kept under, and its keys are derived for.
const PROGRAM: &str = "mpquic-cp";

pub(crate) async fn serve(arguments: Serve, stop: Stopping<'_>) -> Result<u8, Error> {
    let common = &arguments.common;
    let mut secrets: Vec<(&str, PathBuf)> = Vec::new();
    let (token, keylog) = (&common.token_file, &common.keylog);
    for (flag, path) in [
        ("--key", &common.key),
        ("--token-file", token),
        ("--keylog", keylog),
    ] {
        secrets.extend(path.clone().map(|path| (flag, path)));
    }
    let folder = match (&common.key, &arguments.identity) {
        (Some(_), _) => None,
        (None, Some(folder)) => Some(folder.clone()),
        (None, None) => Some(identity_folder(PROGRAM)?),
    };
    if let Some(folder) = &folder {
        secrets.push(("--identity", folder.join("key.pem")));
    }
    // Before anything is written there.
    for (flag, path) in &secrets {
        keep_apart(flag, path, &arguments.root)?;
    }
    let identity = match folder {
        Some(folder) => Identity::kept_in(&folder, "mpquic-cp")?,
        None => common
            .identity()?
            .ok_or_else(|| Error::Argument("give --cert and --key".to_owned()))?,
    };
    let fingerprint = identity.fingerprint();
    let settings = ServerSettings {
        root: arguments.root.clone(),
        allow_put: arguments.allow_put,
        client_certificates: arguments.client_ca.is_some(),
        token: common.token()?,
        announce: arguments.announce.clone(),
        transport: common.transport(),
        patience: ServerSettings::PATIENCE,
    };
    let listen = match arguments.listen.as_slice() {
        [] => {
            let any: [SocketAddr; 2] = [
                (Ipv4Addr::UNSPECIFIED, PORT).into(),
                (Ipv6Addr::UNSPECIFIED, PORT).into(),
            ];
            any.to_vec()
        }
        given => given.to_vec(),
    };
    let endpoint = identity.endpoint_config(PROGRAM, &listen)?;
    let tls = server_tls(identity, arguments.client_ca.as_deref(), keylog.as_deref())?;
    let mut server = Server::bind_as(endpoint, tls, &listen, settings)?;
    for (_, path) in &secrets {
        server.hide(path)?;
    }
    for local in server.local_addrs() {
        say!("listening on {local}");
    }
    for missing in server.missing_addrs() {
        note!("{missing}");
    }
    if let Some(fingerprint) = fingerprint {
        say!("fingerprint sha256:{fingerprint}");
    }
    // To be stopped is how a service ends well, whoever asks for it.
    let stop = async {
        stop.await;
    };
    server.run(stop, |line| log!("{line}")).await;
    Ok(0)
}

/// No secret is among the files that are served. It need not be there yet.
fn keep_apart(flag: &str, secret: &Path, root: &Path) -> Result<(), Error> {
    let Ok(root) = root.canonicalize() else {
        // Opening it says what is wrong with it.
        return Ok(());
    };
    // As far as the way to it is there.
    let absolute = std::path::absolute(secret).unwrap_or_else(|_| secret.to_owned());
    let there = absolute.ancestors().find_map(|way| way.canonicalize().ok());
    if there.is_some_and(|there| there.starts_with(&root)) {
        let what = match flag {
            "--token-file" => "the token",
            "--keylog" => "the secrets of connections",
            _ => "the server's key",
        };
        let why = format!(
            "{what} would be among the files that it serves: give {flag} outside of {}",
            root.display()
        );
        return Err(Error::Argument(why));
    }
    Ok(())
}
