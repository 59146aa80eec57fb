//! The settings for one interface: from arguments, or else from the configuration file.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use ackwise_cli::error::BadInput;
use ackwise_cli::policy;
use ackwise_config::interfaces::{Guard, Interface, Interfaces};
use ackwise_config::{ConfigError, Source, Span};
use ackwise_netdev::privileges::User;
use ackwise_policy::{Capabilities, Config};

use super::decision::UplinkRequest;
use crate::linux::cli::ab::{GUARD_EVERY, GuardArgs};
use crate::linux::cli::up::{CONFIG, UpArgs};
use crate::linux::shared_daemon::{check_address, check_listen, listen};

/// The settings for one interface.
#[derive(Clone)]
pub struct Settings {
    pub uplink: UplinkRequest,
    pub policy: Config,
    pub guard: GuardArgs,
    /// The maximum number of flows to track, if it was given.
    pub max_flows: Option<u32>,
    /// The policy option that was given, if any: the gateway's queue has no policy.
    pub wants: Option<&'static str>,
    pub metrics: Option<Metrics>,
    pub user: Option<String>,
    /// The file that describes the interface.
    pub file: Option<PathBuf>,
}

/// Where metrics are served, and where that was asked for.
#[derive(Clone)]
pub struct Metrics {
    pub address: SocketAddr,
    /// The place in the file; `None` if it was an argument.
    place: Option<(Source, Span)>,
}

impl Metrics {
    /// Listens on the address. An error names the option or the place in the file.
    pub fn listen(&self) -> anyhow::Result<TcpListener> {
        let Some(place) = &self.place else {
            return Ok(listen(self.address)?);
        };
        let listener = TcpListener::bind(self.address);
        Ok(listener.map_err(|error| self.cannot_listen(place, &error))?)
    }

    /// Checks that [`listen`](Self::listen) would not refuse the address, whoever has its port.
    fn check(&self) -> anyhow::Result<()> {
        let Some(place) = &self.place else {
            return Ok(check_listen(self.address)?);
        };
        let checked = check_address(self.address);
        Ok(checked.map_err(|error| self.cannot_listen(place, &error))?)
    }

    fn cannot_listen(&self, (source, span): &(Source, Span), why: &io::Error) -> ConfigError {
        let message = format!(
            "'metrics': cannot listen on {}: {why}; choose another address or port, or port 0 for \
             any free one",
            self.address
        );
        source.error_at(span, message)
    }
}

/// The configuration file: the one that is named, or else the default one if it exists. A file that
/// cannot be read is an error.
fn file(
    named: Option<&Path>,
    load: impl Fn(&Path) -> Result<Interfaces, ConfigError>,
) -> Result<Option<Interfaces>, ConfigError> {
    match named {
        Some(path) => load(path).map(Some),
        None if is_missing(Path::new(CONFIG)) => Ok(None),
        None => load(Path::new(CONFIG)).map(Some),
    }
}

/// Whether the path does not exist. A dangling symbolic link exists.
pub fn is_missing(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The policy if none is asked for.
pub fn default_policy() -> Config {
    policy::configure("adaptive", &[]).expect("it is a policy")
}

impl Settings {
    /// Where metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|it| it.address)
    }

    /// Checks what can be checked without touching anything: that the address of the metrics is one
    /// of this host, and that the user exists.
    pub fn check(&self) -> anyhow::Result<()> {
        if let Some(metrics) = &self.metrics {
            metrics.check()?;
        }
        if let Some(user) = &self.user {
            User::check(user)?;
        }
        Ok(())
    }

    /// The settings, read again while the program runs. Any mistake in the file is an error.
    pub fn again(args: &UpArgs, name: &str) -> anyhow::Result<Self> {
        let file = file(args.config.as_deref(), load_with_policies)?;
        Self::from_file(args, name, file)
    }

    /// The settings from the arguments, completed from the file.
    pub fn of(args: &UpArgs, name: &str) -> anyhow::Result<Self> {
        let file = file(args.config.as_deref(), |path| Interfaces::load(path))?;
        Self::from_file(args, name, file)
    }

    fn from_file(args: &UpArgs, name: &str, file: Option<Interfaces>) -> anyhow::Result<Self> {
        let described = file.as_ref().and_then(|file| file.by_name(name));
        if let (Some(file), None, Some(path)) = (&file, described, &args.config) {
            let names: Vec<_> = file.all.iter().map(|it| it.name.text.as_str()).collect();
            let what = format!("{} does not describe {name}", path.display());
            let has = match &names[..] {
                [] => "it describes no interface".to_owned(),
                names => format!("it describes {}", names.join(", ")),
            };
            return Err(BadInput::new(what).hint(has).into());
        }
        let policy = match (&args.policy, &file, described) {
            (Some(text), ..) => in_the_datapath(text)?,
            (None, Some(file), Some(interface)) => policy_of(file, interface)?,
            (None, ..) => default_policy(),
        };
        let guard = guard(args, described.and_then(|it| it.guard));
        let wants = [
            ("--policy", args.policy.is_some()),
            ("--guard", args.guard.guard.is_some()),
            ("--max-flows", args.max_flows.is_some()),
        ];
        let uplink = UplinkRequest {
            rate: args.rate.or(described.and_then(|it| it.up)),
            overhead: args.overhead.or(described.and_then(|it| it.overhead)),
            router: args.router || described.is_some_and(|it| it.router),
            queue: args
                .queue
                .map(Into::into)
                .or(described.and_then(|it| it.queue)),
        };
        if uplink.rate.is_none() && (uplink.overhead.is_some() || uplink.queue.is_some()) {
            let what = "--overhead and --queue need --up RATE";
            let hint = "add it (in the file: `up`), or leave them out";
            return Err(BadInput::new(what).hint(hint).into());
        }
        Ok(Self {
            uplink,
            policy,
            guard,
            max_flows: args.max_flows.or(described.and_then(|it| it.max_flows)),
            wants: wants.iter().find(|(_, is)| *is).map(|(name, _)| *name),
            metrics: metrics(args, file.as_ref(), described),
            user: args
                .user
                .clone()
                .or_else(|| described.and_then(|it| it.user.clone())),
            file: described
                .and(file.as_ref())
                .map(|it| it.source.path.clone()),
        })
    }
}

fn metrics(
    args: &UpArgs,
    file: Option<&Interfaces>,
    described: Option<&Interface>,
) -> Option<Metrics> {
    if let Some(address) = args.metrics {
        return Some(Metrics {
            address,
            place: None,
        });
    }
    let (file, described) = file.zip(described)?;
    Some(Metrics {
        address: described.metrics?,
        place: Some((file.source.clone(), described.metrics_span.clone())),
    })
}

fn guard(args: &UpArgs, described: Option<Guard>) -> GuardArgs {
    let every = match (args.guard.guard, described) {
        _ if args.no_guard => None,
        (Some(every), _) | (None, Some(Guard::Every(every))) => Some(every),
        (None, Some(Guard::Off)) => None,
        (None, Some(Guard::On) | None) => Some(GUARD_EVERY),
    };
    GuardArgs {
        guard: every,
        guard_block: args.guard.guard_block,
    }
}

/// Parses a policy that the datapath can run.
fn in_the_datapath(text: &str) -> Result<Config, BadInput> {
    let config = policy::configure(text, &[])?;
    let fits = config.policy().check(Capabilities::DATAPATH);
    fits.map_err(|error| {
        let error = ackwise_datapath::Error::from(error);
        BadInput::new(format!("--policy {text}: {error}"))
            .hint("`ackwise policies NAME` says where a policy can run")
    })?;
    Ok(config)
}

/// Parses a policy from the file, or says what is wrong with it.
fn policy_named(text: &str) -> Result<Config, String> {
    in_the_datapath(text).map_err(|error| {
        let message = error.to_string();
        let option = format!("--policy {text}: ");
        message.strip_prefix(&option).unwrap_or(&message).to_owned()
    })
}

/// The policy of an interface in the file. An error names its place there.
fn policy_of(file: &Interfaces, interface: &Interface) -> Result<Config, ConfigError> {
    let Some(word) = &interface.policy else {
        return Ok(default_policy());
    };
    policy_named(&word.text).map_err(|message| file.source.error_at(&word.span, message))
}

/// Reads a file and checks its policies too.
pub fn load_with_policies(path: &Path) -> Result<Interfaces, ConfigError> {
    Interfaces::load_with_policies(path, |text| policy_named(text).map(drop))
}
