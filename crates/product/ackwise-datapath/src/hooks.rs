//! Loads the programs and attaches them.

use std::os::fd::AsFd;

use ackwise_netdev::packet_socket::{self, Layer};
use ackwise_netdev::registry::redirecting_programs;
use ackwise_netdev::{
    AttachMode, AttachOptions, Attachment, Direction, Interface, Order, Role, TunDevice, clsact,
    enlarge_send_buffer, remove_stale_filters,
};
use ackwise_policy::LinkKind;
use aya::maps::{Array, Map, MapData, PerCpuArray, RingBuf};

use crate::cpu::Cpus;
use crate::egress::Egress;
use crate::emit::{Emitter, Injection};
use crate::programs::{ACKS, BACK, DATA, Programs, map};
use crate::{Error, Options, Position, sys};

/// The MTU, in bytes, of the device through which a sender's ACKs come back.
const TAP_MTU: u32 = 1500;

/// The programs that are attached to the interface itself.
pub(crate) const PROGRAMS: [&str; 2] = [ACKS, DATA];

/// The attached programs.
pub(crate) struct Hooks {
    pub programs: Programs,
    /// The attachments of the ACK side and of the data side. The latter creates the clsact qdisc if
    /// there is none; it is dropped last, and then removes the qdisc.
    pub attachments: Vec<Attachment>,
    pub emitter: Emitter,
    /// Why clsact is used although tcx was tried first.
    pub fallback: Option<String>,
    /// The options with which the programs were loaded.
    pub raw: sys::aw_options,
}

impl Hooks {
    /// Returns whether the programs are filters of a clsact qdisc.
    pub fn is_clsact(&self) -> bool {
        let mut modes = self.attachments.iter().map(Attachment::mode);
        modes.any(|mode| mode == AttachMode::Clsact)
    }

    /// Returns whether the interface had no clsact qdisc before.
    pub fn made_clsact(&self) -> bool {
        self.attachments.iter().any(Attachment::made_clsact)
    }
}

/// Removes the filters that a killed holder left, and the clsact qdisc if the holder had created
/// it. Returns whether there were any filters.
pub(crate) fn sweep(ifname: &str, ifindex: u32, made_clsact: bool) -> bool {
    let any = remove_stale_filters(ifname, &PROGRAMS);
    if any && made_clsact {
        let _ = clsact::remove_if_unused(ifindex);
    }
    any
}

/// Loads and attaches the programs. [`AttachMode::Auto`] tries tcx first, and uses clsact if the
/// kernel has no tcx.
pub(crate) fn install(options: &Options, interface: &Interface) -> Result<Hooks, Error> {
    let mode = match options.attach {
        AttachMode::Auto => AttachMode::Tcx,
        chosen => chosen,
    };
    match install_by(options, interface, mode) {
        Err(Error::Netdev(ackwise_netdev::Error::NoTcx { why }))
            if options.attach == AttachMode::Auto =>
        {
            let mut hooks = install_by(options, interface, AttachMode::Clsact)?;
            hooks.fallback = Some(why);
            Ok(hooks)
        }
        done => done,
    }
}

/// `mode` must not be [`AttachMode::Auto`]: the programs are loaded for one of the two.
fn install_by(options: &Options, interface: &Interface, mode: AttachMode) -> Result<Hooks, Error> {
    let link = match interface.kind {
        LinkKind::Ethernet => sys::AW_LINK_ETHERNET,
        LinkKind::Ip => sys::AW_LINK_IP,
    };
    let clsact = mode == AttachMode::Clsact;
    // Attach first: an earlier program would see re-emitted ACKs twice, and ACKs that never leave.
    // Only the gateway and the tunnel come earlier: they send packets a second time, and ackwise
    // must see each packet once.
    let redirecting = redirecting_programs(interface.index)?;
    let mut programs = Programs::load(options, interface.index, link, clsact)?;
    let mut attach = |name: &str, interface: &str, direction| {
        let options = AttachOptions {
            interface,
            direction,
            mode,
            order: Order::FirstAfter(&redirecting),
        };
        Attachment::attach(&mut programs.bpf, name, &options)
    };
    let (injection, back) = match options.position {
        Position::Receiver | Position::Router => {
            let socket = packet_socket::open(Layer::to_send(interface.kind))
                .map_err(ackwise_netdev::Error::system("open a packet socket"))?;
            enlarge_send_buffer(&socket);
            (Injection::Packet(socket), None)
        }
        Position::Sender => {
            let device = TunDevice::open("ackwise%d", LinkKind::Ethernet, TAP_MTU, Role::Redirect)?;
            let back = attach(BACK, &device.name, Direction::Ingress)?;
            (Injection::Tap(device), Some(back))
        }
    };
    let (acks, data) = match options.position {
        Position::Sender => (Direction::Ingress, Direction::Egress),
        _ => (Direction::Egress, Direction::Ingress),
    };
    let data = attach(DATA, &interface.name, data)?;
    let acks = attach(ACKS, &interface.name, acks)?;
    let attachments = vec![acks, data];
    let emitter = emitter(options, interface.index, injection, back, &mut programs)?;
    Ok(Hooks {
        programs,
        attachments,
        emitter,
        fallback: None,
        raw: options.to_bpf(interface.index, link, clsact),
    })
}

fn emitter(
    options: &Options,
    ifindex: u32,
    injection: Injection,
    back: Option<Attachment>,
    programs: &mut Programs,
) -> Result<Emitter, Error> {
    let ring = programs
        .bpf
        .take_map("emissions")
        .ok_or_else(|| Error::Object("map emissions".into()))?;
    Ok(Emitter {
        injection,
        _back: back,
        ifindex,
        ring: RingBuf::try_from(ring)?,
        control: control_map(programs)?,
        control_values: sys::aw_control::default(),
        egress: options
            .samples_egress()
            .then(|| egress(programs, options))
            .transpose()?,
        cpus: options.policy.policy().reads_busy().then(Cpus::new),
        sent: vec![0; options.slots as usize],
    })
}

/// Returns a second handle on the control map, for the thread that writes the heartbeat.
fn control_map(programs: &mut Programs) -> Result<Array<MapData, sys::aw_control>, Error> {
    let Map::Array(data) = map(&mut programs.bpf, "control")? else {
        return Err(Error::Object("map control".into()));
    };
    Ok(Array::try_from(clone_map(data)?)?)
}

/// Returns a second handle on the counters, for the thread that samples what leaves.
fn egress(programs: &mut Programs, options: &Options) -> Result<Egress, Error> {
    let Map::PerCpuArray(data) = map(&mut programs.bpf, "counters")? else {
        return Err(Error::Object("map counters".into()));
    };
    let counters = PerCpuArray::try_from(clone_map(data)?)?;
    Ok(Egress::new(counters, options.tells_who_fills_the_link()))
}

fn clone_map(data: &MapData) -> Result<Map, Error> {
    let fd = data
        .fd()
        .as_fd()
        .try_clone_to_owned()
        .map_err(Error::system("duplicate a map's descriptor"))?;
    Ok(Map::from_map_data(MapData::from_fd(fd)?)?)
}
