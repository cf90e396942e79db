package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// With -fleet-key-file a restart loses nothing: the server leaves its state, which is sealed, to the next one.
// docs/operating/restarts.md says what each step is for ("What the example servers do").

// leavesState reports whether the server leaves its state. In a fleet it hands over what it can to the other servers.
func (o options) leavesState() bool { return o.fleet.keyFile != "" && o.fleet.redis == "" }

// suspend ends the bandits, and leaves their states beside their snapshots for the next process.
func (s adServer) suspend(o options) error {
	if !o.leavesState() {
		return nil
	}
	err := suspend(s.bandit.Bandit, o.snapshot)
	if s.placements > 0 {
		err = errors.Join(err, suspend(s.segmented.Bandit, o.segmentedSnapshot()))
	}
	return err
}

func suspend(bandit *dpb.Bandit, snapshot string) error {
	state, err := bandit.Suspend(0, nil)
	if err != nil {
		return fmt.Errorf("%s.state: %w", snapshot, err)
	}
	return writeFile(snapshot+".state", state)
}

// resume makes a bandit continue from the state that the last process has left, if there is one and it is accepted. It
// takes ownership of the bandit, also on failure.
func resume(bandit *dpb.Bandit, o options, config dpb.Config, snapshot string) (*dpb.Bandit, error) {
	if snapshot == "" {
		return bandit, nil
	}
	if o.fleet.redis != "" { // the clicks of the meantime have gone elsewhere
		return bandit, errors.Join(remove(snapshot+".state"), removeLeftovers(snapshot+".state"))
	}
	next, err := takeState(bandit.PolicyName(), config, snapshot+".state")
	if err == nil && next == nil {
		return bandit, nil
	}
	bandit.Close()
	return next, err
}

// takeState continues from a state. It is opened once: only by the process that has renamed it, and only under that new
// name, which no other process uses, because this one has the lock. So one bandit at most continues from it, wherever
// processes are killed. takeState returns nil if there is no state, or if it is refused.
func takeState(policy string, config dpb.Config, state string) (*dpb.Bandit, error) {
	taken := state + ".opened"
	if err := removeLeftovers(state); err != nil {
		return nil, err
	}
	there, err := openOwn(state, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(there.Close(), os.Rename(state, taken), syncDirectory(state)); err != nil {
		return nil, err
	}
	next, refused := openState(policy, config, taken)
	if refused != nil {
		slog.Warn("what was open is lost", "file", state, "err", refused)
	}
	return next, os.Remove(taken)
}

// openState opens a state that this process has renamed, and claims it.
func openState(policy string, config dpb.Config, taken string) (*dpb.Bandit, error) {
	bytes, err := load(taken)
	if err != nil {
		return nil, err
	}
	status, err := os.Stat(taken)
	if err != nil {
		return nil, err
	}
	next, err := dpb.Resume(config, bytes)
	if err != nil {
		return nil, err
	}
	if next.PolicyName() != policy {
		err = fmt.Errorf("policy must be %s, got %s", next.PolicyName(), policy)
	} else {
		err = next.Claimed()
	}
	// Rewards that came meanwhile are lost, and must not count as none.
	longest := time.Duration(config.RewardWindow) * time.Millisecond / 8
	if err == nil && config.Clock == dpb.ClockCaller && time.Since(status.ModTime()) > longest {
		slog.Warn("open decisions are cancelled, because the server was away for too long")
		err = next.CancelAll()
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// removeLeftovers removes what killed processes have left of a state, and nobody may open.
func removeLeftovers(state string) error {
	return errors.Join(remove(state+".new"), remove(state+".opened"), syncDirectory(state))
}

// remove removes a file if there is one.
func remove(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// own returns the path of a server's file, without symbolic links. The server takes it once, at its start. A rename or
// removal of a link would leave the file that the link leads to, and another server would continue from the same state.
func own(file string) (string, error) {
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

// writeFile writes a file. At any time, even after a crash, it holds all of these bytes or all of the previous ones.
func writeFile(file string, bytes []byte) error {
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
