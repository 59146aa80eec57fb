//! The hosts in one machine, each with a namespace and an interface.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::super::record::{Between, Job};
use super::between::Middle;
use super::cost::NapiThread;
use super::interfaces::{disable_offloads, take, tc, wait_for_carrier};
use crate::command;
use crate::error::LabError;
use crate::netns::{self, Namespace};

/// The port on which the receiver listens.
const PORT: u16 = 5001;
/// The name of each host's interface.
pub const INTERFACE: &str = "lan";
/// Within this time, all six interfaces get carrier. Sleeping costs no instructions, but polling
/// does.
const SETTLE_TIME: Duration = Duration::from_secs(4);
/// One of the two hosts.
pub struct Host {
    /// Its namespace.
    pub namespace: Namespace,
    /// The thread that takes packets from its interface.
    pub napi: NapiThread,
}

/// Both hosts, and what lies between them.
pub struct Hosts {
    /// The host that sends data.
    pub sender: Host,
    /// The host that receives data.
    pub receiver: Host,
    /// A router and a bridge, if the job has them.
    pub middle: Option<Middle>,
    /// The address on which the receiver listens.
    pub server: SocketAddr,
}

impl Hosts {
    /// Creates the namespaces and joins them.
    ///
    /// # Errors
    /// The kernel lacks a feature, or rejects a parameter.
    pub fn build(job: &Job) -> Result<Self, LabError> {
        let (left, right) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let far = Ipv4Addr::new(10, 0, 1, 2);
        let (mut sender, mut receiver, middle, server) = match job.between {
            Between::Wire => (
                Host::new("sender", "eth0", left, None)?,
                Host::new("receiver", "eth1", right, None)?,
                None,
                right,
            ),
            Between::Router {
                shape_bps,
                acks_bps,
            } => {
                let middle = Middle::build(acks_bps)?;
                let sender = Host::new("sender", "eth0", left, Some(Middle::NEAR))?;
                sender.shape(shape_bps)?;
                let receiver = Host::new("receiver", "eth5", far, Some(Middle::FAR))?;
                std::thread::sleep(SETTLE_TIME);
                middle.wait()?;
                (sender, receiver, Some(middle), far)
            }
        };
        sender.finish(&job.sender_sysctls)?;
        receiver.finish(&job.receiver_sysctls)?;
        Ok(Self {
            sender,
            receiver,
            middle,
            server: SocketAddr::new(IpAddr::V4(server), PORT),
        })
    }
}

impl Host {
    fn new(
        name: &str,
        interface: &str,
        address: Ipv4Addr,
        router: Option<Ipv4Addr>,
    ) -> Result<Self, LabError> {
        let napi = NapiThread::of(interface)?;
        let namespace = Namespace::create(name)?;
        take(interface, name, INTERFACE)?;
        let mut lines = vec![
            format!("addr add {address}/24 dev {INTERFACE}"),
            "link set lo up".to_owned(),
            format!("link set {INTERFACE} up"),
        ];
        lines.extend(router.map(|router| format!("route add default via {router}")));
        command::ip_batch(Some(name), &lines)?;
        Ok(Self { namespace, napi })
    }

    /// Shapes to a rate, one packet at a time, like a slower wire.
    fn shape(&self, bps: u64) -> Result<(), LabError> {
        let line =
            format!("qdisc add dev {INTERFACE} root tbf rate {bps}bit burst 1600 limit 1000000");
        self.namespace.inside(|| tc(&line))
    }

    fn finish(&mut self, sysctls: &[(String, String)]) -> Result<(), LabError> {
        self.namespace.inside(|| {
            disable_offloads(INTERFACE)?;
            netns::set_sysctls(
                sysctls
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str())),
            )?;
            wait_for_carrier(INTERFACE)
        })
    }
}
