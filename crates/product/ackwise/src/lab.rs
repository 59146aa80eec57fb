//! The subcommands of the laboratory, which `ackwise` hands over to the program `ackwise-lab`.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;

use ackwise_cli::error::BadInput;
use anyhow::Context;
use clap::{Arg, Command, CommandFactory};

use crate::cli::Cli;

/// The laboratory's program.
const PROGRAM: &str = "ackwise-lab";

/// The subcommands that it has, and what each does.
const SUBCOMMANDS: [(&str, &str); 6] = [
    ("run", "Run a scenario and compare its arms"),
    ("report", "Show the result of an earlier run again"),
    ("reproduce", "Repeat the experiments of papers"),
    ("scenario", "Check scenario files without running them"),
    ("tunnel-bench", "Measure what bundles of ACKs cost"),
    ("tunnel-demo", "Compare downloads with and without a tunnel"),
];

/// The command `ackwise` with the laboratory's subcommands, whose arguments are not looked at.
pub fn command() -> Command {
    let mut help = String::from("With the laboratory installed (ackwise-lab):\n");
    let mut command = Cli::command();
    for (name, about) in SUBCOMMANDS {
        help.push_str(&format!("  {name:<12}  {about}\n"));
        let rest = Arg::new("arguments")
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .value_parser(clap::value_parser!(OsString));
        let handed_over = Command::new(name)
            .about(about)
            .hide(true)
            .disable_help_flag(true)
            .disable_version_flag(true)
            .arg(rest);
        command = command.subcommand(handed_over);
    }
    command.after_help(help)
}

/// Whether a subcommand is the laboratory's.
pub fn has(name: &str) -> bool {
    SUBCOMMANDS.iter().any(|(known, _)| *known == name)
}

/// Replaces this process by the laboratory's program, with the same arguments. The program is
/// looked for beside this one, then in `PATH`. Returns only if that fails.
pub fn exec(name: &str) -> anyhow::Result<()> {
    let program = beside().unwrap_or_else(|| PROGRAM.into());
    let error = process::Command::new(&program)
        .args(std::env::args_os().skip(1))
        .exec();
    if error.kind() != ErrorKind::NotFound {
        return Err(error).with_context(|| format!("cannot start {}", program.display()));
    }
    let what = format!(
        "'{name}' belongs to the laboratory, and its program {PROGRAM} is neither beside ackwise \
         nor in PATH"
    );
    Err(BadInput::new(what)
        .mend("install it from ackwise's sources with `make install-lab`")
        .into())
}

/// The laboratory's program in the directory of this one, if it is there.
fn beside() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let program = own.with_file_name(PROGRAM);
    program.is_file().then_some(program)
}
