//! Two hosts in one machine: a namespace and an interface each.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::super::record::Job;
use super::cost::NapiThread;
use crate::command;
use crate::error::LabError;
use crate::netns::{self, Namespace};

/// Where the receiver listens.
pub const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 5001);
/// What the paper switches off on every interface, and what would do the same
/// in software.
const OFFLOADS: [&str; 5] = ["rx", "tx", "tso", "gso", "gro"];
/// The name of each host's interface.
const INTERFACE: &str = "lan";
/// A link that is set up comes to carry traffic within this.
const CARRIER_TRIES: u32 = 500;

/// One of the two.
pub struct Host {
    /// Its namespace.
    pub namespace: Namespace,
    /// The thread that takes packets from its interface.
    pub napi: NapiThread,
}

/// Both.
pub struct Hosts {
    /// Where data come from.
    pub sender: Host,
    /// Where they go.
    pub receiver: Host,
}

impl Hosts {
    /// Makes the namespaces and joins them.
    ///
    /// # Errors
    /// The kernel lacks what is needed, or refuses a parameter.
    pub fn build(job: &Job) -> Result<Self, LabError> {
        let mut sender = Host::new("sender", "eth0", "10.0.0.1/24")?;
        let mut receiver = Host::new("receiver", "eth1", "10.0.0.2/24")?;
        sender.finish(&job.sender_sysctls)?;
        receiver.finish(&job.receiver_sysctls)?;
        Ok(Self { sender, receiver })
    }
}

impl Host {
    fn new(name: &str, interface: &str, address: &str) -> Result<Self, LabError> {
        let napi = NapiThread::of(interface)?;
        let namespace = Namespace::create(name)?;
        command::run(
            "ip",
            &["link", "set", interface, "netns", name, "name", INTERFACE],
        )?;
        let lines = [
            format!("addr add {address} dev {INTERFACE}"),
            "link set lo up".to_owned(),
            format!("link set {INTERFACE} up"),
        ];
        command::ip_batch(Some(name), &lines)?;
        Ok(Self { namespace, napi })
    }

    fn finish(&mut self, sysctls: &[(String, String)]) -> Result<(), LabError> {
        self.namespace.inside(|| {
            let mut arguments = vec!["-K", INTERFACE];
            arguments.extend(OFFLOADS.iter().flat_map(|&offload| [offload, "off"]));
            command::run("ethtool", &arguments)?;
            netns::set_sysctls(
                sysctls
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str())),
            )?;
            wait_for_carrier()
        })
    }
}

/// An e1000 negotiates for a moment after it was set up.
fn wait_for_carrier() -> Result<(), LabError> {
    for _ in 0..CARRIER_TRIES {
        let shown = command::run("ip", &["link", "show", INTERFACE])?;
        if shown.contains("LOWER_UP") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(LabError::Scenario(format!(
        "{INTERFACE} has no carrier after ten seconds"
    )))
}
