//! The user that a daemon runs as.

use nix::unistd::{Gid, Uid};

use crate::Error;

/// The daemons' own user, which the package creates (`packaging/sysusers.d/ackwise.conf`).
pub const SYSTEM_USER: &str = "ackwise";

/// A user of this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The uid.
    pub uid: Uid,
    /// The gid of the user's own group.
    pub gid: Gid,
}

impl User {
    /// Returns the user that a daemon becomes: the one that was chosen, by name or by number, or
    /// else [`SYSTEM_USER`] if this process is root's. `None` means that the user stays the same.
    ///
    /// # Errors
    /// If there is no such user, or this process may not become another one.
    pub fn choose(chosen: Option<&str>) -> Result<Option<Self>, Error> {
        let user = Self::choose_quietly(chosen)?;
        if user.is_none() && chosen.is_none() && effective_user() == 0 {
            tracing::warn!(
                "this process keeps running as root: there is no user '{SYSTEM_USER}'; create it \
                 (systemd-sysusers, with packaging/sysusers.d/ackwise.conf), or choose one \
                 (--user, or `user` in the file of a tunnel)"
            );
        }
        Ok(user)
    }

    /// Like [`choose`](Self::choose) but without a log message, for another process of a daemon
    /// that calls it.
    pub(crate) fn choose_quietly(chosen: Option<&str>) -> Result<Option<Self>, Error> {
        let me = effective_user();
        let Some(name) = chosen else {
            return Ok((me == 0).then(|| Self::find(SYSTEM_USER)).flatten());
        };
        let user = Self::find(name).ok_or_else(|| Error::NoUser(name.to_owned()))?;
        match (me, user.uid.as_raw()) {
            (_, wanted) if wanted == me => Ok(None),
            (0, _) => Ok(Some(user)),
            _ => Err(Error::NotRoot {
                me,
                user: name.to_owned(),
            }),
        }
    }

    /// Checks that a chosen user exists, by name or by number. Whether this process may become that
    /// user is not asked.
    ///
    /// # Errors
    /// If there is no such user.
    pub fn check(chosen: &str) -> Result<(), Error> {
        let found = Self::find(chosen).map(drop);
        found.ok_or_else(|| Error::NoUser(chosen.to_owned()))
    }

    /// Finds a user by name or by number.
    fn find(name: &str) -> Option<Self> {
        let found = match name.parse::<u32>() {
            Ok(uid) => nix::unistd::User::from_uid(Uid::from_raw(uid)),
            Err(_) => nix::unistd::User::from_name(name),
        };
        let user = found.ok().flatten()?;
        Some(Self {
            uid: user.uid,
            gid: user.gid,
        })
    }
}

/// Returns the uid of this process.
pub(crate) fn effective_user() -> u32 {
    Uid::effective().as_raw()
}

/// Returns whether a uid is that of [`SYSTEM_USER`].
pub(crate) fn is_system_user(uid: u32) -> bool {
    User::find(SYSTEM_USER).is_some_and(|user| user.uid.as_raw() == uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_or_a_number() {
        assert_eq!(User::find("root"), User::find("0"));
        let error = User::choose(Some("no-such-user")).unwrap_err();
        assert!(matches!(error, Error::NoUser(_)), "{error}");
        let me = effective_user().to_string();
        assert_eq!(User::choose(Some(&me)).unwrap(), None);
        // Another user, which this process need not be able to become.
        for name in ["root", "nobody", "65534"] {
            User::check(name).unwrap();
        }
        let error = User::check("no-such-user").unwrap_err();
        assert!(matches!(error, Error::NoUser(_)), "{error}");
    }
}
