//! The files of a server: its snapshot, the state that it leaves to the next process, the key that seals states, and
//! a lock. `docs/operating/restarts.md` says what each step is for ("What the example servers do").

use dpb::{Algorithm, Bandit, Clock, Config, FleetKey};
use nix::fcntl::{Flock, FlockArg, OFlag};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The maximum size of a snapshot or a state in bytes. A state of a window of time has a third of it.
const MOST: u64 = 64 << 20;

/// The file whose name is this one's and something more.
fn beside(file: &Path, more: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(more);
    name.into()
}

/// An error that names the file.
fn of(file: &Path) -> impl FnOnce(Error) -> Error {
    move |error| Error::new(error.kind(), format!("{}: {error}", file.display()))
}

fn fault(file: &Path, what: impl Display) -> Error {
    of(file)(Error::other(what.to_string()))
}

/// The directory of a file.
fn place(file: &Path) -> Result<PathBuf> {
    let file = std::path::absolute(file)?;
    Ok(file.parent().unwrap_or(&file).to_owned())
}

/// The path of a server's file, without symbolic links. The server takes it once, at its start. A rename or removal of a
/// link would leave the file that the link leads to, and another server would continue from the same state.
pub fn own(file: &Path) -> Result<PathBuf> {
    if fs::symlink_metadata(file).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let directory = fs::canonicalize(place(file)?).map_err(of(file))?;
        return Ok(directory.join(file.file_name().unwrap_or_default()));
    }
    let known = fs::canonicalize(file).map_err(of(file))?; // refuses a link to nothing
    open_own(&known, OpenOptions::new().read(true))?;
    Ok(known)
}

/// Opens a file that is the server's own: a regular file with one link, because a file that has another link is still
/// there when the server has removed it.
fn open_own(file: &Path, how: &mut OpenOptions) -> Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK; // a FIFO would wait
    let open = how.custom_flags(flags.bits()).open(file);
    let is_link = fs::symlink_metadata(file).is_ok_and(|there| there.is_symlink());
    if is_link || matches!(&open, Ok(open) if !open.metadata().is_ok_and(|there| there.is_file() && there.nlink() == 1))
    {
        return Err(fault(file, "must be a regular file with one link"));
    }
    open.map_err(of(file))
}

/// Removes a file if there is one.
fn remove(file: &Path) -> Result<()> {
    fs::remove_file(file)
        .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(of(file)(error)) })
}

/// Makes the renames and removals of files in this one's directory durable.
fn sync_directory(file: &Path) -> Result<()> {
    let place = place(file)?;
    File::open(&place).and_then(|place| place.sync_all()).map_err(of(&place))
}

/// Writes a file. At any time, even after a crash, it holds all of these bytes or all of the previous ones.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let new = beside(file, ".new"); // in the same directory, because a rename does not cross file systems
    remove(&new)?;
    let mut open = open_own(&new, OpenOptions::new().write(true).create_new(true))?;
    open.write_all(bytes).and_then(|()| open.sync_all()).map_err(of(&new))?; // before the rename
    fs::rename(&new, file).map_err(of(file))?;
    sync_directory(file)
}

/// Reads a file, unless it is too large. None if there is none.
fn load(file: &Path) -> Result<Option<Vec<u8>>> {
    let open = match open_own(file, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        open => open?,
    };
    let mut bytes = Vec::new();
    if open.take(MOST + 1).read_to_end(&mut bytes).map_err(of(file))? as u64 > MOST {
        return Err(fault(file, format!("more than {MOST} bytes are not a snapshot of this server")));
    }
    Ok(Some(bytes))
}

/// Locks a server's files, because a second server with the same ones would overwrite them. The lock is on a separate
/// file, because each rename replaces the snapshot's file. The server never removes the lock file, because that would be
/// a race. The system releases the lock when the process ends.
pub fn lock(snapshot: &Path) -> Result<Flock<File>> {
    let lock = beside(snapshot, ".lock");
    let open = open_own(&lock, OpenOptions::new().create(true).append(true))?;
    let taken = |_| fault(snapshot, format!("another server has it ({} is locked)", lock.display()));
    Flock::lock(open, FlockArg::LockExclusiveNonblock).map_err(taken)
}

/// Reads a key: 32 bytes, or 64 hexadecimal digits on a line. Refuses a file that other users can read.
pub fn read_key(file: &Path) -> Result<FleetKey> {
    let mut open = File::open(file).map_err(of(file))?;
    if open.metadata()?.permissions().mode() & 0o077 != 0 {
        return Err(fault(file, "other users can read it: chmod 600"));
    }
    let mut text = Vec::new();
    Read::by_ref(&mut open).take(67).read_to_end(&mut text).map_err(of(file))?;
    let mut key = <[u8; 32]>::try_from(text.as_slice()).ok();
    if key.is_none() {
        let line = text.strip_suffix(b"\n").map_or(&*text, |line| line.strip_suffix(b"\r").unwrap_or(line));
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        let digits: Option<Vec<u8>> = line.iter().map(|&each| digit(each)).collect();
        let bytes = digits
            .map(|digits| digits.chunks(2).map(|two| two.iter().fold(0, |all, digit| all << 4 | digit)).collect());
        key = bytes.filter(|_| line.len() == 64).and_then(|bytes: Vec<u8>| bytes.try_into().ok());
    }
    let key = key.ok_or_else(|| fault(file, "not a fleet key: must be 32 bytes, or 64 hexadecimal digits"))?;
    Ok(key.into())
}

/// Ends the bandit, and leaves its whole state beside its snapshot for the next process.
pub fn suspend(bandit: &Bandit, snapshot: &Path) -> Result<()> {
    let state = beside(snapshot, ".state");
    let bytes = bandit.suspend(0).map_err(|error| fault(&state, error))?;
    write(&state, &bytes)
}

/// Continues from the state that the last process has left or, if there is none or it is refused, from the snapshot.
/// None if there is no file. A snapshot that cannot be restored is an error, before a state is touched.
pub fn resume(policy: Algorithm, config: &Config, snapshot: &Path) -> Result<Option<Bandit>> {
    let restore = |bytes: Vec<u8>| Bandit::restore_as(policy, config, &bytes).map_err(|error| fault(snapshot, error));
    let restored = load(snapshot)?.map(restore).transpose()?;
    Ok(take_state(policy, config, &beside(snapshot, ".state"))?.or(restored))
}

/// Continues from a state. It is opened once: only by the process that has renamed it, and only under that new name, which
/// no other process uses, because this one has the lock. So one bandit at most continues from it, wherever processes are
/// killed.
fn take_state(policy: Algorithm, config: &Config, state: &Path) -> Result<Option<Bandit>> {
    let taken = beside(state, ".opened");
    remove(&beside(state, ".new"))?; // what killed processes have left, and nobody may open
    remove(&taken)?;
    match open_own(state, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        there => drop(there?),
    }
    fs::rename(state, &taken).map_err(of(state))?;
    sync_directory(state)?;
    let next = open_state(policy, config, &taken);
    remove(&taken)?;
    next.or_else(|why| {
        eprintln!("what was open is lost: {why}");
        Ok(None)
    })
}

/// Opens a state that this process has renamed, and claims it.
fn open_state(policy: Algorithm, config: &Config, taken: &Path) -> Result<Option<Bandit>> {
    let Some(bytes) = load(taken)? else { return Ok(None) };
    let bandit = Bandit::resume(Some(policy), config, &bytes).map_err(|error| fault(taken, error))?;
    let away = fs::metadata(taken)?.modified()?.elapsed().unwrap_or_default();
    bandit.claimed().map_err(|error| fault(taken, error))?;
    // Rewards that came meanwhile are lost, and must not count as none.
    if config.clock == Clock::Caller && away > Duration::from_millis((config.reward_window / 8).into()) {
        bandit.cancel_all().map_err(|error| fault(taken, error))?;
        eprintln!("open decisions are cancelled, because the server was away for too long");
    }
    Ok(Some(bandit))
}
