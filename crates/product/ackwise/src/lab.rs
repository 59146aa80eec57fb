//! The laboratory's subcommands, which `ackwise` hands over to the program `ackwise-lab`.

use std::env;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process;

use ackwise_cli::error::BadInput;
use ackwise_cli::unread;
use anyhow::Context;
use clap::{Command, CommandFactory};

use crate::cli::Cli;
use crate::live::NOTE;

/// The laboratory's program.
const PROGRAM: &str = "ackwise-lab";

/// The laboratory's subcommands, and what each does.
const SUBCOMMANDS: [(&str, &str); 8] = [
    ("run", "Run a scenario and compare its arms"),
    ("report", "Show the result of an earlier run"),
    ("reproduce", "Repeat the experiments of papers"),
    ("scenario", "Check scenario files without running them"),
    ("trace", "Print the trace of a varying link rate"),
    ("conform", "Judge any device that handles ACKs"),
    ("tunnel-bench", "Measure what bundling ACKs costs"),
    ("tunnel-demo", "Compare downloads with and without a tunnel"),
];

/// The command `ackwise` with the laboratory's subcommands, whose arguments are not parsed.
pub fn command() -> Command {
    let mut help = String::from(NOTE);
    help.push_str("With the laboratory installed (ackwise-lab):\n");
    let mut command = Cli::command();
    for (name, about) in SUBCOMMANDS {
        help.push_str(&format!("  {name:<12}  {about}\n"));
        command = command.subcommand(unread::subcommand(name).about(about));
    }
    command.after_help(help)
}

/// Whether a subcommand is one of the laboratory's.
pub fn has(name: &str) -> bool {
    SUBCOMMANDS.iter().any(|(known, _)| *known == name)
}

/// Replaces this process by the laboratory's program, with the same arguments. The program is
/// looked for beside this one, then in `PATH`. Returns only if that fails.
pub fn exec(name: &str) -> anyhow::Result<()> {
    let program = sibling_program().unwrap_or_else(|| PROGRAM.into());
    let error = replace(process::Command::new(&program).args(env::args_os().skip(1)));
    if error.kind() != ErrorKind::NotFound {
        return Err(error).with_context(|| format!("cannot start {}", program.display()));
    }
    let what = format!(
        "'{name}' belongs to the laboratory, and its program {PROGRAM} is neither beside ackwise \
         nor in PATH"
    );
    Err(BadInput::new(what)
        .hint("install the package ackwise-lab, or run `make install-lab` in ackwise's sources")
        .into())
}

/// Replaces this process by another program. Returns only if that fails.
#[cfg(unix)]
fn replace(program: &mut process::Command) -> io::Error {
    std::os::unix::process::CommandExt::exec(program)
}

/// Runs another program, and exits with its status. Returns only if it cannot be started.
#[cfg(not(unix))]
fn replace(program: &mut process::Command) -> io::Error {
    match program.status() {
        Ok(status) => process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

/// The laboratory's program in the directory of this one, if it exists.
fn sibling_program() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let program = own.with_file_name(format!("{PROGRAM}{}", env::consts::EXE_SUFFIX));
    program.is_file().then_some(program)
}
