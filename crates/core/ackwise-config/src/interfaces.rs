//! What `ackwise up` does on each interface of a machine: `/etc/ackwise/ackwise.toml`.
//!
//! ```toml
//! [[interface]]
//! name = "wan0"
//! up = "4.75 Mbit/s"
//! guard = "10 min"
//! ```
//!
//! Each key is the command-line option of the same name. `ackwise up` decides what the file leaves
//! out.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::diagnostic::{Collector, ConfigError, Span};
use crate::section::{Section, Word};
use crate::source::Source;
use crate::tree::{Kind, Table};
use crate::uplink::UplinkRate;

/// The longest name of a network interface in bytes (`IFNAMSIZ` − 1).
const MAX_NAME: usize = 15;
/// The shortest and the longest pause between two comparisons of a guard.
const GUARD: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(86_400)];

/// The smallest and the largest number of flows that a process has room for.
const MAX_FLOWS: [u32; 2] = [64, 1 << 20];

const KEYS: [&str; 10] = [
    "name",
    "up",
    "overhead",
    "router",
    "queue",
    "policy",
    "guard",
    "max_flows",
    "metrics",
    "user",
];

/// A queue that shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UplinkQueue {
    /// The kernel's cake, with the policy before it.
    Cake,
    /// The queue of `ackwise gateway`.
    Gateway,
}

impl UplinkQueue {
    /// Both, by their names in configuration files.
    pub const NAMES: [(&str, UplinkQueue); 2] = [
        ("cake", UplinkQueue::Cake),
        ("gateway", UplinkQueue::Gateway),
    ];
}

/// Whether and how often the policy is compared with no policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Never.
    Off,
    /// At `ackwise up`'s default interval.
    On,
    /// Whenever this much time has passed since the last comparison.
    Every(Duration),
}

/// The configuration of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The name of the interface.
    pub name: Word,
    /// The rate that outgoing traffic is shaped to.
    pub up: Option<UplinkRate>,
    /// The bytes that each IP packet costs on the uplink in addition to its own length.
    pub overhead: Option<u32>,
    /// Whether this machine owns the uplink behind the interface, whatever its routes say.
    pub router: bool,
    /// The queue that shapes to that rate.
    pub queue: Option<UplinkQueue>,
    /// The policy, with its parameters as `ackwise status` shows them. Whether the policy exists is
    /// not checked here.
    pub policy: Option<Word>,
    /// Whether the policy is guarded.
    pub guard: Option<Guard>,
    /// The maximum number of flows to track.
    pub max_flows: Option<u32>,
    /// The address that metrics are served on.
    pub metrics: Option<SocketAddr>,
    /// The position of that address in the file, or of the table's header if there is none.
    pub metrics_span: Span,
    /// The user that the process runs as once everything is set up.
    pub user: Option<String>,
}

/// The interfaces of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interfaces {
    /// The interfaces, in the order of the file.
    pub all: Vec<Interface>,
    /// The text of the file, to which later mistakes refer.
    pub source: Source,
}

impl Interfaces {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Returns [`ConfigError::Read`] if the file cannot be read, and
    /// [`ConfigError::Invalid`] with all mistakes if the configuration is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Interfaces, ConfigError> {
        Interfaces::check(Source::read(path.as_ref())?, &|_| Ok(()))
    }

    /// Reads and checks a file. `check` checks each policy in it, and returns what is wrong with
    /// it.
    ///
    /// # Errors
    /// As [`Interfaces::load`]; wrong policies are among the mistakes.
    pub fn load_with_policies(
        path: impl AsRef<Path>,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Interfaces, ConfigError> {
        Interfaces::check(Source::read(path.as_ref())?, &check)
    }

    /// Checks the text of a configuration. `name` stands for the file in messages.
    ///
    /// # Errors
    /// Returns [`ConfigError::Invalid`] with all mistakes if the configuration is wrong.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<Interfaces, ConfigError> {
        let source = Source {
            path: name.as_ref().to_owned(),
            text: text.to_owned(),
        };
        Interfaces::check(source, &|_| Ok(()))
    }

    fn check(
        source: Source,
        policy: &dyn Fn(&str) -> Result<(), String>,
    ) -> Result<Interfaces, ConfigError> {
        let all = source.check(|tree, errors| interfaces(tree, errors, policy))?;
        Ok(Interfaces { all, source })
    }

    /// Returns the configuration of the interface with this name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Interface> {
        self.all
            .iter()
            .find(|interface| interface.name.text == name)
    }
}

fn interfaces(
    tree: &Table,
    errors: &RefCell<Collector>,
    check_policy: &dyn Fn(&str) -> Result<(), String>,
) -> Option<Vec<Interface>> {
    let top = Section::open(tree, &(0..0), "this file", &["interface"], errors);
    let mut all: Vec<Interface> = Vec::new();
    for (table, span) in top.tables("interface") {
        let section = Section::open(table, span, "an interface", &KEYS, errors);
        let Some(interface) = interface(&section, check_policy) else {
            continue;
        };
        let name = &interface.name;
        if all.iter().any(|other| other.name.text == name.text) {
            let message = format!("'{}' is given twice", name.text);
            section.error(&name.span, message);
        }
        let others = all.iter().filter_map(|other| other.metrics);
        if interface
            .metrics
            .is_some_and(|ours| others.into_iter().any(|theirs| clash(ours, theirs)))
        {
            section.error(
                &section.span_of("metrics"),
                "another interface has this port; give each a port of its own",
            );
        }
        all.push(interface);
    }
    Some(all)
}

/// Whether two sockets cannot listen on these addresses at the same time.
fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let same = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && same
}

fn interface(
    section: &Section<'_>,
    check_policy: &dyn Fn(&str) -> Result<(), String>,
) -> Option<Interface> {
    let name = section.required_word("name", "\"wan0\"");
    if let Some(name) = &name {
        check_name(section, name);
    }
    let up = uplink_rate(section);
    for key in ["overhead", "queue"] {
        if section.has(key) && !section.has("up") {
            let message = format!("'{key}' needs a rate; add up = \"4.75 Mbit/s\"");
            section.error(&section.span_of(key), message);
        }
    }
    let metrics = section.socket_address("metrics");
    let overhead = section.whole("overhead", 0, 256);
    let router = section.flag("router").unwrap_or(false);
    let queue = section.choice("queue", &UplinkQueue::NAMES);
    let policy = section.word("policy");
    if let Some(word) = &policy
        && let Err(message) = check_policy(&word.text)
    {
        section.error(&word.span, message);
    }
    let guard = guard(section);
    let max_flows = section.whole("max_flows", MAX_FLOWS[0], MAX_FLOWS[1]);
    let user = section.word("user").map(|word| word.text);
    if queue == Some(UplinkQueue::Gateway) {
        for key in ["policy", "guard", "max_flows"] {
            let off = key == "guard" && guard == Some(Guard::Off);
            if section.has(key) && !off {
                let message = format!("'{key}' is for a policy, and the gateway's queue has none");
                section.error(&section.span_of(key), message);
            }
        }
    }
    Some(Interface {
        name: name?,
        up,
        overhead,
        router,
        queue,
        policy,
        guard,
        max_flows,
        metrics,
        metrics_span: section.span_of("metrics"),
        user,
    })
}

fn check_name(section: &Section<'_>, name: &Word) {
    // The kernel accepts more, but not what follows a colon, and a name with a leading dash is
    // taken for an option.
    let fine = (1..=MAX_NAME).contains(&name.text.len())
        && !matches!(name.text.as_str(), "." | "..")
        && !name.text.starts_with('-')
        && !name
            .text
            .contains(|c: char| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control());
    if !fine {
        let message = format!("'{}' is not an interface name", name.text.escape_debug());
        section.error(&name.span, message);
    }
}

fn uplink_rate(section: &Section<'_>) -> Option<UplinkRate> {
    let word = section.word("up")?;
    let rate = UplinkRate::parse(&word.text);
    if let Err(message) = &rate {
        section.error(&word.span, format!("'up': {message}"));
    }
    rate.ok()
}

fn guard(section: &Section<'_>) -> Option<Guard> {
    match section.value("guard")?.kind {
        Kind::Bool(true) => Some(Guard::On),
        Kind::Bool(false) => Some(Guard::Off),
        _ => section.time("guard", GUARD[0], GUARD[1]).map(Guard::Every),
    }
}
