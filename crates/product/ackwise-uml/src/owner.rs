//! Names that identify the process that created something, so that what a killed process left
//! behind can be told from what is in use.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first part of every name.
const PREFIX: &str = "ackwise";

/// Distinguishes the sets of names of one process.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Names for everything in one run, different from those of any other run.
#[derive(Debug, Clone)]
pub struct Naming {
    stem: String,
}

impl Naming {
    /// A fresh set of names.
    #[must_use]
    pub fn fresh() -> Self {
        let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let started = start_time(pid).unwrap_or(0);
        Self {
            stem: format!("{PREFIX}-{pid}-{started}-{generation}"),
        }
    }

    /// The name for a node, or for anything else called `what` in this run.
    #[must_use]
    pub fn of(&self, what: &str) -> String {
        format!("{}-{what}", self.stem)
    }

    /// The name for a link, which is never that of a node.
    #[must_use]
    pub fn of_link(&self, link: &str) -> String {
        format!("{}-:{link}", self.stem)
    }
}

/// Returns the start time of a process in clock ticks since boot. A process id is reused; the pair
/// of id and start time is not.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command may contain spaces and parentheses; fields follow the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Returns the process (id, start time) that created something with this name.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.splitn(4, '-');
    let pid = parts.next()?.parse().ok()?;
    let started = parts.next()?.parse().ok()?;
    let _generation: u32 = parts.next()?.parse().ok()?;
    parts.next()?;
    Some((pid, started))
}

/// Returns whether a name is one of [`Naming`]'s, from any process.
#[must_use]
pub fn is_of_ackwise(name: &str) -> bool {
    owner(name).is_some()
}

/// Returns whether a name of [`Naming`] is from a process that has ended.
#[must_use]
pub fn is_left_over(name: &str) -> bool {
    owner(name).is_some_and(|(pid, started)| start_time(pid) != Some(started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_owner() {
        let name = Naming::fresh().of("node-with-dash");
        let (pid, started) = owner(&name).unwrap();
        assert_eq!(pid, std::process::id());
        assert_eq!(Some(started), start_time(pid));
        assert_ne!(Naming::fresh().of("a"), Naming::fresh().of("a"));
        assert!(!is_left_over(&name));
        assert!(is_left_over(&format!("ackwise-{pid}-{}-0-a", started + 1)));
        assert!(!is_left_over("of-somebody-else"));
    }

    #[test]
    fn names_of_others_are_left_alone() {
        for name in [
            "ackwise",
            "ackwise-engines",
            "ackwise-1-x-0-a",
            "mine",
            "ackwise-1-2-3",
        ] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
