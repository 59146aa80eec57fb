//! Subcommands whose arguments are not parsed: they belong to another program, or to another
//! system.

use std::ffi::OsString;
use std::marker::PhantomData;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Error, FromArgMatches, Subcommand};

use crate::error::BadInput;

/// A hidden subcommand that takes whatever follows it.
pub fn subcommand(name: &'static str) -> Command {
    let rest = Arg::new("arguments")
        .num_args(0..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .value_parser(clap::value_parser!(OsString));
    Command::new(name)
        .hide(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(rest)
}

/// The subcommands of a program that need Linux.
pub trait Names {
    /// The names as typed on the command line.
    const NAMES: &'static [&'static str];
}

/// A subcommand that needs Linux, on another system.
#[derive(Debug)]
pub struct NeedsLinux<N> {
    name: String,
    names: PhantomData<N>,
}

impl<N> NeedsLinux<N> {
    /// The error with which it ends.
    pub fn refuse(&self) -> BadInput {
        BadInput::new(format!("'{}' needs Linux", self.name))
            .hint("run it there; --help lists what this program does on this system")
    }
}

impl<N: Names> FromArgMatches for NeedsLinux<N> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let name = matches.subcommand_name();
        let name = name.ok_or_else(|| Error::new(ErrorKind::MissingSubcommand))?;
        Ok(Self {
            name: name.to_owned(),
            names: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<N: Names> Subcommand for NeedsLinux<N> {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(N::NAMES.iter().map(|name| subcommand(name)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        N::NAMES.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{EXIT_BAD_INPUT, exit_code};
    use clap::Parser;

    #[derive(Debug)]
    struct Two;

    impl Names for Two {
        const NAMES: &'static [&'static str] = &["up", "top"];
    }

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(subcommand)]
        command: Both,
    }

    #[derive(Debug, Subcommand)]
    enum Both {
        #[command(flatten)]
        Live(NeedsLinux<Two>),
        Analyze,
    }

    #[test]
    fn what_needs_linux_says_so_whatever_follows_it() {
        for line in ["x up --no-such-thing eth0", "x up --help", "x up"] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            let Both::Live(refused) = cli.command else {
                panic!("{line}: {cli:?}");
            };
            let error = anyhow::Error::from(refused.refuse());
            assert!(error.to_string().starts_with("'up' needs Linux"), "{error}");
            assert_eq!(exit_code(&error, |_| false), EXIT_BAD_INPUT);
        }
    }

    #[test]
    fn the_others_are_read_as_ever() {
        let cli = Cli::try_parse_from(["x", "analyze"]).unwrap();
        assert!(matches!(cli.command, Both::Analyze));
        assert!(Cli::try_parse_from(["x", "down"]).is_err());
        assert!(Cli::try_parse_from(["x", "analyze", "--more"]).is_err());
    }
}
