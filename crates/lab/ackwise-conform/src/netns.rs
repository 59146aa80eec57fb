//! A router in a network namespace, with the device in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ackwise_datapath::{Datapath, Options, Position};
use ackwise_engines::netns::{Entrance, Namespace, Naming, set_sysctls};
use ackwise_engines::{LabError, command};
use ackwise_gateway::{AttachMode, Config, Gateway};
use ackwise_policy::{Capabilities, Policy};
use serde::{Deserialize, Serialize};

use crate::device::{Arrival, Device, Error};
use crate::joining::GroDisabled;
use crate::links::{ip, shape};
use crate::packet::HOSTS_V4;
use crate::schedule::{Schedule, Shaper};
use crate::simplemux::Simplemux;
use crate::tunnel::{self, Tunnel};
use crate::wire::{self, Wire};

/// The device in the router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Setup {
    /// A queue discipline in the syntax of `tc qdisc`, behind the suite's shaper.
    Qdisc(String),
    /// A shell script: `$IN` is the interface at the receiver, `$OUT` the one at the sender, which
    /// has the suite's shaper behind it.
    Script(String),
    /// The datapath with a policy, e.g. `adaptive` or `every-n:n=32,warm=0`.
    Datapath(String),
    /// The gateway with an ACK filter, instead of the shaper.
    Gateway(String),
    /// The tunnel between two routers, over the suite's shaper.
    Tunnel,
    /// Simplemux, the program at this path, instead of the tunnel.
    Simplemux(PathBuf),
}

/// A device on this machine's kernel or in a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name in reports.
    pub name: String,
    /// The device.
    pub setup: Setup,
}

/// The interfaces of the receiver, the router (two) and the sender.
const RECEIVER: &str = "r0";
const IN: &str = "m0";
const OUT: &str = "m1";
const SENDER: &str = "s0";
const MACS: [[u8; 6]; 4] = [
    [2, 0, 0, 0, 1, 1],
    [2, 0, 0, 0, 1, 2],
    [2, 0, 0, 0, 2, 1],
    [2, 0, 0, 0, 2, 2],
];
/// The last byte of the second receiver's address; one case has two receivers.
const SECOND: u8 = 2;

/// A [`Spec`] as a device of this kernel; the caller must be root.
#[derive(Debug)]
pub struct Router<'a> {
    spec: &'a Spec,
    shaper: Shaper,
    on_progress: fn(usize),
}

impl<'a> Router<'a> {
    /// The device. In virtual time, where every delay is exact, lateness is judged by the suite's
    /// shaper.
    #[must_use]
    pub fn new(spec: &'a Spec, time_is_virtual: bool) -> Self {
        let shaper = if time_is_virtual {
            Shaper::SUITE
        } else {
            Shaper::REAL_TIME
        };
        Self {
            spec,
            shaper,
            on_progress: |_| {},
        }
    }

    /// Sets a function that is called now and then with the number of packets sent.
    #[must_use]
    pub fn with_progress(mut self, on_progress: fn(usize)) -> Self {
        self.on_progress = on_progress;
        self
    }
}

impl Device for Router<'_> {
    fn name(&self) -> String {
        self.spec.name.clone()
    }

    fn shaper(&self) -> Shaper {
        self.shaper
    }

    fn run(&mut self, schedule: &Schedule) -> Result<Vec<Arrival>, Error> {
        let names = Naming::fresh();
        let [receiver, middle, sender] = [
            Namespace::create(&names.of("receiver"))?,
            Namespace::create(&names.of("router"))?,
            Namespace::create(&names.of("sender"))?,
        ];
        let second = match self.spec.setup {
            Setup::Tunnel | Setup::Simplemux(_) => Some(Namespace::create(&names.of("far"))?),
            _ => None,
        };
        let far = second.as_ref().unwrap_or(&middle);
        join(&middle, IN, &receiver, RECEIVER)?;
        join(far, OUT, &sender, SENDER)?;
        configure(&middle, IN, 0)?;
        configure(far, OUT, 1)?;
        for router in [Some(&middle), second.as_ref()].into_iter().flatten() {
            router.inside(|| {
                set_sysctls([
                    ("net.ipv4.ip_forward", "1"),
                    ("net.ipv6.conf.all.forwarding", "1"),
                ])
            })?;
        }
        let at_receiver = open(&receiver, RECEIVER, MACS[0], MACS[1])?;
        let at_sender = open(&sender, SENDER, MACS[3], MACS[2])?;
        let inserted = self.insert(&middle, far)?;
        let arrivals = wire::run(&at_receiver, &at_sender, schedule, self.on_progress)?;
        let carried = match &inserted {
            Inserted::Tunnel(tunnel) => tunnel.carried(),
            Inserted::Simplemux { .. } => Simplemux::carried(far)?,
            _ => return Ok(arrivals),
        };
        if carried == 0 {
            let why = "the tunnel carried no packet: what arrived bypassed it";
            return Err(LabError::Run(why.to_owned()).into());
        }
        Ok(arrivals)
    }
}

/// Parts of the device that end with the run.
#[derive(Debug)]
enum Inserted {
    Kernel,
    Datapath { _thread: Attached },
    Gateway { _gateway: Gateway },
    Tunnel(Tunnel),
    Simplemux { _ends: Simplemux },
}

impl Router<'_> {
    /// Inserts the device into the router; a tunnel is between this router and the far one.
    fn insert(&self, middle: &Namespace, far: &Namespace) -> Result<Inserted, Error> {
        match &self.spec.setup {
            Setup::Qdisc(qdisc) => {
                middle.inside(|| shape(OUT, qdisc))?;
                Ok(Inserted::Kernel)
            }
            Setup::Script(script) => {
                middle.inside(|| {
                    shape(OUT, "pfifo limit 1000")?;
                    let script = format!("IN={IN} OUT={OUT}\nset -eu\n{script}");
                    command::run("sh", &["-c", &script]).map(drop)
                })?;
                Ok(Inserted::Kernel)
            }
            Setup::Datapath(policy) => {
                let options = datapath(policy)?;
                middle.inside(|| shape(OUT, "pfifo limit 1000"))?;
                let thread = Attached::start(middle.entrance()?, options)?;
                Ok(Inserted::Datapath { _thread: thread })
            }
            Setup::Gateway(filter) => {
                let rate = Shaper::SUITE.rate_bps.unwrap_or(0);
                let text = format!(
                    "interface = \"{OUT}\"\nrate = \"{rate} bit/s\"\n\
                     queue = {{ limit = \"1000 packets\", ack_filter = \"{filter}\" }}"
                );
                let failed = |error: &dyn std::fmt::Display| LabError::Run(error.to_string());
                let gateway = middle.inside(|| {
                    let config = Config::parse("conform", &text).map_err(|it| failed(&it))?;
                    Gateway::start(config, AttachMode::Auto).map_err(|it| failed(&it))
                })?;
                // The gateway reports a little later that it is running.
                thread::sleep(Duration::from_millis(100));
                Ok(Inserted::Gateway { _gateway: gateway })
            }
            Setup::Tunnel => Ok(Inserted::Tunnel(tunnel::start(middle, far)?)),
            Setup::Simplemux(program) => {
                let started = Simplemux::start(program, middle, far)?;
                Ok(Inserted::Simplemux { _ends: started })
            }
        }
    }
}

/// Joins two namespaces by a veth pair, without the traffic of an IPv6 stack.
fn join(middle: &Namespace, near: &str, other: &Namespace, far: &str) -> Result<(), Error> {
    let at = if near == IN { 0 } else { 1 };
    let [near_mac, far_mac] = if at == 0 {
        [MACS[1], MACS[0]]
    } else {
        [MACS[2], MACS[3]]
    }
    .map(mac);
    middle.inside(|| {
        set_sysctls([("net.ipv6.conf.default.accept_dad", "0")])?;
        ip(&format!(
            "link add {near} address {near_mac} type veth peer name {far} address {far_mac} \
             netns {}",
            other.name()
        ))?;
        ip(&format!("link set {near} up"))
    })?;
    other.inside(|| {
        set_sysctls([(format!("net.ipv6.conf.{far}.disable_ipv6").as_str(), "1")])?;
        ip(&format!("link set {far} up"))
    })?;
    Ok(())
}

/// Sets addresses of the router, and static neighbours, because the endpoints do not answer.
fn configure(middle: &Namespace, interface: &str, side: usize) -> Result<(), Error> {
    let far = mac(if side == 0 { MACS[0] } else { MACS[3] });
    let [a, b, c, _] = HOSTS_V4[side];
    let network = side + 1;
    middle.inside(|| {
        ip(&format!("addr add {a}.{b}.{c}.254/24 dev {interface}"))?;
        ip(&format!(
            "addr add fd98:{network}::fe/64 dev {interface} nodad"
        ))?;
        for host in 1..=SECOND {
            for address in [
                format!("{a}.{b}.{c}.{host}"),
                format!("fd98:{network}::{host}"),
            ] {
                ip(&format!(
                    "neigh replace {address} lladdr {far} dev {interface} nud permanent"
                ))?;
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn mac(bytes: [u8; 6]) -> String {
    let [a, b, c, d, e, f] = bytes;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

fn open(at: &Namespace, interface: &str, from: [u8; 6], to: [u8; 6]) -> Result<Wire, Error> {
    let entrance = at.entrance()?;
    thread::scope(|scope| {
        let opened = scope.spawn(|| {
            entrance.enter()?;
            Wire::open(interface, from, to)
        });
        opened
            .join()
            .map_err(|_| LabError::Panicked("a thread in a namespace"))?
    })
}

/// Parses the options of a router's datapath: `every-n:n=8,warm=0`.
fn datapath(text: &str) -> Result<Options, Error> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let bad = |error: ackwise_policy::ConfigError| Error::BadPolicy(error.to_string());
    let policy = Policy::by_name(name).map_err(bad)?;
    policy
        .check(Capabilities::DATAPATH)
        .map_err(|error| Error::Missing(error.to_string()))?;
    let mut config = ackwise_policy::Config::new(policy);
    for setting in settings.split(',').filter(|it| !it.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        config.set(key, value).map_err(bad)?;
    }
    let mut options = Options::new(OUT, config);
    options.position = Position::Router;
    Ok(options)
}

/// A datapath on a thread in its namespace; detached on drop.
#[derive(Debug)]
struct Attached {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Attached {
    fn start(entrance: Entrance, options: Options) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (ready, attached) = mpsc::sync_channel::<Result<(), Error>>(1);
        let thread = thread::Builder::new()
            .name("datapath".to_owned())
            .spawn(move || {
                let attach = || Ok((entrance.enter()?, Datapath::attach(options)?));
                match attach() {
                    Ok(((), datapath)) => {
                        let _ = ready.send(Ok(()));
                        while !stopped.load(Ordering::Relaxed) {
                            thread::park_timeout(Duration::from_millis(100));
                        }
                        drop(datapath);
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            })
            .map_err(LabError::os("cannot start a thread for the datapath"))?;
        let started = Self {
            stop,
            thread: Some(thread),
        };
        attached
            .recv()
            .map_err(|_| LabError::Panicked("the datapath's thread"))??;
        Ok(started)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic has been printed already, and this must not add another.
            let _ = thread.join();
        }
    }
}

/// A box between two interfaces of this machine, which it joins like a bridge.
#[derive(Debug)]
pub struct Between {
    /// The receiver's interface, and the sender's.
    pub interfaces: [String; 2],
}

impl Device for Between {
    fn name(&self) -> String {
        let [receiver, sender] = &self.interfaces;
        format!("between {receiver} and {sender}")
    }

    fn shaper(&self) -> Shaper {
        Shaper::REAL_TIME
    }

    fn run(&mut self, schedule: &Schedule) -> Result<Vec<Arrival>, Error> {
        let [receiver, sender] = &self.interfaces;
        let open = |interface: &str, from, to| {
            let wire = Wire::open(interface, from, to)?;
            Ok::<_, Error>((GroDisabled::new(interface)?, wire))
        };
        let (_apart, receiver) = open(receiver, MACS[0], MACS[3])?;
        let (_also, sender) = open(sender, MACS[3], MACS[0])?;
        wire::run(&receiver, &sender, schedule, |_| {})
    }
}
