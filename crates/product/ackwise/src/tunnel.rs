//! `ackwise tunnel`: its arguments, and the making of keys. Tunnels at work are in
//! `tunnel_run.rs`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackwise_cli::{Format, text};
use ackwise_tunnel::{KeyPair, key_from_text, key_to_text};
use anyhow::Context;
use clap::{Args, Subcommand, ValueHint};

use crate::cli::AttachMode;
use crate::tunnel_run;
use ackwise_cli::error::BadInput;

/// What `ackwise tunnel` does.
#[derive(Debug, Subcommand)]
pub enum TunnelCommand {
    /// Make a key pair: the private key is written to a file, the public key is printed
    Keygen(KeygenArgs),
    /// Print the public key of a private key, as `wg pubkey` does
    Pubkey(PubkeyArgs),
    /// Be one end of a tunnel, until Ctrl-C
    Up(UpArgs),
    /// Show the tunnels of this network namespace
    Status(StatusArgs),
    /// End a tunnel
    Down(DownArgs),
    /// Check configurations without starting anything
    Check {
        /// Configurations (docs/tunnel.md)
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
}

/// `ackwise tunnel keygen`.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Where the private key is written; the file must not exist
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// `ackwise tunnel pubkey`.
#[derive(Debug, Args)]
pub struct PubkeyArgs {
    /// The file with the private key; without it, standard input is read
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// `ackwise tunnel up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The configuration (docs/tunnel.md)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,

    /// End by itself after this time, e.g. 30s
    #[arg(long, value_name = "TIME", value_parser = ackwise_cli::time::duration)]
    pub duration: Option<Duration>,

    /// How the program hangs on the interface
    #[arg(long, value_enum, default_value_t = AttachMode::Auto, value_name = "HOW")]
    pub attach_mode: AttachMode,
}

/// `ackwise tunnel status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only the tunnel with this device
    #[arg(value_name = "DEVICE")]
    pub device: Option<String>,
}

/// `ackwise tunnel down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// Its device; not needed if there is one tunnel
    #[arg(value_name = "DEVICE")]
    pub device: Option<String>,
}

/// Runs `ackwise tunnel`.
pub fn tunnel(command: &TunnelCommand, format: Format) -> anyhow::Result<()> {
    match command {
        TunnelCommand::Keygen(args) => keygen(&args.file, format),
        TunnelCommand::Pubkey(args) => pubkey(args.file.as_deref(), format),
        TunnelCommand::Up(args) => tunnel_run::up(args, format),
        TunnelCommand::Status(args) => tunnel_run::status(args, format),
        TunnelCommand::Down(args) => tunnel_run::down(args, format),
        TunnelCommand::Check { files } => tunnel_run::check(files, format),
    }
}

fn keygen(file: &Path, format: Format) -> anyhow::Result<()> {
    let keys = KeyPair::generate().context("cannot make a key")?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options
        .open(file)
        .and_then(|mut file| writeln!(file, "{}", key_to_text(&keys.secret)));
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let what = format!("{} exists: a key is not overwritten", file.display());
            return Err(BadInput::new(what)
                .mend("name another file, or remove it first")
                .into());
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let directory = file.parent().unwrap_or(file).display();
            let what = format!("{}: there is no directory {directory}", file.display());
            return Err(BadInput::new(what)
                .mend(format!("mkdir -p {directory}"))
                .into());
        }
        written => written.with_context(|| format!("cannot write {}", file.display()))?,
    }
    print_public_key(&keys, format)
}

fn pubkey(file: Option<&Path>, format: Format) -> anyhow::Result<()> {
    let (name, read) = match file {
        Some(path) => (path.display().to_string(), std::fs::read_to_string(path)),
        None => (
            "standard input".to_owned(),
            std::io::read_to_string(std::io::stdin()),
        ),
    };
    let text = read.with_context(|| format!("cannot read {name}"))?;
    let secret = key_from_text(&text).map_err(|error| {
        BadInput::new(format!("{name}: {error}"))
            .mend("ackwise tunnel keygen FILE, or wg genkey, makes one")
    })?;
    let keys = KeyPair::from_secret(secret).context("cannot use this key")?;
    print_public_key(&keys, format)
}

fn print_public_key(keys: &KeyPair, format: Format) -> anyhow::Result<()> {
    let public = key_to_text(&keys.public);
    match format {
        Format::Json => text::print_json(&serde_json::json!({ "public_key": public })),
        Format::Text => text::print(&format!("{public}\n")),
    }
}
