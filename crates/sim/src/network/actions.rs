//! Performs scripted actions on a network.

use bytes::Bytes;
use mpquic_proto::{PathError, Side, VarInt};

use super::Network;
use crate::SimError;
use crate::chain::SharedLink;
use crate::fabric::{ClientAddress, index};
use crate::link::LinkConfigError;
use crate::script::{Action, LinkAction};

impl Network {
    /// Performs an action at once.
    ///
    /// # Errors
    ///
    /// If it cannot be performed.
    pub fn act(&mut self, action: Action) -> Result<(), SimError> {
        let (at, instant) = (self.now, self.instant());
        let refused = |action: &'static str, result: Result<(), PathError>| {
            result.map_err(|source| SimError::Action { at, action, source })
        };
        match action {
            Action::OpenPath { client, server } => {
                let path = self.four_tuple(client, server)?;
                let result = match self.peer_mut(Side::Client).connection_mut() {
                    Some(connection) => connection.open_path(instant, path).map(|_| ()),
                    None => Err(PathError::Closed),
                };
                refused("open path", result)
            }
            Action::ClosePath { side, id, code } => {
                let result = match self.peer_mut(side).connection_mut() {
                    Some(connection) => connection.path_mut(id).close(instant, code),
                    None => Err(PathError::Closed),
                };
                refused("close path", result)
            }
            Action::SetPathStatus { side, id, status } => {
                let result = match self.peer_mut(side).connection_mut() {
                    Some(connection) => connection.path_mut(id).set_status(status),
                    None => Err(PathError::Closed),
                };
                refused("set path status", result)
            }
            Action::SetLinkUp { path, from, up } => {
                self.change_links(path, from, LinkAction::Up(up))
            }
            Action::SetLinkRate { path, from, rate } => {
                self.change_links(path, from, LinkAction::Rate(rate))
            }
            Action::SetLinkDelay { path, from, delay } => {
                self.change_links(path, from, LinkAction::Delay(delay))
            }
            Action::SetLinkLoss { path, from, loss } => {
                self.change_links(path, from, LinkAction::Loss(loss))
            }
            Action::ChangeSharedLink { link, change } => self.change_shared_link(link, change),
            Action::Rebind { client, outside } => self
                .fabric
                .readdress(client, |address| address.outside = outside),
            Action::Renumber { client, address } => {
                let new = ClientAddress {
                    inside: address,
                    outside: address,
                };
                self.fabric.readdress(client, |old| *old = new)
            }
            Action::Close { side, code } => {
                if let Some(connection) = self.peer_mut(side).connection_mut() {
                    connection.close(instant, VarInt::from_u32(code), Bytes::new());
                }
                Ok(())
            }
            Action::Stop { side, time, resume } => {
                let until = at + time;
                self.peer_mut(side).stop(until, resume);
                Ok(())
            }
            Action::Call(f) => {
                f(self);
                Ok(())
            }
        }
    }

    /// Changes the links that represent a path, in the direction in which a side sends, or in both.
    fn change_links(
        &mut self,
        path: usize,
        from: Option<Side>,
        change: LinkAction,
    ) -> Result<(), SimError> {
        for side in [Side::Client, Side::Server] {
            if from.is_some_and(|from| from != side) {
                continue;
            }
            let Some(number) = self.fabric.own_link(path, index(side)) else {
                return Err(SimError::Missing {
                    what: "path",
                    number: path,
                });
            };
            self.change_line(number, change)
                .map_err(|source| SimError::Link { path, source })?;
        }
        Ok(())
    }

    fn change_shared_link(&mut self, link: SharedLink, change: LinkAction) -> Result<(), SimError> {
        let link = link.number();
        // The builder creates the shared links first.
        if !self.fabric.lines.get(link).is_some_and(|line| line.shared) {
            return Err(SimError::Missing {
                what: "shared link",
                number: link,
            });
        }
        self.change_line(link, change)
            .map_err(|source| SimError::SharedLink { link, source })
    }

    fn change_line(&mut self, number: usize, change: LinkAction) -> Result<(), LinkConfigError> {
        change.apply(self.now, &mut self.fabric.lines[number].link)?;
        self.fabric.plan(number);
        Ok(())
    }
}
