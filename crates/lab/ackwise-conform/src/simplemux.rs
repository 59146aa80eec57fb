//! Simplemux with ROHC as a device: a process at each end of a thin link between two routers.
//!
//! It carries IPv4; IPv6 uses the link directly. A process that ends is not restarted, and later
//! packets are lost.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_engines::LabError;
use ackwise_engines::netns::Namespace;

use crate::device::Error;
use crate::links::{NETWORKS, ip};
use crate::tunnel::{FAR, NEAR, link};

/// Its device in both routers.
const DEVICE: &str = "smux0";
/// Interval at which bundles leave, as by default in ackwise's tunnel; full bundles leave earlier.
const PERIOD: Duration = Duration::from_millis(10);
/// Maximum time for a process to open its sockets.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// The two processes; both end on drop.
#[derive(Debug, Default)]
pub(crate) struct Simplemux {
    ends: Vec<Child>,
}

impl Simplemux {
    /// Starts Simplemux between two routers, which it joins by a link over the suite's shaper.
    ///
    /// # Errors
    /// An operation failed, or a process ended.
    pub fn start(program: &Path, near: &Namespace, far: &Namespace) -> Result<Self, Error> {
        link(near, far)?;
        let mut started = Self::default();
        for (at, wire, peer) in [(near, NEAR, "10.98.0.2"), (far, FAR, "10.98.0.1")] {
            let end = at.inside(|| {
                ip(&format!("tuntap add dev {DEVICE} mode tun"))?;
                ip(&format!("link set {DEVICE} up txqueuelen 10000"))?;
                Command::new(program)
                    .args([
                        "-i", DEVICE, "-e", wire, "-c", peer, "-M", "udp", "-T", "tun",
                    ])
                    .args(["-n", "100", "-P", &PERIOD.as_micros().to_string()])
                    .args(["-r", "1", "-d", "0"])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .map_err(LabError::os("cannot start simplemux"))
            })?;
            started.ends.push(end);
        }
        let until = Instant::now() + START_TIMEOUT;
        for end in &mut started.ends {
            wait_for(end, until)?;
        }
        near.inside(|| ip(&format!("route replace {} dev {DEVICE}", NETWORKS[1][0])))?;
        Ok(started)
    }

    /// Number of packets that left it in the far router.
    ///
    /// # Errors
    /// Its device is gone.
    pub fn carried(far: &Namespace) -> Result<u64, Error> {
        let count = far.inside(|| {
            let table = fs::read_to_string("/proc/thread-self/net/dev")
                .map_err(LabError::os("cannot read the counters of interfaces"))?;
            let counters = table.lines().find_map(|line| {
                let (name, counters) = line.split_once(':')?;
                (name.trim() == DEVICE).then_some(counters)
            });
            let packets = counters.and_then(|it| it.split_whitespace().nth(1)?.parse().ok());
            packets.ok_or_else(|| LabError::Run(format!("{DEVICE} does not exist any more")))
        })?;
        Ok(count)
    }
}

impl Drop for Simplemux {
    fn drop(&mut self) {
        for end in &mut self.ends {
            // The process may have ended by itself.
            let _ = end.kill();
            let _ = end.wait();
        }
    }
}

/// Waits until a process has opened its socket, which comes after its TUN device.
fn wait_for(end: &mut Child, until: Instant) -> Result<(), Error> {
    let descriptors = format!("/proc/{}/fd", end.id());
    loop {
        if let Some(status) = end
            .try_wait()
            .map_err(LabError::os("cannot wait for simplemux"))?
        {
            return Err(LabError::Run(format!("simplemux has ended: {status}")).into());
        }
        let is_socket = |link: &Path| link.to_string_lossy().starts_with("socket:");
        let open = fs::read_dir(&descriptors).map_or(0, |entries| {
            let links = entries
                .flatten()
                .filter_map(|it| fs::read_link(it.path()).ok());
            links.filter(|link| is_socket(link)).count()
        });
        if open > 0 {
            // The process binds the socket right after opening it.
            thread::sleep(Duration::from_millis(100));
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(
                LabError::Run("simplemux did not open its socket in time".to_owned()).into(),
            );
        }
        thread::sleep(Duration::from_millis(5));
    }
}
