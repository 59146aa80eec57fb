//! Attacks of other users of the host on the registry (hardening findings M5 and L7).

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use ackwise_netdev::Error;
use ackwise_netdev::control::{AskError, Request, Service};
use ackwise_netdev::registry::{Key, Registry, TakeError};
use ackwise_testbed::{Netns, alone};
use tempfile::TempDir;

const NUMBERS: Service<u32> = Service::new("test");

/// A directory in which every user may create files, like `/tmp`.
fn public_dir() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    dir
}

fn registry(dir: &Path) -> Registry<u32> {
    Registry::in_dir("test", |_| false, dir.join("run"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn kind<T>(done: io::Result<T>) -> ErrorKind {
    done.err().expect("it must be refused").kind()
}

/// The lock file of the only entry.
fn lock_file(dir: &Path) -> PathBuf {
    let files = fs::read_dir(dir.join("run")).unwrap();
    let mut paths = files.map(|file| file.unwrap().path());
    paths
        .find(|path| path.extension().is_some_and(|ext| ext == "lock"))
        .unwrap()
}

fn flock(file: &File) -> io::Result<()> {
    // SAFETY: a valid descriptor.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn m5_another_user_reaches_neither_the_socket_nor_the_directory() {
    let _alone = alone();
    let (dir, netns) = (public_dir(), Netns::new());
    let registry = registry(dir.path());
    let key = Key::here("aw0").unwrap();
    let mut entry = registry.take(&key).unwrap();
    entry.publish(&1).unwrap();
    let server = NUMBERS.serve(entry.listen().unwrap(), |_| Ok(7)).unwrap();
    let socket = registry.socket_path(&key);
    assert_eq!(mode(&dir.path().join("run")), 0o700);
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(&lock_file(dir.path())), 0o600);
    netns.run_as_nobody(|| {
        let denied = ErrorKind::PermissionDenied;
        assert_eq!(kind(UnixStream::connect(&socket)), denied);
        assert_eq!(kind(File::create(socket.with_extension("new"))), denied);
        assert_eq!(
            kind(UnixListener::bind(socket.with_extension("new"))),
            denied
        );
        assert_eq!(kind(fs::remove_file(&socket)), denied);
        assert!(matches!(registry.list(), Err(Error::Registry { .. })));
        assert!(matches!(registry.take(&key), Err(TakeError::Registry(_))));
    });
    assert_eq!(NUMBERS.ask(&socket, Request::STATUS), Ok(7));
    drop(server);
}

#[test]
fn m5_a_directory_or_a_socket_of_another_user_is_not_used() {
    let _alone = alone();
    let (dir, netns) = (public_dir(), Netns::new());
    let registry = registry(dir.path());
    let key = Key::here("aw0").unwrap();
    let listener = netns.run_as_nobody(|| {
        // Open to everybody, so that only its owner is wrong.
        DirBuilder::new()
            .mode(0o777)
            .create(dir.path().join("run"))
            .unwrap();
        let listener = UnixListener::bind(registry.socket_path(&key)).unwrap();
        fs::set_permissions(registry.socket_path(&key), Permissions::from_mode(0o777)).unwrap();
        listener
    });
    // Answers whoever asks.
    let squatter = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        let _ = stream.write_all(b"{\"status\":6}\n");
        request
    });
    let answer = NUMBERS.ask(&registry.socket_path(&key), Request::Stop);
    assert!(
        matches!(&answer, Err(AskError::Failed(why)) if why.contains("user 65534")),
        "{answer:?}"
    );
    assert_eq!(squatter.join().unwrap(), "", "it must not even be asked");
    let Err(TakeError::Registry(error)) = registry.take(&key) else {
        panic!("another user's directory was taken");
    };
    assert!(
        error.to_string().contains("belongs to user 65534"),
        "{error}"
    );
    assert!(registry.list().is_err());
}

#[test]
fn m5_a_link_to_another_directory_is_not_followed() {
    let _alone = alone();
    let (dir, netns) = (public_dir(), Netns::new());
    let target = TempDir::new().unwrap();
    fs::set_permissions(target.path(), Permissions::from_mode(0o755)).unwrap();
    netns.run_as_nobody(|| {
        std::os::unix::fs::symlink(target.path(), dir.path().join("run")).unwrap();
    });
    let key = Key::here("aw0").unwrap();
    assert!(matches!(
        registry(dir.path()).take(&key),
        Err(TakeError::Registry(_))
    ));
    assert_eq!(mode(target.path()), 0o755);
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}

/// The units' directory belongs to the daemons' user, and root works in it as well.
#[test]
fn what_is_no_ordinary_file_is_neither_written_nor_waited_for() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let registry = registry(dir.path());
    let key = Key::here("aw0").unwrap();
    drop(registry.take(&key).unwrap());
    let lock = registry.socket_path(&key).with_extension("lock");
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &lock).unwrap();
    let taken = registry.take(&key).map(|mut entry| entry.publish(&1));
    assert!(matches!(taken, Err(TakeError::Registry(_))), "{taken:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(registry.list().unwrap().is_empty());
    fs::remove_file(&lock).unwrap();
    nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Opening it for reading blocks until somebody writes.
    let lists =
        std::thread::spawn(move || (registry.list().unwrap(), registry.take(&key).is_err()));
    for _ in 0..200 {
        if lists.is_finished() {
            assert_eq!(lists.join().unwrap(), (vec![], true));
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it waits");
}

#[test]
fn l7_another_user_cannot_keep_the_lock() {
    let _alone = alone();
    let (dir, netns) = (public_dir(), Netns::new());
    let registry = registry(dir.path());
    let key = Key::here("aw0").unwrap();
    let entry = registry.take(&key).unwrap();
    let lock = lock_file(dir.path());
    // Even if everybody may enter the directory, the file is root's.
    for run_mode in [0o700, 0o755] {
        fs::set_permissions(dir.path().join("run"), Permissions::from_mode(run_mode)).unwrap();
        netns.run_as_nobody(|| {
            let opened = File::open(&lock).and_then(|file| flock(&file).map(|()| file));
            assert_eq!(kind(opened), ErrorKind::PermissionDenied, "{run_mode:o}");
        });
    }
    drop(entry);
}

/// The directory may be somebody's, like `/tmp`, which must stay open to everybody.
#[test]
fn a_directory_that_others_may_enter_is_refused_and_stays_as_it_is() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let run = dir.path().join("run");
    fs::create_dir(&run).unwrap();
    let key = Key::here("aw0").unwrap();
    for open in [0o1777, 0o755, 0o750] {
        fs::set_permissions(&run, Permissions::from_mode(open)).unwrap();
        let Err(TakeError::Registry(error)) = registry(dir.path()).take(&key) else {
            panic!("a directory of mode {open:o} was taken");
        };
        let said = error.to_string();
        assert!(said.contains(&format!("mode {open:04o}")), "{said}");
        assert!(said.contains("chmod 700"), "{said}");
        assert_eq!(mode(&run), open);
    }
    fs::set_permissions(&run, Permissions::from_mode(0o700)).unwrap();
    drop(registry(dir.path()).take(&key).unwrap());
}
