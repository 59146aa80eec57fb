//! Hooks the programs in.

use std::os::fd::AsFd;

use ackwise_netdev::lacks_tcx;
use aya::maps::{Array, Map, MapData, RingBuf};
use aya::programs::links::LinkOrder;
use aya::programs::tc::{NlOptions, SchedClassifierLinkId, TcAttachOptions};
use aya::programs::{TcAttachType, tc};

use crate::emit::{Emitter, Injection};
use crate::programs::{ACKS, BACK, DATA, Programs, map, program};
use crate::{Attach, Error, Options, Position, net, sys};

/// Programs that are hooked in.
pub(crate) struct Hooks {
    pub programs: Programs,
    pub links: Vec<(&'static str, SchedClassifierLinkId)>,
    pub emitter: Emitter,
    pub clsact: bool,
    /// The clsact qdisc was not there before.
    pub made_clsact: bool,
}

/// Remove filters that a killed holder left. True if there were any.
pub(crate) fn sweep(ifname: &str, ifindex: u32, made_clsact: bool) -> bool {
    let mut any = false;
    for direction in [TcAttachType::Ingress, TcAttachType::Egress] {
        for name in [ACKS, DATA] {
            any |= tc::qdisc_detach_program(ifname, direction, name).is_ok();
        }
    }
    if any && made_clsact {
        let _ = net::remove_clsact_if_empty(ifindex);
    }
    any
}

/// Load and hook in; with `Attach::Auto` by clsact if tcx will not do.
pub(crate) fn hook(
    options: &Options,
    ifindex: u32,
    link: u32,
) -> Result<(Hooks, Option<String>), Error> {
    match options.attach {
        Attach::Clsact => Ok((hook_by(options, ifindex, link, true)?, None)),
        Attach::Tcx => hook_by(options, ifindex, link, false)
            .map(|h| (h, None))
            .map_err(|e| if no_tcx(&e) { Error::NoTcx } else { e }),
        Attach::Auto => match hook_by(options, ifindex, link, false) {
            Ok(h) => Ok((h, None)),
            Err(e) if no_tcx(&e) => {
                Ok((hook_by(options, ifindex, link, true)?, Some(e.to_string())))
            }
            Err(e) => Err(e),
        },
    }
}

fn no_tcx(e: &Error) -> bool {
    matches!(e, Error::Attach { cause, .. } if lacks_tcx(cause))
}

fn hook_by(options: &Options, ifindex: u32, link: u32, clsact: bool) -> Result<Hooks, Error> {
    let mut programs = Programs::load(options, ifindex, link, clsact)?;
    let injection = match options.position {
        Position::Receiver | Position::Router => Injection::Packet(
            net::packet_socket().map_err(Error::system("opening a packet socket"))?,
        ),
        Position::Sender => {
            let (file, name) = net::tap().map_err(Error::system(
                "creating a TAP device (a sender's ACKs come back in by it)",
            ))?;
            if clsact {
                let index = net::ifindex(&name).ok_or_else(|| Error::NoInterface(name.clone()))?;
                net::add_clsact(index).map_err(Error::system("adding clsact to the TAP"))?;
            }
            // Its link and its qdisc go with the device, and the device with its file.
            attach_one(&mut programs, BACK, &name, TcAttachType::Ingress, clsact)?;
            Injection::Tap(file)
        }
    };
    let ring = programs
        .bpf
        .take_map("emissions")
        .ok_or_else(|| Error::Object("map emissions".into()))?;
    let control = control_map(&mut programs)?;
    let emitter = Emitter {
        injection,
        ifindex,
        ring: RingBuf::try_from(ring)?,
        control,
        sent: vec![0; options.slots as usize],
    };
    let made_clsact =
        clsact && net::add_clsact(ifindex).map_err(Error::system("adding the clsact qdisc"))?;
    let (acks, data) = match options.position {
        Position::Sender => (TcAttachType::Ingress, TcAttachType::Egress),
        _ => (TcAttachType::Egress, TcAttachType::Ingress),
    };
    let mut links = Vec::new();
    for (name, direction) in [(DATA, data), (ACKS, acks)] {
        match attach_one(&mut programs, name, &options.ifname, direction, clsact) {
            Ok(id) => links.push((name, id)),
            Err(e) => {
                drop(programs); // and with them the link that was made
                if made_clsact {
                    let _ = net::remove_clsact_if_empty(ifindex);
                }
                return Err(e);
            }
        }
    }
    Ok(Hooks {
        programs,
        links,
        emitter,
        clsact,
        made_clsact,
    })
}

/// A second handle on the control map, for the thread that keeps it fresh.
fn control_map(programs: &mut Programs) -> Result<Array<MapData, sys::aw_control>, Error> {
    let Map::Array(data) = map(&mut programs.bpf, "control")? else {
        return Err(Error::Object("map control".into()));
    };
    let fd = data
        .fd()
        .as_fd()
        .try_clone_to_owned()
        .map_err(Error::system("duplicating a map's descriptor"))?;
    Ok(Array::try_from(Map::from_map_data(MapData::from_fd(fd)?)?)?)
}

fn attach_one(
    programs: &mut Programs,
    name: &'static str,
    ifname: &str,
    direction: TcAttachType,
    clsact: bool,
) -> Result<SchedClassifierLinkId, Error> {
    let how = if clsact {
        TcAttachOptions::Netlink(NlOptions::default())
    } else {
        TcAttachOptions::TcxOrder(LinkOrder::default())
    };
    program(&mut programs.bpf, name)?
        .attach_with_options(ifname, direction, how)
        .map_err(|cause| Error::Attach {
            ifname: ifname.to_owned(),
            cause: Box::new(cause),
        })
}
