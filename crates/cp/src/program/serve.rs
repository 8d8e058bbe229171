//! `serve`: a folder for clients.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use mpquic_cp::{Error, Server, ServerSettings, server_tls};
use mpquic_peer::service;
use mpquic_peer::{Given, Hangups, Identity, Users, identity_folder, log, note, say};

use crate::program::arguments::{Arguments, Role, Serve};
use crate::program::session::{PORT, PROGRAM, Stopping};

impl Serve {
    fn settings(&self) -> Result<ServerSettings, Error> {
        Ok(ServerSettings {
            root: self.root.clone(),
            allow_put: self.allow_put,
            allow_remove: self.allow_remove,
            client_certificates: self.client_ca.is_some(),
            token: self.common.token()?,
            users: self.users.as_deref().map(mpquic_cp::users).transpose()?,
            only: None,
            announce: self.announce.clone(),
            transport: self.common.transport(),
            patience: ServerSettings::PATIENCE,
        })
    }

    /// The folder of the identity, if it is one that is made.
    fn folder(&self) -> Result<Option<PathBuf>, Error> {
        Ok(match (&self.common.key, &self.identity) {
            (Some(_), _) => None,
            (None, Some(folder)) => Some(folder.clone()),
            (None, None) => Some(identity_folder(PROGRAM)?),
        })
    }

    /// The files that must never be served, none of which is among those that are.
    fn secrets(&self) -> Result<Vec<PathBuf>, Error> {
        let common = &self.common;
        let mut secrets: Vec<(&str, PathBuf)> = Vec::new();
        for (flag, path) in [
            ("--key", &common.key),
            ("--token-file", &common.token_file),
            ("--keylog", &common.keylog),
            ("--metrics-token-file", &self.metrics_token_file),
        ] {
            secrets.extend(path.clone().map(|path| (flag, path)));
        }
        if let Some(folder) = self.folder()? {
            secrets.push(("--identity", folder.join("key.pem")));
        }
        for (flag, path) in &secrets {
            keep_apart(flag, path, &self.root)?;
        }
        Ok(secrets.into_iter().map(|(_, path)| path).collect())
    }

    fn check(&self) -> Result<(), Error> {
        self.secrets()?;
        let identity = match self.common.identity()? {
            Some(identity) => identity,
            // The one that the start would keep is not made for this.
            None => Identity::passing(PROGRAM)?,
        };
        server_tls(identity, self.client_ca.as_deref(), None)?;
        self.settings()?.check()
    }
}

/// Says what would be in force.
pub(crate) fn check(given: &Given<Arguments>, serve: &Serve) -> Result<(), Error> {
    serve.check()?;
    say!("{}", given.shown.trim_end());
    Ok(())
}

/// Gives the server what the file says now.
fn reload(given: &Given<Arguments>, server: &Server, users: Option<&Users>) -> Result<(), String> {
    let again = given.again()?;
    let Role::Serve(now) = &again.arguments.role else {
        return Err("it is no server any more".to_owned());
    };
    now.check().map_err(|error| error.to_string())?;
    let settings = now.settings().map_err(|error| error.to_string())?;
    let reloaded = server.reload(&settings);
    reloaded.map_err(|error| error.to_string())?;
    // It makes sense, as it was read for these settings.
    let users = users.map(|users| users.reload()).transpose();
    users.map(|_| ()).map_err(|error| error.to_string())
}

pub(crate) async fn serve(
    given: &Given<Arguments>,
    arguments: &Serve,
    stop: Stopping<'_>,
    mut hangups: Hangups,
) -> Result<u8, Error> {
    let common = &arguments.common;
    let keylog = &common.keylog;
    let folder = arguments.folder()?;
    // Before anything is written there.
    let secrets = arguments.secrets()?;
    let identity = match folder {
        Some(folder) => Identity::kept_in(&folder, "mpquic-cp")?,
        None => common
            .identity()?
            .ok_or_else(|| Error::Argument("give --cert and --key".to_owned()))?,
    };
    let fingerprint = identity.fingerprint();
    let settings = arguments.settings()?;
    let users = settings.users.clone();
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
    for path in &secrets {
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
    let status = arguments.status().await?;
    let showing = async {
        match &status {
            Some(page) => page.run(|| server.status()).await,
            None => std::future::pending().await,
        }
    };
    let reloading = async {
        loop {
            hangups.next().await;
            match reload(given, &server, users.as_deref()) {
                Ok(()) => log!(
                    "the settings are read again: token, --allow-put, --allow-remove and --announce"
                ),
                Err(why) => log!("the settings stay as they are: {why}"),
            }
        }
    };
    let stop = async {
        tokio::select! {
            _ = stop => {}
            () = reloading => {}
            () = showing => {}
            never = service::watchdog() => match never {},
        }
        service::stopping();
    };
    service::ready();
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
            "--token-file" | "--metrics-token-file" => "the token",
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
