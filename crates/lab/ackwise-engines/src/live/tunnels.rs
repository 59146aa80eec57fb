//! ACK tunnels over links, for scenarios whose multiplexer is a tunnel: a daemon at each end.

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

/// Time before the traffic for the handshake and the search for the path MTU.
const LEAD_NS: u64 = 3_000_000_000;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const PORT: u16 = 51_830;
const MARK: u32 = 0x6177;
const DIRECTIONS: [&str; 2] = ["forward", "reverse"];

/// A running tunnel, which ends on drop.
#[derive(Debug)]
pub(super) struct Tunnel {
    /// `link.direction`, as in the record.
    name: String,
    link: String,
    /// The ends: where ACKs enter, and where they leave.
    ends: [End; 2],
    mux: MuxRecord,
}

/// The results of a tunnel.
#[derive(Debug)]
pub(super) struct Tunnelled {
    name: String,
    mux: MuxRecord,
}

/// An end of a tunnel, running or not.
#[derive(Debug)]
struct End {
    node: usize,
    config: Config,
    keys: KeyPair,
    daemon: Option<Running>,
}

/// Where a daemon runs.
#[derive(Debug)]
enum Running {
    InProcess(Daemon),
    Process(Process),
}

/// A direction of a link with a tunnel.
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

/// How long before the traffic the tunnels start.
pub(super) fn lead_ns(scenario: &Scenario) -> u64 {
    places(scenario).next().map_or(0, |_| LEAD_NS)
}

/// Starts the tunnels of a scenario and waits until their peers are up.
///
/// # Errors
/// One could not be started or is not up in time; those started before it are stopped.
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
            let why = "the two ends do not reach each other";
            return Err(LabError::Run(format!(
                "the tunnel over {}: {why}",
                tunnel.name
            )));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(tunnels)
}

/// The two ends, not yet started. ACKs are captured where they would leave; what leaves the tunnel
/// is routed on.
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
            // A unique name for each process and end; the control socket has the same name.
            device: format!(
                "aw{:x}e{}",
                std::process::id(),
                2 * interfaces[at].link + interfaces[at].end
            ),
            listen: vec![(listen, PORT).into()],
            private_key: None,
            interface: leads_to.map(|_| interfaces[at].name.clone()),
            period: mux.period,
            // The scenario's period is used as it is.
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

    /// Ends the daemon if it runs, and returns its statistics.
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

    /// Kills the daemon and returns its statistics.
    fn kill(&mut self, topology: &Topology) -> Result<Option<Stats>, String> {
        match self.daemon.take() {
            Some(Running::Process(process)) => {
                process.kill(&topology.namespaces[self.node]).map(Some)
            }
            _ => Err("there is no process to kill".to_owned()),
        }
    }

    /// Whether its peers are up. A daemon in a separate process is not asked and counts as down.
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

    /// Applies an event to the daemon at a node of the link. Returns `false` if the link or node is
    /// not this tunnel's.
    ///
    /// # Errors
    /// The daemon does not start, does not exist, or reported a failure.
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

    /// Adds the statistics of an end.
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

    /// Ends the tunnel and returns its results.
    ///
    /// # Errors
    /// An end had ended before, or reported a failure.
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
    /// Adds the results to the record of the direction's queue.
    pub fn add_to(&self, queues: &mut Vec<QueueRecord>) {
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
