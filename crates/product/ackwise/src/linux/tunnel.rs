//! `ackwise tunnel`: key generation. Running tunnels are in `tunnel_run.rs`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_tunnel::{KeyPair, key_from_base64, key_to_base64};
use anyhow::Context;

use crate::linux::cli::tunnel::TunnelCommand;
use crate::linux::tunnel_run;

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
    let mut made = match options.open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let what = format!("{} exists: keys are not overwritten", file.display());
            return Err(BadInput::new(what)
                .hint("name another file, or remove it first")
                .into());
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let directory = file.parent().unwrap_or(file).display();
            let what = format!("{}: there is no directory {directory}", file.display());
            return Err(BadInput::new(what)
                .hint(format!("mkdir -p {directory}"))
                .into());
        }
        opened => opened.with_context(|| format!("cannot write {}", file.display()))?,
    };
    if let Err(error) = writeln!(made, "{}", key_to_base64(&keys.secret)) {
        // A truncated key is useless, and would block the next attempt.
        let _ = std::fs::remove_file(file);
        return Err(error).with_context(|| format!("cannot write {}", file.display()));
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
    let secret = key_from_base64(&text).map_err(|error| {
        BadInput::new(format!("{name}: {error}"))
            .hint("`ackwise tunnel keygen FILE`, or `wg genkey`, makes one")
    })?;
    let keys = KeyPair::from_secret(secret).context("cannot use this key")?;
    print_public_key(&keys, format)
}

fn print_public_key(keys: &KeyPair, format: Format) -> anyhow::Result<()> {
    let public = key_to_base64(&keys.public);
    match format {
        Format::Json => text::print_json(&serde_json::json!({ "public_key": public })),
        Format::Text => text::print(&format!("{public}\n")),
    }
}
