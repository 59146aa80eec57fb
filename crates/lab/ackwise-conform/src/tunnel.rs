//! ackwise's tunnel as a device: a router at each end of a thin link, and a daemon on each.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use ackwise_engines::LabError;
use ackwise_engines::netns::{Namespace, set_sysctls};
use ackwise_tunnel::{KeyPair, key_to_base64};
use ackwise_tunneld::{AttachMode, Config, Daemon};

use crate::device::Error;
use crate::links::{NETWORKS, ip, shape};

/// The link between the routers; the near one is the receiver's.
pub(crate) const NEAR: &str = "t0";
pub(crate) const FAR: &str = "t1";
const MACS: [&str; 2] = ["02:00:00:00:03:01", "02:00:00:00:03:02"];
/// Maximum time for the handshake and the search for the path MTU.
const SETUP_TIMEOUT: Duration = Duration::from_secs(20);

/// The daemons; both end on drop.
#[derive(Debug)]
pub(crate) struct Tunnel {
    far: Daemon,
    near: Daemon,
}

impl Tunnel {
    /// Number of packets that have left it.
    pub fn carried(&self) -> u64 {
        let peers = self.far.stats().peers;
        peers.iter().map(|peer| peer.packets_out.packets).sum()
    }
}

/// Joins the routers by a link that has the suite's shaper in the direction from the near one, and
/// starts a tunnel with the default configuration for the ACKs in that direction.
///
/// # Errors
/// An operation failed, or the ends do not hear each other.
pub(crate) fn start(near: &Namespace, far: &Namespace) -> Result<Tunnel, Error> {
    link(near, far)?;
    let failed = |error: &dyn std::fmt::Display| LabError::Run(format!("the tunnel: {error}"));
    let keys = || KeyPair::generate().map_err(|error| failed(&error));
    let [near_keys, far_keys] = [keys()?, keys()?];
    let near_text = format!(
        "device = \"awnear\"\nlisten = \"10.98.0.1:51830\"\ninterface = \"{NEAR}\"\n[[peer]]\n\
         name = \"far\"\npublic_key = \"{}\"\nendpoint = \"10.98.0.2:51830\"\n\
         allowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n",
        key_to_base64(&far_keys.public)
    );
    let far_text = format!(
        "device = \"awfar\"\nlisten = \"10.98.0.2:51830\"\n[[peer]]\n\
         name = \"near\"\npublic_key = \"{}\"\nallowed_ips = [\"{}\", \"{}\"]\n",
        key_to_base64(&near_keys.public),
        NETWORKS[0][0],
        NETWORKS[0][1],
    );
    let daemon = |at: &Namespace, text: &str, keys: &KeyPair| {
        let mut key =
            tempfile::NamedTempFile::new().map_err(LabError::os("cannot write a tunnel's key"))?;
        key.write_all(key_to_base64(&keys.secret).as_bytes())
            .map_err(LabError::os("cannot write a tunnel's key"))?;
        let text = format!("private_key = \"{}\"\n{text}", key.path().display());
        let config = Config::parse("conform", &text).map_err(|error| failed(&error))?;
        let started =
            at.inside(|| Daemon::start(config, AttachMode::Auto).map_err(|error| failed(&error)))?;
        Ok::<_, Error>(started)
    };
    let tunnel = Tunnel {
        far: daemon(far, &far_text, &far_keys)?,
        near: daemon(near, &near_text, &near_keys)?,
    };
    let until = Instant::now() + SETUP_TIMEOUT;
    let is_up = |daemon: &Daemon| daemon.stats().peers.iter().all(|peer| peer.up);
    while ![&tunnel.far, &tunnel.near].into_iter().all(is_up) {
        if Instant::now() >= until {
            return Err(failed(&"the two ends do not reach each other").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(tunnel)
}

/// Creates the link between the routers, and the routes to the hosts beyond it.
pub(crate) fn link(near: &Namespace, far: &Namespace) -> Result<(), Error> {
    near.inside(|| {
        set_sysctls([("net.ipv6.conf.default.accept_dad", "0")])?;
        ip(&format!(
            "link add {NEAR} address {} type veth peer name {FAR} address {} netns {}",
            MACS[0],
            MACS[1],
            far.name()
        ))
    })?;
    for (at, device, own, other, mac, beyond) in [
        (near, NEAR, 1, 2, MACS[1], NETWORKS[1]),
        (far, FAR, 2, 1, MACS[0], NETWORKS[0]),
    ] {
        at.inside(|| {
            ip(&format!("addr add 10.98.0.{own}/24 dev {device}"))?;
            ip(&format!("addr add fd98:98::{own}/64 dev {device} nodad"))?;
            ip(&format!("link set {device} up"))?;
            // Static neighbours: address resolution takes time that is not the tunnel's.
            for address in [format!("10.98.0.{other}"), format!("fd98:98::{other}")] {
                ip(&format!(
                    "neigh replace {address} lladdr {mac} dev {device} nud permanent"
                ))?;
            }
            ip(&format!("route add {} via 10.98.0.{other}", beyond[0]))?;
            ip(&format!("route add {} via fd98:98::{other}", beyond[1]))
        })?;
    }
    near.inside(|| shape(NEAR, "pfifo limit 1000"))?;
    Ok(())
}
