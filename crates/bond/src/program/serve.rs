//! `serve`: a server, whose settings may change while it runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use mpquic_bond::{AllowList, Error, Identity, Server, ServerSettings, server_tls};
use mpquic_peer::service;
use mpquic_peer::{Given, Hangups, log, note, say};

use crate::program::arguments::{Arguments, Role, Serve};
use crate::program::{NAME, heard, tun};

/// What is read at the start only.
type Fixed = (
    Vec<SocketAddr>,
    [Option<PathBuf>; 6],
    [Option<String>; 2],
    Option<Duration>,
);

impl Serve {
    fn settings(&self) -> Result<ServerSettings, Error> {
        let common = &self.common;
        let token = common.token()?;
        if token.is_none() && self.client_ca.is_none() && self.users.is_none() {
            let why = "anybody could use this server: give --token-file, --users or --client-ca";
            return Err(Error::Argument(why.to_owned()));
        }
        Ok(ServerSettings {
            token,
            users: self.users.as_deref().map(mpquic_bond::users).transpose()?,
            allow: AllowList::new(self.allow.clone()),
            idle: common.idle(),
            transport: common.transport(),
            live: common.live(),
        })
    }

    fn fixed(&self) -> Fixed {
        let common = &self.common;
        let files = [
            &self.users,
            &self.client_ca,
            &self.identity,
            &common.cert,
            &common.key,
            &common.keylog,
        ];
        let names = [&common.scheduler, &common.congestion];
        (
            self.listen.clone(),
            files.map(Clone::clone),
            names.map(Clone::clone),
            common.live(),
        )
    }

    /// Whether a server could run so: what it needs of files is there and makes sense.
    fn check(&self) -> Result<(), Error> {
        let settings = self.settings()?;
        let identity = match self.common.identity()? {
            Some(identity) => identity,
            // The one that the start would keep is not made for this.
            None => Identity::passing(NAME)?,
        };
        server_tls(identity, self.client_ca.as_deref())?;
        tun::check(self)?;
        settings.check()
    }
}

/// Says what would be in force.
pub(crate) fn check(given: &Given<Arguments>, serve: &Serve) -> Result<(), Error> {
    serve.check()?;
    say!("{}", given.shown.trim_end());
    Ok(())
}

/// What the file says now, for a server that was begun with `before`.
fn reread(given: &Given<Arguments>, before: &Serve) -> Result<ServerSettings, String> {
    let again = given.again()?;
    let Role::Serve(now) = &again.arguments.role else {
        return Err("it is no server any more".to_owned());
    };
    let settings = now.settings().map_err(|error| error.to_string())?;
    settings.check().map_err(|error| error.to_string())?;
    if now.fixed() != before.fixed() {
        log!(
            "only tokens, --allow and --idle change while it runs: addresses, certificates, scheduler and the like do at the next start"
        );
    }
    Ok(settings)
}

pub(crate) async fn serve(given: &Given<Arguments>, arguments: &Serve) -> Result<(), Error> {
    // With a file of settings or users, the signal means that it is to be read again.
    let (hangups, stop) = Hangups::of(given.file.is_some() || arguments.users.is_some());
    let mut stop = pin!(stop);
    if heard(stop.as_mut()).await.is_some() {
        return Ok(());
    }
    let common = &arguments.common;
    let settings = arguments.settings()?;
    let identity = match common.identity()? {
        Some(identity) => identity,
        None => {
            let folder = match &arguments.identity {
                Some(folder) => folder.clone(),
                None => mpquic_peer::identity_folder(NAME)?,
            };
            Identity::kept_in(&folder, NAME)?
        }
    };
    let fingerprint = identity.fingerprint();
    if arguments.allow.is_empty() && arguments.users.is_none() {
        note!("no --allow: clients can reach nothing");
    }
    let keys = identity.endpoint_config(NAME, &arguments.listen)?;
    let mut tls = server_tls(identity, arguments.client_ca.as_deref())?;
    if let Some(log) = common.key_log()? {
        tls.key_log = log;
    }
    let users = settings.users.clone();
    let server = Server::bind_with(keys, tls, &arguments.listen, settings)?;
    tun::open(arguments, &server)?;
    for local in server.local_addrs() {
        say!("listening on {local}");
    }
    for missing in server.missing_addrs() {
        note!("{missing}");
    }
    if let Some(fingerprint) = fingerprint {
        say!("fingerprint sha256:{fingerprint}");
    }
    let status = common.status().await?;
    let showing = async {
        match &status {
            Some(page) => page.run(|| server.status()).await,
            None => std::future::pending().await,
        }
    };
    let reloading = async {
        let mut hangups = hangups;
        loop {
            hangups.next().await;
            match reread(given, arguments) {
                Ok(settings) => {
                    server.reload(settings);
                    // Its file makes sense, as it was read for these settings.
                    if let Some(Err(why)) = users.as_ref().map(|users| users.reload()) {
                        log!("the users stay as they are: {why}");
                    }
                    log!("the settings are read again");
                }
                Err(why) => log!("the settings stay as they are: {why}"),
            }
        }
    };
    let until = async {
        tokio::select! {
            _ = stop => {}
            () = reloading => {}
            () = showing => {}
            never = service::watchdog() => match never {},
        }
        service::stopping();
    };
    service::ready();
    server.run(until).await;
    Ok(())
}
