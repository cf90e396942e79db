// Package keep keeps the bandits of a server in files: snapshots, and the states that a planned restart leaves.
package keep

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The maximum size of a snapshot in bytes, enough for 600,000 placements.
const maxSnapshot = 256 << 20

// Load returns the contents of a file, or nil if it does not exist.
func Load(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	open, err := openOwn(file, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer open.Close()
	state, err := open.Stat()
	if err != nil {
		return nil, err
	}
	if state.Size() > maxSnapshot {
		return nil, fmt.Errorf("%s: %d bytes are not a snapshot of this server", file, state.Size())
	}
	kept := make([]byte, state.Size())
	_, err = io.ReadFull(open, kept)
	return kept, err
}

// Lock locks a server's snapshot, because a second server with the same file would overwrite it. The lock is on a
// separate file, because each rename replaces the snapshot's file. The server never removes the lock file, because
// that would be a race. The system releases the lock when the process ends.
func Lock(snapshot string) (unlock func(), err error) {
	if snapshot == "" {
		return func() {}, nil
	}
	beside, err := openOwn(snapshot+".lock", os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(beside.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		beside.Close()
		return nil, fmt.Errorf("%s: another server has it (%s is locked)", snapshot, beside.Name())
	}
	return func() { beside.Close() }, nil
}

// remove removes a file if there is one.
func remove(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Own returns the path of a server's file, without symbolic links. The server takes it once, at its start. A rename or
// removal of a link would leave the file that the link leads to, and another server would continue from the same state.
func Own(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		directory, err := filepath.EvalSymlinks(filepath.Dir(file))
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		return filepath.Join(directory, filepath.Base(file)), nil
	}
	known, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err) // such as a link to nothing
	}
	open, err := openOwn(known, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	return known, open.Close()
}

// openOwn opens a file that is the server's own: a regular file with one link, because a file that has another link is
// still there when the server has removed it.
func openOwn(file string, flags int) (*os.File, error) {
	open, err := os.OpenFile(file, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o666) // a FIFO would wait
	if err != nil && !errors.Is(err, syscall.ELOOP) {
		return nil, err
	}
	if err == nil {
		status, err := open.Stat()
		if err != nil {
			return nil, errors.Join(err, open.Close())
		}
		if there, ok := status.Sys().(*syscall.Stat_t); ok && status.Mode().IsRegular() && there.Nlink == 1 {
			return open, nil
		}
		open.Close()
	}
	return nil, fmt.Errorf("%s: must be a regular file with one link", file)
}

// Write writes a file. At any time, even after a crash, it holds all of these bytes or all of the previous ones.
func Write(file string, bytes []byte) error {
	if err := remove(file + ".new"); err != nil {
		return err
	}
	beside, err := openOwn(file+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL) // a rename does not cross file systems
	if err != nil {
		return err
	}
	_, err = beside.Write(bytes)
	err = errors.Join(err, beside.Sync(), beside.Close()) // before the rename
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return err
	}
	return syncDirectory(file)
}

// syncDirectory makes the renames and removals of files in this one's directory durable.
func syncDirectory(file string) error {
	directory, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
