//! What packet sockets receive. Needs root.

use std::os::fd::{AsRawFd, OwnedFd};

use ackwise_netdev::ifreq::index_of;
use ackwise_netdev::packet_socket::{self, Destination, Layer, Receives};
use ackwise_netdev::sockopt::{attach_filter, instruction, set_int};
use ackwise_testbed::Netns;
use nix::sys::socket::{MsgFlags, recv};

/// An EtherType for local experiments (IEEE 802), which no protocol of the stack uses.
const LOCAL: u16 = 0x88b5;
const HEADER: usize = 14;

fn frame() -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend(LOCAL.to_be_bytes());
    frame.extend([7; 30]);
    frame
}

/// Sends a packet, which has reached the sockets of the device when the call returns.
fn send(socket: &OwnedFd) {
    let to = Destination {
        interface: index_of("lo").unwrap(),
        protocol: LOCAL.to_be(),
    };
    packet_socket::send(socket, to, &frame(), Some(5), MsgFlags::empty()).unwrap();
}

/// The next packet, if one is there.
fn next(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 100];
    let length = recv(socket.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT);
    if length == Err(nix::Error::EAGAIN) {
        return None;
    }
    bytes.truncate(length.unwrap());
    Some(bytes)
}

#[test]
fn a_socket_receives_what_it_is_bound_for() {
    Netns::new().run(|| {
        let sender = packet_socket::open(Layer::Link).unwrap();
        let lo = index_of("lo");
        let bound = |layer, interface, receives| {
            let socket = packet_socket::open(layer).unwrap();
            // An unbound socket receives nothing.
            send(&sender);
            packet_socket::bind(&socket, interface, receives).unwrap();
            assert_eq!(next(&socket), None);
            send(&sender);
            next(&socket)
        };
        assert_eq!(bound(Layer::Link, lo, Receives::All), Some(frame()));
        assert_eq!(bound(Layer::Link, None, Receives::All), Some(frame()));
        assert_eq!(bound(Layer::Link, lo, Receives::Nothing), None);
        let behind = frame().split_off(HEADER);
        assert_eq!(bound(Layer::Network, lo, Receives::All), Some(behind));
        let socket = packet_socket::open(Layer::Link).unwrap();
        let error = packet_socket::bind(&socket, Some(7777), Receives::All).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    });
}

#[test]
fn a_filter_cuts_packets_and_what_has_no_room_is_counted() {
    Netns::new().run(|| {
        let [sender, socket] = [(); 2].map(|()| packet_socket::open(Layer::Link).unwrap());
        let cut = [instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 10)];
        attach_filter(&socket, &cut).unwrap();
        // Less than a packet needs: the kernel raises it to its minimum.
        set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 1).unwrap();
        packet_socket::bind(&socket, index_of("lo"), Receives::All).unwrap();
        for _ in 0..100 {
            send(&sender);
        }
        let mut seen = 0;
        while let Some(packet) = next(&socket) {
            assert_eq!(packet, frame()[..10]);
            seen += 1;
        }
        let missed = packet_socket::missed(&socket);
        // Each frame leaves and arrives again, the last ones perhaps later.
        assert!(
            seen > 0 && missed > 0 && (100..=200).contains(&(seen + missed)),
            "{seen} {missed}"
        );
        // The kernel refuses a program that does not terminate.
        let jump = [instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, 9)];
        assert!(attach_filter(&socket, &jump).is_err());
    });
}
