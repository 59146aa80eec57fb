use ackwise_policy::LinkKind;

const ETHERNET: usize = 14;
const VLAN: usize = 4;
const ETHERTYPE_AT: usize = 12;
const ETHERTYPE_V4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_V6: [u8; 2] = [0x86, 0xdd];
const ETHERTYPES_VLAN: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

/// Returns the offset of the IP header in bytes: behind the Ethernet header and up to two VLAN
/// tags, or 0 on a link without a link header. Returns `None` for what is not IP.
#[must_use]
pub fn ip_offset(frame: &[u8], link: LinkKind) -> Option<usize> {
    if link == LinkKind::Ip {
        return Some(0);
    }
    let mut at = ETHERTYPE_AT;
    loop {
        let kind: [u8; 2] = frame.get(at..at + 2)?.try_into().ok()?;
        if kind == ETHERTYPE_V4 || kind == ETHERTYPE_V6 {
            return Some(at + 2);
        }
        if !ETHERTYPES_VLAN.contains(&kind) || at > ETHERNET + VLAN {
            return None;
        }
        at += VLAN;
    }
}
