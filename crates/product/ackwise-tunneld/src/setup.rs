//! Creates everything for which a tunnel needs privileges.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ackwise_config::tunnel::Tunnel as Config;
use ackwise_netdev::daemon::Lifecycle;
use ackwise_netdev::registry;
use ackwise_netdev::{AttachMode, Interface, PacketSocket, TunDevice, clock};
use ackwise_tunnel::{HandshakeGuard, KeyPair, key_from_base64, key_to_base64};
use nix::unistd::{Uid, User};
use zeroize::Zeroizing;

use crate::bypass::Bypass;
use crate::handshake_budget::HandshakeBudget;
use crate::peer::Peer;
use crate::poller::{Poller, Source};
use crate::redirect::Redirect;
use crate::tun_injector::TunInjector;
use crate::udp::Sockets;
use crate::worker::Worker;
use crate::{Error, Stats};

/// The MTU of the tunnel's device: restored packets have their original length.
const MTU: u32 = 1500;

/// A tunnel that is set up.
pub(crate) struct Setup {
    pub worker: Worker,
    pub stats: Stats,
    /// Ends the worker.
    pub lifecycle: Lifecycle,
    /// The program at the interface, for the registry.
    pub redirect: Option<registry::Redirect>,
}

impl Setup {
    pub fn new(config: Config, attach: AttachMode) -> Result<Self, Error> {
        let keys = config.private_key.as_deref().map(read_key).transpose()?;
        let peers = 0..config.peers.len();
        let peers = peers.map(|index| Peer::new(index, &config, keys.as_ref()));
        let peers = peers.collect::<Result<Vec<_>, _>>()?;
        let guard = HandshakeGuard::new(keys.clone())
            .map_err(|error| Error::system("draw random numbers")(io::Error::other(error)))?;
        let interface = config
            .interface
            .as_deref()
            .map(Interface::find)
            .transpose()?;
        let sockets = Sockets::open(&config.listen, config.fwmark)?;
        let link = TunInjector::open(&config.device, MTU)?;
        let cookie = cookie();
        let egress = interface
            .clone()
            .map(|interface| PacketSocket::open(interface, cookie));
        let bypass = Bypass::open(egress.transpose()?, config.fwmark)?;
        let redirect = interface
            .map(|interface| Redirect::install(&config, interface, &link, cookie, attach))
            .transpose()?;
        let lifecycle = Lifecycle::new().map_err(Error::system("make an event descriptor"))?;
        let wake = lifecycle.wake_fd();
        let wake = wake.map_err(Error::system("duplicate a descriptor"))?;
        let registered = redirect.as_ref().map(|redirect| registry::Redirect {
            ifindex: redirect.interface.index,
            program: redirect.hook.program(),
        });
        let stats = Stats {
            device: config.device.clone(),
            interface: config.interface.clone(),
            attach: redirect.as_ref().map(|redirect| redirect.hook.attach()),
            listen: config.listen.clone(),
            public_key: keys.map(|keys| key_to_base64(&keys.public)),
            memory_of_peer: config.memory_of_peer(),
            ..Stats::default()
        };
        let poller = poller(wake, &link, redirect.as_ref(), &sockets);
        let worker = Worker {
            poller,
            announced_up: vec![false; peers.len()],
            config,
            peers,
            sockets,
            resolver: None,
            link,
            redirect,
            bypass,
            buffer: Worker::new_buffer(),
            last_route: None,
            guard,
            handshake_budget: HandshakeBudget::new(clock::monotonic_ns()),
            response_budget: HandshakeBudget::new(clock::monotonic_ns()),
            unknown_sources: 0,
            handshakes_limited: 0,
            cookies_sent: 0,
            publications: 0,
            overrun: 0,
        };
        Ok(Self {
            worker,
            stats,
            lifecycle,
            redirect: registered,
        })
    }
}

fn poller(
    wake: OwnedFd,
    link: &TunDevice,
    redirect: Option<&Redirect>,
    sockets: &Sockets,
) -> Poller {
    let link = std::iter::once((Source::Link, link.as_fd()));
    let redirect = redirect.into_iter().flat_map(|redirect| {
        [
            (Source::Redirected, redirect.device.as_fd()),
            (Source::Ring, redirect.acks.as_fd()),
        ]
    });
    let sockets = sockets.descriptors().enumerate();
    let sockets = sockets.map(|(n, socket)| (Source::Socket(n), socket));
    Poller::new(wake, link.chain(redirect).chain(sockets))
}

/// Chooses a mark for packets of the tunnel. It is not 0, which stands for no mark.
fn cookie() -> u32 {
    let seed = clock::monotonic_ns() ^ u64::from(std::process::id()) << 32;
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
}

/// Explains why a key file cannot be opened, and what to do.
fn unopened(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{error}; `ackwise tunnel keygen` makes a key"),
        io::ErrorKind::PermissionDenied => {
            let user = Uid::effective();
            let name = User::from_uid(user).ok().flatten();
            let name = name.map_or_else(|| user.to_string(), |user| user.name);
            format!(
                "{error}; this process is of the user {name}: `chown {name} {}`",
                path.display()
            )
        }
        _ => error.to_string(),
    }
}

fn read_key(path: &Path) -> Result<KeyPair, Error> {
    let wrong = |why: String| Error::Key {
        path: path.to_owned(),
        why,
    };
    let mut file = File::open(path).map_err(|error| wrong(unopened(path, &error)))?;
    let about = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if about.permissions().mode() & 0o077 != 0 {
        return Err(Error::KeyPermissions(path.to_owned()));
    }
    let mut text = Zeroizing::new(String::new());
    file.read_to_string(&mut text)
        .map_err(|error| wrong(error.to_string()))?;
    let secret = key_from_base64(&text).map_err(|error| wrong(error.to_string()))?;
    KeyPair::from_secret(secret).map_err(|error| wrong(error.to_string()))
}
