//! Replaces the subcommands that work on live packets on systems other than Linux.

use ackwise_cli::GlobalArgs;
use ackwise_cli::unread::{Names, NeedsLinux};

/// The subcommands that work on live packets.
#[derive(Debug)]
pub struct Live;

impl Names for Live {
    const NAMES: &'static [&'static str] = &[
        "up", "down", "reload", "check", "attach", "ask", "status", "top", "ab", "detach",
        "gateway", "probe", "tunnel",
    ];
}

/// A subcommand that works on live packets.
pub type Command = NeedsLinux<Live>;

/// What `--help` says in addition.
pub const NOTE: &str = "\
On this system ackwise reads captures. On Linux it thins the ACKs of live connections as well.\n\n";

/// Fails: the subcommand needs Linux.
pub fn run(command: &Command, _: &GlobalArgs) -> anyhow::Result<()> {
    Err(command.refuse().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Subcommand;

    #[cfg(target_os = "linux")]
    #[test]
    fn what_linux_has_is_known_elsewhere() {
        let command = clap::Command::new("ackwise");
        let command = crate::linux::Command::augment_subcommands(command);
        let names: Vec<_> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(names, Live::NAMES);
    }

    #[test]
    fn the_names_are_subcommands() {
        assert!(Command::has_subcommand("up") && !Command::has_subcommand("analyze"));
    }
}
