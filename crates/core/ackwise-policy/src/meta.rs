//! Metadata of the policies.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::LazyLock;

use bitflags::bitflags;

use crate::{ConfigError, sys};

bitflags! {
    /// What an environment can do, or what a policy needs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Capabilities: u32 {
        /// It sees the data that the ACKs cover.
        const SEE_DATA = sys::AW_CAP_SEE_DATA;
        /// It can hold an ACK and release it later.
        const HOLD = sys::AW_CAP_HOLD;
        /// It is the receiver: it decides when to acknowledge.
        const MAKE_ACKS = sys::AW_CAP_MAKE_ACKS;
        /// It owns the queue in which the ACKs wait.
        const OWN_QUEUE = sys::AW_CAP_OWN_QUEUE;
    }
}

impl Capabilities {
    /// What the datapath at an interface can do.
    pub const DATAPATH: Capabilities = Capabilities::SEE_DATA.union(Capabilities::HOLD);
    /// What a receiver's own TCP can do.
    pub const STACK: Capabilities = Capabilities::DATAPATH.union(Capabilities::MAKE_ACKS);
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WORDS: [(Capabilities, &str); 4] = [
            (Capabilities::SEE_DATA, "see the data"),
            (Capabilities::HOLD, "hold ACKs"),
            (Capabilities::MAKE_ACKS, "make the ACKs"),
            (Capabilities::OWN_QUEUE, "own the queue of the ACKs"),
        ];
        if self.is_empty() {
            return f.write_str("nothing");
        }
        let mut first = true;
        for (_, words) in WORDS.iter().filter(|(cap, _)| self.contains(*cap)) {
            write!(f, "{}{words}", if first { "" } else { " and " })?;
            first = false;
        }
        Ok(())
    }
}

/// The error for a policy that the environment cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy {policy} has to {missing}, which this environment cannot; it can {environment}")]
pub struct Unsupported {
    /// The policy.
    pub policy: &'static str,
    /// What the policy needs and the environment lacks.
    pub missing: Capabilities,
    /// What the environment can do.
    pub environment: Capabilities,
}

/// A parameter of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its name, as in a scenario or on the command line.
    pub name: &'static str,
    /// The unit of its value; empty for a plain number.
    pub unit: &'static str,
    /// A description.
    pub doc: &'static str,
    /// Its index in the configuration's list of values.
    pub index: usize,
    /// The default value.
    pub default: u32,
    /// The smallest value it may have.
    pub min: u32,
    /// The largest value it may have.
    pub max: u32,
}

struct Meta {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    needs: Capabilities,
    reads_time: bool,
    reads_busy: bool,
    params: Vec<Param>,
}

/// Converts a string literal of the shim.
pub(crate) fn literal(text: *const c_char) -> &'static str {
    // SAFETY: only called with members of the shim's tables, which are string literals: non-null,
    // terminated and static.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().unwrap_or("(not UTF-8)")
}

static POLICIES: LazyLock<Vec<Meta>> = LazyLock::new(|| {
    (0..sys::AW_POLICIES)
        .filter_map(|policy| {
            // SAFETY: returns null or an entry of a static table.
            let meta = unsafe { sys::aw_shim_policy(policy).as_ref() }?;
            // SAFETY: the table gives the number of its parameters.
            let params = unsafe { std::slice::from_raw_parts(meta.params, meta.n_params as usize) };
            Some(Meta {
                name: literal(meta.name),
                summary: literal(meta.summary),
                source: literal(meta.source),
                needs: Capabilities::from_bits_retain(
                    meta.needs & !(sys::AW_READS_TIME | sys::AW_READS_BUSY),
                ),
                reads_time: meta.needs & sys::AW_READS_TIME != 0,
                reads_busy: meta.needs & sys::AW_READS_BUSY != 0,
                params: params
                    .iter()
                    .map(|p| Param {
                        name: literal(p.name),
                        unit: literal(p.unit),
                        doc: literal(p.what),
                        index: p.index as usize,
                        default: p.def,
                        min: p.min,
                        max: p.max,
                    })
                    .collect(),
            })
        })
        .collect()
});

/// One of the policies of `policies.def`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy(u32);

impl Policy {
    /// Every policy, in the order of `policies.def`.
    pub fn all() -> impl ExactSizeIterator<Item = Policy> {
        (0..POLICIES.len() as u32).map(Policy)
    }

    /// The policy with this name.
    ///
    /// # Errors
    ///
    /// No policy has this name; the error lists the names that exist.
    pub fn by_name(name: &str) -> Result<Policy, ConfigError> {
        Policy::all()
            .find(|p| p.name() == name)
            .ok_or_else(|| ConfigError::UnknownPolicy {
                name: name.to_owned(),
                known: Policy::all().map(|p| p.name()).collect(),
            })
    }

    /// Its number in `enum aw_policy`.
    pub fn id(self) -> u32 {
        self.0
    }

    /// The policy with this number in `enum aw_policy`.
    pub fn from_id(id: u32) -> Option<Policy> {
        ((id as usize) < POLICIES.len()).then_some(Policy(id))
    }

    fn meta(self) -> &'static Meta {
        &POLICIES[self.0 as usize]
    }

    /// Its name, as in a scenario or on the command line.
    pub fn name(self) -> &'static str {
        self.meta().name
    }

    /// What it does, in one line.
    pub fn summary(self) -> &'static str {
        self.meta().summary
    }

    /// Its source.
    pub fn source(self) -> &'static str {
        self.meta().source
    }

    /// What an environment must be able to do to run it.
    pub fn needs(self) -> Capabilities {
        self.meta().needs
    }

    /// Whether its verdicts depend on the time of an event. If not, the flow passes time 0 in every
    /// environment, and an environment need not read its clock.
    pub fn reads_time(self) -> bool {
        self.meta().reads_time
    }

    /// Whether its verdicts depend on [`EventFlags::BUSY`](crate::EventFlags::BUSY). If not, an
    /// environment need not watch its CPUs.
    pub fn reads_busy(self) -> bool {
        self.meta().reads_busy
    }

    /// Its parameters, in the order of the configuration's list of values.
    pub fn params(self) -> &'static [Param] {
        &self.meta().params
    }

    /// Checks that an environment with these capabilities can run the policy.
    ///
    /// # Errors
    ///
    /// What the policy needs and the environment lacks.
    pub fn check(self, environment: Capabilities) -> Result<(), Unsupported> {
        let missing = self.needs().difference(environment);
        // An environment that makes the ACKs need not hold one: it makes it later.
        let missing = if environment.contains(Capabilities::MAKE_ACKS) {
            missing.difference(Capabilities::HOLD)
        } else {
            missing
        };
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Unsupported {
                policy: self.name(),
                missing,
                environment,
            })
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({})", self.name())
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
