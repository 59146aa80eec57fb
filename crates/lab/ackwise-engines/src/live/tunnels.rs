//! ACK tunnels over links, where a scenario's multiplexer is one: a daemon at each end.

use std::io::Write;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use ackwise_config::queues::Mux;
use ackwise_config::tunnel::{Encoding, OtherPackets, Peer, Prefix};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{MuxRecord, QueueRecord};
use ackwise_tunnel::{KeyPair, key_to_base64};
use ackwise_tunneld::{AttachMode, Config, Daemon, Stats};

use super::DaemonEvent;
use super::tunnel_process::Process;
use crate::clock::now_ns;
use crate::error::LabError;
use crate::plan::Interface;
use crate::topology::Topology;

/// Before traffic: the handshake, and the search for the path's MTU.
const LEAD_NS: u64 = 3_000_000_000;
const LOOK: Duration = Duration::from_millis(5);
const PORT: u16 = 51_830;
const MARK: u32 = 0x6177;
const DIRECTIONS: [&str; 2] = ["forward", "reverse"];

/// A tunnel at work; ended on drop.
#[derive(Debug)]
pub(super) struct Tunnel {
    /// `link.direction`, as the record has it.
    name: String,
    link: String,
    /// Where ACKs go in, and where they come out.
    ends: [End; 2],
    mux: MuxRecord,
}

/// What a tunnel carried.
#[derive(Debug)]
pub(super) struct Tunnelled {
    name: String,
    mux: MuxRecord,
}

/// An end of a tunnel, at work or not.
#[derive(Debug)]
struct End {
    node: usize,
    config: Config,
    keys: KeyPair,
    daemon: Option<Running>,
}

/// Where a daemon is.
#[derive(Debug)]
enum Running {
    InProcess(Daemon),
    Process(Process),
}

/// A direction of a link that has a tunnel.
struct Place<'a> {
    link: usize,
    direction: usize,
    mux: &'a Mux,
}

fn places(scenario: &Scenario) -> impl Iterator<Item = Place<'_>> {
    let links = scenario.links.iter().enumerate();
    links
        .flat_map(|(link, it)| [(link, 0, &it.forward), (link, 1, &it.reverse)])
        .filter_map(|(link, direction, it)| {
            let mux = it.mux.as_ref()?;
            Some(Place {
                link,
                direction,
                mux,
            })
        })
        .filter(|place| place.mux.by_tunnel)
}

/// How much earlier than the traffic tunnels begin.
pub(super) fn lead_ns(scenario: &Scenario) -> u64 {
    places(scenario).next().map_or(0, |_| LEAD_NS)
}

/// Starts the tunnels of a scenario and waits until each side hears the other.
///
/// # Errors
/// One could not be started, or is not up at that time; those before it are gone again.
pub(super) fn start(
    scenario: &Scenario,
    topology: &Topology,
    until_ns: u64,
) -> Result<Vec<Tunnel>, LabError> {
    let mut tunnels = Vec::new();
    for place in places(scenario) {
        let direction = place.direction;
        let name = &scenario.links[place.link].name;
        let ends = [direction, 1 - direction].map(|end| topology.plan.interface(place.link, end));
        let mut tunnel = Tunnel {
            name: format!("{name}.{}", DIRECTIONS[direction]),
            link: name.clone(),
            ends: tunnel(name, ends, place.mux)?,
            mux: MuxRecord::default(),
        };
        for end in tunnel.ends.iter_mut().rev() {
            end.start(topology)
                .map_err(|error| failed(&tunnel.name, &error))?;
        }
        tunnels.push(tunnel);
    }
    while let Some(tunnel) = tunnels.iter().find(|tunnel| !tunnel.is_up()) {
        if now_ns() >= until_ns {
            let why = "the ends do not hear each other";
            return Err(LabError::Run(format!(
                "the tunnel over {}: {why}",
                tunnel.name
            )));
        }
        thread::sleep(LOOK);
    }
    Ok(tunnels)
}

/// Both ends before they are started: what goes in is taken where it would leave, what
/// comes out is routed on.
fn tunnel(name: &str, interfaces: [&Interface; 2], mux: &Mux) -> Result<[End; 2], LabError> {
    let bridged = || LabError::Scenario(format!("the tunnel over {name} ends at a bridge"));
    let addresses = interfaces.map(|interface| interface.v4);
    let [Some(near), Some(far)] = addresses else {
        return Err(bridged());
    };
    let keys = || KeyPair::generate().map_err(|error| failed(name, &error));
    let keys = [keys()?, keys()?];
    let end = |at: usize, listen: Ipv4Addr, leads_to: Option<Ipv4Addr>| End {
        node: interfaces[at].node,
        config: Config {
            // Another name for each process and end: so its control socket is called.
            device: format!(
                "aw{:x}e{}",
                std::process::id(),
                2 * interfaces[at].link + interfaces[at].end
            ),
            listen: vec![(listen, PORT).into()],
            private_key: None,
            interface: leads_to.map(|_| interfaces[at].name.clone()),
            period: mux.period,
            // The scenario's period is the one that is meant.
            follow_rtt: false,
            encoding: Encoding::Entropy,
            other_packets: OtherPackets::Bypass,
            respace: mux.respace,
            max_datagram: 1452,
            flows: 1024,
            memory: Config::least_memory(1024, 1),
            user: None,
            metrics: None,
            fwmark: MARK,
            peers: vec![Peer {
                name: "other".to_owned(),
                public_key: Some(keys[1 - at].public),
                endpoint: leads_to.map(|address| format!("{address}:{PORT}")),
                allowed_ips: vec![Prefix {
                    address: Ipv4Addr::UNSPECIFIED.into(),
                    len: 0,
                }],
            }],
        },
        keys: keys[at].clone(),
        daemon: None,
    };
    Ok([end(0, near, Some(far)), end(1, far, None)])
}

impl End {
    fn start(&mut self, topology: &Topology) -> Result<(), LabError> {
        let mut file =
            tempfile::NamedTempFile::new().map_err(LabError::os("cannot write a tunnel's key"))?;
        file.write_all(key_to_base64(&self.keys.secret).as_bytes())
            .map_err(LabError::os("cannot write a tunnel's key"))?;
        let mut config = self.config.clone();
        config.private_key = Some(file.path().to_owned());
        let started = topology.namespaces[self.node].inside(|| {
            Daemon::start(config, AttachMode::Auto)
                .map_err(|error| LabError::Run(error.to_string()))
        });
        self.daemon = Some(Running::InProcess(started?));
        Ok(())
    }

    fn start_process(&mut self, topology: &Topology) -> Result<(), LabError> {
        let namespace = &topology.namespaces[self.node];
        let process = Process::start(&self.config, &self.keys, namespace)?;
        self.daemon = Some(Running::Process(process));
        Ok(())
    }

    /// Ends it, if it is at work; what it did.
    fn stop(&mut self, topology: &Topology) -> Result<Option<Stats>, String> {
        match self.daemon.take() {
            None => Ok(None),
            Some(Running::InProcess(daemon)) => {
                daemon.stop().map(Some).map_err(|error| error.to_string())
            }
            Some(Running::Process(process)) => {
                process.stop(&topology.namespaces[self.node]).map(Some)
            }
        }
    }

    /// Kills it; what it did.
    fn kill(&mut self, topology: &Topology) -> Result<Option<Stats>, String> {
        match self.daemon.take() {
            Some(Running::Process(process)) => {
                process.kill(&topology.namespaces[self.node]).map(Some)
            }
            _ => Err("there is no process to kill".to_owned()),
        }
    }

    /// Whether it hears the other; of a process that is not asked.
    fn is_up(&self) -> bool {
        match &self.daemon {
            Some(Running::InProcess(daemon)) => daemon.stats().peers.iter().all(|peer| peer.up),
            Some(Running::Process(_)) | None => false,
        }
    }
}

fn failed(name: &str, error: &dyn std::error::Error) -> LabError {
    LabError::Run(format!("the tunnel over {name}: {error}"))
}

impl Tunnel {
    fn is_up(&self) -> bool {
        self.ends.iter().all(End::is_up)
    }

    /// Does that to the daemon at a node of the link, if it is this one's.
    ///
    /// # Errors
    /// It does not start, is not there, or something went wrong that must not.
    pub fn apply(
        &mut self,
        link: &str,
        node: usize,
        event: DaemonEvent,
        topology: &Topology,
    ) -> Result<bool, LabError> {
        let at = self.ends.iter().position(|end| end.node == node);
        let Some(at) = at.filter(|_| self.link == link) else {
            return Ok(false);
        };
        let end = &mut self.ends[at];
        let ended = match event {
            DaemonEvent::Starts => return end.start(topology).map(|()| true),
            DaemonEvent::StartsAsProcess => return end.start_process(topology).map(|()| true),
            DaemonEvent::Ends => end.stop(topology),
            DaemonEvent::Killed => end.kill(topology),
        };
        self.count(ended).map_err(LabError::Run)?;
        Ok(true)
    }

    /// Adds what an end did.
    fn count(&mut self, ended: Result<Option<Stats>, String>) -> Result<(), String> {
        let failed = |why| format!("the tunnel over {}: {why}", self.name);
        let Some(stats) = ended.map_err(failed)? else {
            return Ok(());
        };
        let mux = &mut self.mux;
        // An end has one peer.
        for peer in stats.peers {
            let fails = &peer.failures;
            if fails.auth_failures + fails.undecodable + fails.not_allowed + fails.not_delivered > 0
            {
                return Err(failed(format!("{fails:?}")));
            }
            mux.bundles += peer.bundles_out.packets;
            mux.packets += peer.packets_in.packets;
            mux.native_bytes += peer.packets_in.bytes;
            mux.bundle_bytes += peer.bundles_out.bytes;
        }
        *mux.together.get_or_insert_default() += stats.restored.batched;
        Ok(())
    }

    /// Ends it; what it did.
    ///
    /// # Errors
    /// An end had ended before, or something went wrong that must not.
    pub fn finish(mut self, topology: &Topology) -> Result<Tunnelled, String> {
        for at in 0..self.ends.len() {
            let ended = self.ends[at].stop(topology);
            self.count(ended)?;
        }
        Ok(Tunnelled {
            name: self.name,
            mux: self.mux,
        })
    }
}

impl Tunnelled {
    /// Beside what the record has of the direction's queue.
    pub fn put_into(&self, queues: &mut Vec<QueueRecord>) {
        let mux = Some(self.mux.clone());
        match queues.iter_mut().find(|queue| queue.name == self.name) {
            Some(queue) => queue.mux = mux,
            None => queues.push(QueueRecord {
                name: self.name.clone(),
                mux,
                ..QueueRecord::default()
            }),
        }
    }
}
