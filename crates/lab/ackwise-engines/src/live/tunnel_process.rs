//! A tunnel endpoint in a separate process, so that it can be killed.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use ackwise_tunnel::{KeyPair, key_to_base64};
use ackwise_tunneld::{AttachMode, Config, Daemon, Stats, control};

use crate::error::LabError;
use crate::netns::Namespace;

/// The argument that makes this program a tunnel endpoint; the configuration follows.
const ARGUMENT: &str = "ackwise-tunnel-end";
/// Interval at which the process checks whether it was told to end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Call this first thing in `main`. In a process that was started as a tunnel endpoint, it serves
/// until it is told to end; elsewhere it does nothing.
pub(crate) fn run_if_asked() {
    let mut args = env::args_os().skip(1);
    if args.next().is_none_or(|arg| arg != ARGUMENT) {
        return;
    }
    let code = match args.next().map(|config| serve(Path::new(&config))) {
        Some(Ok(())) => 0,
        Some(Err(error)) => {
            eprintln!("{ARGUMENT}: {error}");
            1
        }
        None => 2,
    };
    std::process::exit(code);
}

fn serve(config: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let daemon = Daemon::start(Config::load(config)?, AttachMode::Auto)?;
    // The process must not outlive its parent.
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
    while daemon.ended().is_none() {
        thread::sleep(POLL_INTERVAL);
    }
    daemon.stop()?;
    Ok(())
}

/// The parent's handle to the process; killed on drop.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Kept open: waiting for a child closes its standard input, which would end it early.
    _stdin: Option<ChildStdin>,
    device: String,
    /// Directory with its configuration and key.
    _files: tempfile::TempDir,
}

impl Process {
    /// Starts a process in a namespace. It is ready a little later.
    pub fn start(config: &Config, keys: &KeyPair, at: &Namespace) -> Result<Self, LabError> {
        let files = tempfile::tempdir().map_err(LabError::os("cannot write a tunnel's files"))?;
        let path = files.path().join("tunnel.toml");
        let mut config = config.clone();
        config.private_key = Some("key".into());
        let text = config
            .to_toml()
            .map_err(|error| LabError::Run(error.to_string()))?;
        let mut key = OpenOptions::new();
        let key = key.write(true).create_new(true).mode(0o600);
        key.open(files.path().join("key"))
            .and_then(|mut key| key.write_all(key_to_base64(&keys.secret).as_bytes()))
            .and_then(|()| fs::write(&path, text))
            .map_err(LabError::os("cannot write a tunnel's files"))?;
        let mut child = at.inside(|| {
            Command::new("/proc/self/exe")
                .arg(ARGUMENT)
                .arg(&path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .map_err(LabError::os("cannot start a tunnel's process"))
        })?;
        Ok(Self {
            _stdin: child.stdin.take(),
            child,
            device: config.device,
            _files: files,
        })
    }

    /// Tells the process to end and returns its statistics.
    pub fn stop(mut self, at: &Namespace) -> Result<Stats, String> {
        let last = self.ask(at, control::down)?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("its process ended with {status}"));
        }
        Ok(last)
    }

    /// Kills the process with SIGKILL and returns its statistics up to then.
    pub fn kill(mut self, at: &Namespace) -> Result<Stats, String> {
        let last = self.ask(at, control::status)?;
        self.child.kill().map_err(|error| error.to_string())?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.code().is_some() {
            return Err(format!("its process ended by itself, {status}"));
        }
        Ok(last)
    }

    fn ask(
        &self,
        at: &Namespace,
        what: fn(&str) -> Result<Stats, ackwise_tunneld::Error>,
    ) -> Result<Stats, String> {
        let stats =
            at.inside(|| what(&self.device).map_err(|error| LabError::Run(error.to_string())));
        stats.map_err(|error| error.to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
