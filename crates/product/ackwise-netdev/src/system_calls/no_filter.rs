use super::{PrivilegedOps, Rules};
use crate::Error;

/// Returns no rules.
#[must_use]
pub fn of_daemon(_ops: &PrivilegedOps) -> Rules {
    Rules::new()
}

/// Returns no rules.
#[must_use]
pub(crate) fn of_janitor() -> Rules {
    Rules::new()
}

/// Returns no rules.
#[must_use]
pub(crate) fn of_guard() -> Rules {
    Rules::new()
}

/// Returns no rules.
#[must_use]
pub(crate) fn of_loader() -> Rules {
    Rules::new()
}

/// Warns that there is no filter on this architecture.
///
/// # Errors
/// None.
pub fn restrict(_rules: &Rules) -> Result<(), Error> {
    let arch = std::env::consts::ARCH;
    tracing::warn!("this process may make any system call: there is no filter for {arch}");
    Ok(())
}
