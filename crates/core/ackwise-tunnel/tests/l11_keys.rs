//! L11: private keys do not stay in memory.

use std::mem::MaybeUninit;

use ackwise_tunnel::{KeyPair, Security};

/// The bytes of a value after it was dropped in place.
fn after_drop<T>(value: T) -> Vec<u8> {
    let mut slot = MaybeUninit::new(value);
    // SAFETY: the value is initialised and not used afterwards. Its memory is that of `slot`; no
    // uninitialised bytes of it are read, as a key is an array of bytes.
    unsafe {
        slot.as_mut_ptr().drop_in_place();
        let at = slot.as_ptr().cast::<u8>();
        (0..size_of::<T>())
            .map(|n| at.add(n).read_volatile())
            .collect()
    }
}

fn has(bytes: &[u8], key: &[u8]) -> bool {
    bytes.windows(key.len()).any(|window| window == key)
}

#[test]
fn l11_private_keys_are_zeroed_when_they_are_dropped() {
    let keys = KeyPair::generate().expect("random numbers");
    let (secret, public) = (keys.secret, keys.public);
    let security = Security::Noise {
        secret,
        public,
        peer: [7; 32],
    };
    for left in [after_drop(keys), after_drop(security)] {
        assert!(has(&left, &public), "the memory is still what it was");
        assert!(!has(&left, &secret));
        assert!(has(&left, &[0; 32]));
    }
}
