//! Reads files that users name.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ackwise_cli::error::BadInput;

/// Maximum size of a file. Some files, such as `/dev/zero`, have no end.
const MAX_BYTES: u64 = 1 << 30;

/// Reads a file, or standard input for `-`. Returns `None` if `begins` refuses its first `start`
/// bytes, of which there may be fewer.
pub fn read(
    path: &Path,
    start: u64,
    begins: impl FnOnce(&[u8]) -> bool,
) -> Result<Option<Vec<u8>>, BadInput> {
    let refused = |e: io::Error| BadInput::new(format!("{}: cannot be read: {e}", path.display()));
    let mut source: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(refused)?),
    };
    let mut bytes = Vec::new();
    let mut more = |bytes: &mut Vec<u8>, most| source.by_ref().take(most).read_to_end(bytes);
    more(&mut bytes, start).map_err(refused)?;
    if !begins(&bytes) {
        return Ok(None);
    }
    more(&mut bytes, MAX_BYTES).map_err(refused)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(
            BadInput::new(format!("{}: it is larger than 1 GiB", path.display()))
                .hint("name a smaller file"),
        );
    }
    Ok(Some(bytes))
}
