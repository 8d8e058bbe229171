//! `connect`: a client with its local port, a screen or lines of JSON.

use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mpquic_bond::{Client, ClientSettings, Error, Far, Trust, client_tls, screen};
use mpquic_peer::service;
use mpquic_peer::{Given, Passwords, Ticket, Way, note, report, say};
use tokio::net::TcpListener;

use crate::program::arguments::{Arguments, Connect};
use crate::program::{NAME, PORT, TICKET, heard, tun};

impl Connect {
    fn passwords(&self) -> Result<Option<Arc<Passwords>>, Error> {
        let passwords = self.proxy_auth_file.as_deref().map(Passwords::from_file);
        Ok(passwords.transpose()?.map(Arc::new))
    }

    /// One for each server.
    fn ways(&self) -> Result<Vec<Way>, Error> {
        let (pins, servers) = (self.pin.len(), self.server.len());
        if pins > 1 && pins != servers {
            let why = format!("{servers} servers have {pins} times --pin: once for each, or one");
            return Err(Error::Argument(why));
        }
        let token = self.common.token()?;
        let way = |(number, server): (usize, &String)| {
            let pin = self.pin.get(number).or_else(|| self.pin.first());
            let pinned = match (pin, &self.ca) {
                (Some(fingerprint), _) => Some(Trust::Fingerprint(*fingerprint)),
                (None, Some(ca)) => Some(Trust::Authorities(ca.clone())),
                (None, None) => None,
            };
            Way::find(NAME, TICKET, server, PORT, pinned, token.clone())
        };
        let ways: Result<_, _> = self.server.iter().enumerate().map(way).collect();
        Ok(ways?)
    }

    /// Interfaces that cost money by the byte, by either flag.
    fn metered(&self) -> Vec<String> {
        let rules = self.link.iter().filter(|rule| rule.metered);
        // An address has no interface to be looked for.
        let rules = rules.filter(|rule| rule.link.parse::<IpAddr>().is_err());
        let named = self.metered.iter().cloned();
        named.chain(rules.map(|rule| rule.link.clone())).collect()
    }

    /// Whether the rules of links fit each other, and where it is kept what links carried.
    fn usage(&self) -> Result<Option<PathBuf>, Error> {
        for (number, rule) in self.link.iter().enumerate() {
            if self.link[..number]
                .iter()
                .any(|other| other.link == rule.link)
            {
                return Err(Error::Argument(format!("two rules for {}", rule.link)));
            }
        }
        let has_weights = self.link.iter().any(|rule| rule.weight.is_some());
        if has_weights && self.common.scheduler.is_some() {
            let why = "weights are kept by a scheduler of their own: leave --scheduler out";
            return Err(Error::Argument(why.to_owned()));
        }
        let has_quota = self.link.iter().any(|rule| rule.quota.is_some());
        let folder = has_quota.then(|| mpquic_peer::identity_folder(NAME));
        let usage = folder.transpose()?.map(|folder| folder.join("links.toml"));
        if let Some(usage) = &usage {
            mpquic_peer::Usage::at(usage)?;
        }
        Ok(usage)
    }
}

/// Says what would be in force.
pub(crate) fn check(given: &Given<Arguments>, connect: &Connect) -> Result<(), Error> {
    for way in connect.ways()? {
        client_tls(&way.trust, connect.common.identity()?)?;
    }
    connect.usage()?;
    connect.passwords()?;
    connect.common.transport().check()?;
    // A ticket is for nobody who looks over a shoulder.
    let tickets = connect.server.iter();
    let tickets = tickets.filter(|server| Ticket::is_meant(server, TICKET));
    let shown = tickets.fold(given.shown.clone(), |shown, ticket| {
        shown.replace(ticket, "TICKET")
    });
    say!("{}", shown.trim_end());
    Ok(())
}

pub(crate) async fn connect(arguments: Connect) -> Result<ExitCode, Error> {
    let mut stop = pin!(mpquic_peer::stopped());
    if let Some(stop) = heard(stop.as_mut()).await {
        return Ok(ExitCode::from(stop.exit_code()));
    }
    // Each program that uses the proxy takes a socket.
    mpquic_peer::raise_open_files();
    let common = &arguments.common;
    let mut ways = arguments.ways()?;
    let begun = tokio::select! {
        begun = tun::begin(&arguments, &mut ways) => begun?,
        stop = stop.as_mut() => return Ok(ExitCode::from(stop.exit_code())),
    };
    let others = ways.split_off(1);
    let mut way = ways.remove(0);
    let key_log = common.key_log()?;
    let locals = arguments.locals.clone();
    let settings = ClientSettings {
        server: way.server.clone(),
        token: way.token.clone(),
        locals: locals.iter().map(|local| local.address().ip()).collect(),
        metered: arguments.metered(),
        ignored: vec![arguments.tun_name.clone()],
        links: arguments.link.clone(),
        usage: arguments.usage()?,
        idle: common.idle(),
        passwords: arguments.passwords()?,
        transport: common.transport(),
        live: common.live(),
    };
    // A port that is taken is told before anything is tried.
    let listener = TcpListener::bind(arguments.proxy).await;
    let listener = listener.map_err(|source| Error::Listen {
        address: arguments.proxy.to_string(),
        source,
    })?;
    let tls_of = |way: &Way| {
        let mut tls = client_tls(&way.trust, common.identity()?)?;
        tls.config.key_log = key_log.clone().unwrap_or(tls.config.key_log);
        Ok::<_, Error>(tls)
    };
    let far = |way: &Way| {
        Ok::<_, Error>(Far {
            server: way.server.clone(),
            token: way.token.clone(),
            tls: tls_of(way)?,
        })
    };
    let others: Vec<Far> = others.iter().map(far).collect::<Result<_, _>>()?;
    let connecting = async {
        loop {
            let (tls, others) = (tls_of(&way)?, others.clone());
            let error = match Client::connect_to(tls, settings.clone(), &locals, others).await {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            let of_peer = match &error {
                Error::Peer(error) => Some(error),
                _ => None,
            };
            if !way.meet(of_peer, arguments.accept_new).await? {
                return Err(error);
            }
        }
    };
    let mut forwards = Vec::new();
    for forward in &arguments.forward {
        let listener = TcpListener::bind(forward.listen).await;
        let listener = listener.map_err(|source| Error::Listen {
            address: forward.listen.to_string(),
            source,
        })?;
        forwards.push((listener, forward.target.clone()));
    }
    let client = tokio::select! {
        client = connecting => client?,
        stop = stop.as_mut() => return Ok(ExitCode::from(stop.exit_code())),
    };
    say!("proxy on {}", listener.local_addr()?);
    if !listener.local_addr()?.ip().is_loopback() && arguments.proxy_auth_file.is_none() {
        note!(
            "whoever reaches {} can use this proxy: give --proxy-auth-file",
            arguments.proxy
        );
    }
    let mut forwarding = tokio::task::JoinSet::new();
    for (listener, target) in forwards {
        say!("forwarding {} to {target}", listener.local_addr()?);
        let client = Arc::clone(&client);
        forwarding.spawn(async move { client.forward(listener, target).await });
    }
    let status = common.status().await?;
    let showing = async {
        match &status {
            Some(page) => page.run(|| client.status()).await,
            None => std::future::pending().await,
        }
    };
    let quit = async {
        if !arguments.screen {
            return std::future::pending().await;
        }
        let watched = Arc::clone(&client);
        let shown = tokio::task::spawn_blocking(move || screen::show(&watched)).await;
        if let Ok(Err(error)) = shown {
            note!("no screen: {error}; the proxy goes on without");
            std::future::pending::<()>().await;
        }
    };
    let reporting = async {
        if !arguments.json {
            return std::future::pending().await;
        }
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            report!("{}", client.report().to_json());
        }
    };
    let mut failed = None;
    let until = async {
        tokio::select! {
            ended = tun::run(&client, begun.as_ref()) => failed = ended.err(),
            _ = stop => {}
            () = quit => {}
            () = reporting => {}
            () = showing => {}
            never = service::watchdog() => match never {},
        }
    };
    service::ready();
    client.run(listener, until).await?;
    service::stopping();
    // What was changed of the system is put back before the end is told.
    drop(begun);
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(ExitCode::SUCCESS)
}
