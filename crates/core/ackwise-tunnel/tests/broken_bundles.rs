//! Invalid bundles: truncated, with flipped bits, spliced, made up. A decoder rejects them, or
//! accepts what is well-formed; it neither panics nor returns packets of a bundle that it rejects.
//!
//! `tests/corpus` has those that were invented or found; each is a bundle in a file.

use ackwise_rng::Rng;
use ackwise_tunnel::trace::Recorded;
use ackwise_tunnel::{Decoder, Encoder, Packets, Variant};

const VARIANTS: [Variant; 2] = [Variant::Aligned, Variant::Entropy];

/// Bundles of a recorded trace, acknowledged one by one, and the decoder after them.
fn warm(which: Recorded, variant: Variant) -> (Vec<Vec<u8>>, Decoder) {
    let trace = which.read().expect("recorded");
    let (mut encoder, mut decoder) = (Encoder::new(variant, 16), Decoder::new(16));
    let mut bundles = Vec::new();
    let mut packets = Packets::default();
    for (number, acks) in (1..).zip(trace.chunks(25).take(40)) {
        for ack in acks {
            encoder.push(&ack.packet);
        }
        encoder.push(b"not an ACK");
        let mut bytes = Vec::new();
        encoder.finish(number, decoder.feedback(), 1400, &mut bytes);
        let decoded = decoder.decode(number, &bytes, &mut packets);
        decoded.expect("nothing is missing");
        encoder.acknowledge(&decoder.feedback().expect("some"));
        bundles.push(bytes);
    }
    (bundles, decoder)
}

/// Passes a bundle to a decoder; returns whether it was accepted.
fn offer(decoder: &mut Decoder, number: u64, bundle: &[u8], packets: &mut Packets) -> bool {
    packets.clear();
    let taken = decoder.decode(number, bundle, packets);
    match taken {
        Ok(decoded) => assert_eq!(decoded.packets, packets.len()),
        Err(_) => assert!(packets.is_empty()),
    }
    assert!(packets.len() <= 1024);
    taken.is_ok()
}

fn mutate(rng: &mut Rng, bundles: &[Vec<u8>]) -> Vec<u8> {
    let pick = |rng: &mut Rng| bundles[rng.below(bundles.len() as u64) as usize].clone();
    let mut bundle = pick(rng);
    for _ in 0..=rng.below(4) {
        let at = rng.below(bundle.len() as u64 + 1) as usize;
        match rng.below(6) {
            0 => bundle.truncate(at),
            1 => bundle.insert(at, rng.next_u64() as u8),
            2 => bundle
                .splice(at.., pick(rng).into_iter().skip(at))
                .for_each(drop),
            3 => bundle.extend(rng.next_u64().to_be_bytes()),
            _ => {
                if let Some(byte) = bundle.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
        }
    }
    bundle
}

#[test]
fn mutated_bundles() {
    let mut packets = Packets::default();
    let mut taken = 0;
    for (which, variant) in Recorded::ALL
        .into_iter()
        .flat_map(|w| VARIANTS.map(|v| (w, v)))
    {
        let (bundles, mut decoder) = warm(which, variant);
        let mut rng = Rng::new(which as u64);
        for number in 41..3041 {
            let bundle = mutate(&mut rng, &bundles);
            taken += u32::from(offer(&mut decoder, number, &bundle, &mut packets));
        }
    }
    // Those whose changes cancelled out, or which lost all but their headers.
    assert!((1..2000).contains(&taken), "{taken}");
}

#[test]
fn the_corpus() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let bundle = std::fs::read(&path).expect("a file");
        for variant in VARIANTS {
            let (_, mut decoder) = warm(Recorded::Sack, variant);
            let taken = offer(&mut decoder, 41, &bundle, &mut Packets::default());
            assert!(!taken, "{}", path.display());
        }
        let taken = offer(&mut Decoder::new(8), 1, &bundle, &mut Packets::default());
        assert!(!taken, "{}", path.display());
        count += 1;
    }
    assert!(count >= 10, "{count} files in {directory}");
}

#[test]
fn a_changed_packet_does_not_pass_the_check() {
    // Aligned deltas have no redundancy of their own: flip each bit of a small bundle.
    let trace = Recorded::Plain.read().expect("recorded");
    let mut encoder = Encoder::new(Variant::Aligned, 16);
    for ack in &trace[..3] {
        encoder.push(&ack.packet);
    }
    let mut bytes = Vec::new();
    encoder.finish(1, None, 1400, &mut bytes);
    let mut packets = Packets::default();
    for bit in 0..8 * bytes.len() {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        packets.clear();
        if Decoder::new(16).decode(1, &changed, &mut packets).is_ok() && !packets.is_empty() {
            let same = packets
                .iter()
                .zip(&trace)
                .all(|(p, seen)| *p == *seen.packet);
            assert!(same && packets.len() == 3, "bit {bit}");
        }
    }
}
