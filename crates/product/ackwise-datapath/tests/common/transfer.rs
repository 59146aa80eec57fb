//! The running kernel's own TCP between two ends.

use std::mem::{size_of, zeroed};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use super::{Pair, ip, ms, no_checksum_offload};

/// Payload bytes of a full segment.
pub const SEGMENT: usize = 548;

/// A sender in the near namespace, and a receiver in the far one that has connected to it.
pub struct Transfer {
    pub from: TcpStream,
    pub to: TcpStream,
}

impl Transfer {
    /// Gives both ends addresses, and frames of 600 bytes. The first flight has this many segments.
    pub fn prepare(pair: &Pair, first: usize) {
        // With complete checksums.
        no_checksum_offload("aw0");
        pair.far.run(|| {
            ip("addr add 198.18.7.2/24 dev aw1");
            ip("link set aw1 mtu 600");
        });
        ip("addr add 198.18.7.1/24 dev aw0");
        ip("link set aw0 mtu 600");
        ip(&format!(
            "route replace 198.18.7.0/24 dev aw0 initcwnd {first}"
        ));
    }

    /// Opens another connection.
    pub fn connect(pair: &Pair) -> Transfer {
        let server = TcpListener::bind("198.18.7.1:80").expect("bind");
        let to = pair
            .far
            .run(|| TcpStream::connect("198.18.7.1:80").expect("connect"));
        let (from, _) = server.accept().expect("accept");
        from.set_nodelay(true).expect("nodelay");
        to.set_read_timeout(Some(ms(30_000))).expect("a timeout");
        Transfer { from, to }
    }

    /// The kernel's information about the sender's socket.
    pub fn info(&self) -> libc::tcp_info {
        // SAFETY: all zeroes is a valid value; the kernel writes no more than the given size.
        unsafe {
            let mut info: libc::tcp_info = zeroed();
            let mut len = size_of::<libc::tcp_info>() as u32;
            let result = libc::getsockopt(
                self.from.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut len,
            );
            assert_eq!(result, 0);
            info
        }
    }
}

/// Bytes that show which are missing.
pub fn pattern(from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes).map(|n| (n / 7) as u8).collect()
}
