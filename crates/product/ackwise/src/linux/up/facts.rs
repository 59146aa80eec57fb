//! What `ackwise up` finds out before it decides. Nothing here changes anything.

use std::fmt;
use std::path::Path;

use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::qdisc::{CakeFilter, Qdisc};
use ackwise_netdev::registry::netns_inode;
use ackwise_netdev::surroundings::{self, DefaultRoutes, Device, Link};
use ackwise_netdev::{Error as Netdev, ifreq, kernel, missing_helper};
use serde::Serialize;

use super::{Record, registry};

/// Where a kernel with a JIT for BPF programs says in the initial network namespace whether that is
/// on.
const JIT_SWITCH: &str = "/proc/sys/net/core/bpf_jit_enable";

/// The state of an interface and its surroundings.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    pub interface: String,
    #[serde(skip)]
    pub index: u32,
    pub link: Link,
    /// `None` if sysfs is missing, or shows another network namespace.
    pub device: Option<Device>,
    pub default_route: DefaultRoute,
    pub forwards: Forwards,
    pub queue: Queue,
    /// `None` if the registry of daemons may not be read.
    pub at_work: Option<Vec<ActiveDaemon>>,
    /// Whether a killed `ackwise up` left its queue; `queue` is then the one that is restored
    /// first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left_by_killed: bool,
    pub kernel: Kernel,
}

/// Where the default routes lead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DefaultRoute {
    pub v4: bool,
    pub v6: bool,
    /// Other interfaces that a default route leads through.
    pub elsewhere: Vec<String>,
}

/// Whether packets that arrive on the interface are forwarded; `None` if the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Forwards {
    pub v4: Option<bool>,
    pub v6: Option<bool>,
}

/// The queue of the interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// The root queue discipline. An interface that is down may have none.
    pub root: Option<Root>,
    pub owner: Owner,
    /// Whether the ifb device that sqm-scripts make for the interface exists.
    pub sqm: bool,
    /// The root as the kernel lists it, to restore it.
    #[serde(skip)]
    pub found: Option<Qdisc>,
}

/// The queue discipline at the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Root {
    pub kind: String,
    /// The handle as tc writes it: `8001:`.
    pub handle: String,
    /// The rate, if it is a shaping cake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Which ACKs it removes, if it is a cake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_filter: Option<CakeFilter>,
}

/// Who has set the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The kernel's own default queue.
    Kernel,
    /// The queue of an `ackwise up`, which runs or was killed.
    Ackwise,
    /// A queue that somebody has set, which does not shape and can be restored.
    SomebodyPlain,
    /// A queue that somebody has set, which may shape or cannot be restored.
    Somebody,
}

/// An ackwise daemon that holds the interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActiveDaemon {
    pub what: &'static str,
    pub pid: u32,
}

/// What the kernel supports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kernel {
    pub release: String,
    /// Whether it has tcx links, by its version (Linux 6.6).
    pub tcx: bool,
    /// Whether it has the cake queue discipline; `None` if that cannot be told without root.
    pub cake: Option<bool>,
    /// What it lacks for the programs that thin ACKs, if that was looked for and found missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<&'static str>,
}

impl DefaultRoute {
    /// Whether one leads through the interface.
    pub fn is_here(&self) -> bool {
        self.v4 || self.v6
    }
}

impl Forwards {
    pub fn any(&self) -> bool {
        self.v4 == Some(true) || self.v6 == Some(true)
    }

    /// Whether the answer is missing for both IP versions.
    pub fn unknown(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.root {
            None => f.write_str("no queue"),
            Some(root) => f.write_str(&root.kind),
        }
    }
}

impl Facts {
    /// Asks the kernel and the registry.
    ///
    /// # Errors
    /// If there is no such interface, or the kernel does not answer.
    pub fn gather(name: &str) -> Result<Self, Netdev> {
        let missing = || Netdev::NoInterface(name.to_owned());
        let index = ifreq::index_of(name).ok_or_else(missing)?;
        // /proc and /sys know the interface by no other name.
        let own_name = ifreq::own_name(index, name);
        let mut netlink = Netlink::open().map_err(Netdev::system("open a netlink socket"))?;
        let link = netlink.link(index);
        let link = link.map_err(Netdev::system("read the link"))?;
        let routes = netlink.default_routes();
        let routes = routes.map_err(Netdev::system("read the routes"))?;
        let queue = queue(&mut netlink, &own_name, index);
        let queue = queue.map_err(Netdev::system("read the queue disciplines"))?;
        let release = kernel::release();
        Ok(Self {
            interface: name.to_owned(),
            index,
            link,
            device: surroundings::device(&own_name, index),
            default_route: default_route(&routes, index),
            forwards: Forwards {
                v4: surroundings::forwards(&own_name, "ipv4"),
                v6: surroundings::forwards(&own_name, "ipv6"),
            },
            queue,
            at_work: at_work(name),
            left_by_killed: false,
            kernel: Kernel {
                tcx: kernel::version() >= Some((6, 6)),
                cake: surroundings::has_module(&release, "sch_cake")
                    .or_else(|| netlink.has_cake(index).ok()),
                release,
                lacks: None,
            },
        })
    }

    /// The facts as `ackwise up` would find them, without claiming the interface. A running
    /// `ackwise up` is reported instead of its attachments, and the queue that a killed one
    /// replaced counts as restored. Only here what the kernel lacks is looked for: `ackwise up`
    /// finds out by loading its programs.
    ///
    /// # Errors
    /// As [`Facts::gather`].
    pub fn predict(name: &str) -> Result<Self, Netdev> {
        let mut facts = Self::gather(name)?;
        facts.kernel.lacks = lacks(
            Path::new(kernel::SYSFS),
            Path::new(JIT_SWITCH).exists(),
            kernel::version(),
        );
        let Ok(netns) = netns_inode() else {
            return Ok(facts);
        };
        let index = facts.index;
        let is_this_interface = |it: &Record| it.netns == netns && it.index == index;
        // Without root neither is known.
        let running = registry().list().unwrap_or_default();
        if let Some(up) = running.into_iter().find(is_this_interface) {
            let (what, pid) = ("up", up.pid);
            facts.at_work = Some(vec![ActiveDaemon { what, pid }]);
            return Ok(facts);
        }
        let left = registry().leftovers().unwrap_or_default();
        let left = left
            .into_iter()
            .find(is_this_interface)
            .and_then(|it| it.replaced);
        if let (Some(left), Owner::Ackwise) = (left, facts.queue.owner) {
            facts.queue.set_restored(left.found);
            facts.left_by_killed = true;
        }
        Ok(facts)
    }
}

impl Queue {
    /// Whether the queue is unchanged. The kernel recreates its own queue when the interface comes
    /// up.
    pub fn is_unchanged_since(&self, before: &Queue) -> bool {
        let are_the_kernel_s = [before.owner, self.owner] == [Owner::Kernel; 2];
        self == before || are_the_kernel_s
    }

    /// Describes the queue after `found` is restored; `None` is the kernel's own.
    fn set_restored(&mut self, found: Option<Qdisc>) {
        self.owner = found
            .as_ref()
            .map_or(Owner::Kernel, |root| owner(std::slice::from_ref(root), 0));
        self.root = found.as_ref().map(Root::of);
        self.found = found;
    }
}

impl Root {
    fn of(root: &Qdisc) -> Root {
        Root {
            kind: root.kind.clone(),
            handle: format!("{:x}:", root.handle >> 16),
            rate_bps: root.cake_rate_bps(),
            ack_filter: root.cake_filter(),
        }
    }
}

/// Returns what the kernel is known to lack for the programs that thin ACKs. `sysfs` is its directory
/// about itself; `has_jit` says whether it is known to have a JIT for BPF programs.
fn lacks(sysfs: &Path, has_jit: bool, version: Option<(u32, u32)>) -> Option<&'static str> {
    // bpf_loop() came with Linux 5.17. Whether an older kernel has it as well is for root to ask.
    let is_old = version.is_some_and(|version| version < (5, 17));
    if is_old && let Some(helper) = missing_helper() {
        return Some(helper);
    }
    let has_no_types = kernel::has_types(sysfs) == Some(false);
    // A kernel for virtual time (User Mode Linux) has no JIT, and is patched to need no types. Other
    // network namespaces than the initial one do not show a JIT, so there this is not known.
    (has_no_types && has_jit).then_some("types of its own (BTF)")
}

fn default_route(routes: &DefaultRoutes, index: u32) -> DefaultRoute {
    let mut others: Vec<u32> = routes.v4.iter().chain(&routes.v6).copied().collect();
    others.retain(|other| *other != index);
    others.sort_unstable();
    others.dedup();
    DefaultRoute {
        v4: routes.v4.contains(&index),
        v6: routes.v6.contains(&index),
        elsewhere: others.into_iter().filter_map(ifreq::name_at).collect(),
    }
}

fn queue(netlink: &mut Netlink, name: &str, index: u32) -> std::io::Result<Queue> {
    let all = netlink.qdiscs(index)?;
    let found = all.iter().find(|qdisc| qdisc.is_root()).cloned();
    let filters = match &found {
        Some(root) if !root.is_default() => netlink.filters_of(index, root.handle)?,
        _ => 0,
    };
    Ok(Queue {
        root: found.as_ref().map(Root::of),
        owner: owner(&all, filters),
        sqm: ifreq::index_of(&sqm_device(name)).is_some(),
        found,
    })
}

/// Who has set the queue disciplines of an interface, given the number of filters on the root.
fn owner(all: &[Qdisc], filters: usize) -> Owner {
    let Some(root) = all.iter().find(|qdisc| qdisc.is_root()) else {
        return Owner::Kernel;
    };
    let children_are_defaults = all
        .iter()
        .all(|qdisc| qdisc.is_root() || qdisc.is_default());
    match root {
        _ if root.is_ours() => Owner::Ackwise,
        _ if !children_are_defaults || filters > 0 => Owner::Somebody,
        _ if root.is_default() => Owner::Kernel,
        _ if root.is_restorable() => Owner::SomebodyPlain,
        _ => Owner::Somebody,
    }
}

/// The device by which sqm-scripts shape what arrives on an interface. They cut its name to the 15
/// bytes that the kernel takes; this cuts at a character boundary.
fn sqm_device(name: &str) -> String {
    let device = format!("ifb4{name}");
    let end = (0..=15).rev().find(|at| device.is_char_boundary(*at));
    device[..end.unwrap_or(0)].to_owned()
}

fn at_work(name: &str) -> Option<Vec<ActiveDaemon>> {
    let mut found = Vec::new();
    // The calls below return an error also if there is no daemon.
    ackwise_datapath::control::list().ok()?;
    if let Ok(holder) = ackwise_datapath::control::holder(name) {
        found.push(ActiveDaemon {
            what: "attach",
            pid: holder.pid,
        });
    }
    if let Ok(stats) = ackwise_gateway::control::status(name) {
        found.push(ActiveDaemon {
            what: "gateway",
            pid: stats.pid,
        });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u32 = u32::MAX;

    fn qdisc(kind: &str, handle: u32, parent: u32) -> Qdisc {
        Qdisc {
            kind: kind.to_owned(),
            handle,
            parent,
            options: Vec::new(),
        }
    }

    #[test]
    fn whose_a_queue_is() {
        let of = |all: &[Qdisc]| owner(all, 0);
        for kind in ["noqueue", "pfifo_fast", "fq_codel", "cake"] {
            assert_eq!(of(&[qdisc(kind, 0, ROOT)]), Owner::Kernel, "{kind}");
        }
        let mq = [
            qdisc("mq", 0, ROOT),
            qdisc("fq_codel", 0, 1),
            qdisc("fq_codel", 0, 2),
        ];
        assert_eq!(of(&mq), Owner::Kernel);
        assert_eq!(of(&[]), Owner::Kernel);
        for kind in ["cake", "htb", "tbf", "hfsc", "netem", "mq"] {
            let set = [qdisc(kind, 0x1_0000, ROOT)];
            assert_eq!(of(&set), Owner::Somebody, "{kind}");
        }
        let plain = [qdisc("fq_codel", 0x8001_0000, ROOT)];
        assert_eq!(of(&plain), Owner::SomebodyPlain);
        assert_eq!(owner(&plain, 1), Owner::Somebody);
        let below = [qdisc("fq_codel", 0, ROOT), qdisc("pfifo", 0x2_0000, 1)];
        assert_eq!(of(&below), Owner::Somebody);
        let ours = [qdisc("cake", ackwise_netdev::qdisc::HANDLE, ROOT)];
        assert_eq!(of(&ours), Owner::Ackwise);
    }

    #[test]
    fn a_queue_that_somebody_has_set_meanwhile_is_another_one() {
        let queue = |kind: &str, handle: u32| {
            let found = qdisc(kind, handle, ROOT);
            Queue {
                root: Some(Root::of(&found)),
                owner: owner(std::slice::from_ref(&found), 0),
                sqm: false,
                found: Some(found),
            }
        };
        let (own, another) = (queue("noqueue", 0), queue("fq_codel", 0));
        assert!(own.is_unchanged_since(&own) && another.is_unchanged_since(&own));
        let theirs = queue("fq_codel", 0x1_0000);
        assert!(theirs.is_unchanged_since(&theirs));
        for (before, now) in [
            (&own, &theirs),
            (&theirs, &own),
            (&theirs, &queue("htb", 0x1_0000)),
        ] {
            assert!(!now.is_unchanged_since(before), "{before} and {now}");
        }
        // Another handle, or other options, make it another queue.
        assert!(!queue("fq_codel", 0x2_0000).is_unchanged_since(&theirs));
        let mut changed = theirs.clone();
        changed.found.as_mut().unwrap().options = vec![1];
        assert!(!changed.is_unchanged_since(&theirs));
    }

    #[test]
    fn a_kernel_without_types_is_known_by_its_sysfs() {
        let dir = tempfile::tempdir().unwrap();
        let new = Some((6, 12));
        // A container hides what the directory has.
        assert_eq!(lacks(dir.path(), true, new), None);
        std::fs::create_dir(dir.path().join("mm")).unwrap();
        assert_eq!(lacks(dir.path(), true, new), Some("types of its own (BTF)"));
        assert_eq!(lacks(dir.path(), false, new), None);
        assert_eq!(lacks(&dir.path().join("missing"), true, new), None);
        std::fs::create_dir(dir.path().join("btf")).unwrap();
        assert_eq!(lacks(dir.path(), true, new), None);
    }

    #[test]
    fn routes_are_here_or_elsewhere() {
        let routes = DefaultRoutes {
            v4: vec![7],
            v6: vec![],
        };
        let here = default_route(&routes, 7);
        assert!(here.v4 && !here.v6 && here.elsewhere.is_empty());
        assert!(!default_route(&routes, 8).is_here());
    }

    #[test]
    fn the_device_of_sqm_has_a_name_that_the_kernel_takes() {
        assert_eq!(sqm_device("eth0"), "ifb4eth0");
        assert_eq!(sqm_device("a-long-name-xyz").len(), 15);
        assert_eq!(sqm_device("abcdefghij\u{e4}"), "ifb4abcdefghij");
    }

    #[test]
    fn the_loopback_interface_is_found_and_another_is_not() {
        let facts = Facts::gather("lo").unwrap();
        assert!(!facts.default_route.is_here() && facts.queue.owner == Owner::Kernel);
        assert!(matches!(
            Facts::gather("nosuch0"),
            Err(Netdev::NoInterface(_))
        ));
    }
}
