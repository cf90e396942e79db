package keep

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// Suspend ends a bandit, and leaves its state, sealed, beside its snapshot for the next process: a restart loses nothing.
// docs/operating/restarts.md says what each step is for ("What the example servers do").
func Suspend(bandit *dpb.Bandit, snapshot string) error {
	state, err := bandit.Suspend(0, nil)
	if err != nil {
		return fmt.Errorf("%s.state: %w", snapshot, err)
	}
	return Write(snapshot+".state", state)
}

// Resume makes a bandit continue from the state that the last process has left beside its snapshot, if there is one and it
// is accepted. It takes ownership of the bandit, also on failure.
func Resume(bandit *dpb.Bandit, config dpb.Config, snapshot string) (*dpb.Bandit, error) {
	next, err := takeState(bandit.PolicyName(), config, snapshot+".state")
	if err == nil && next == nil {
		return bandit, nil
	}
	bandit.Close()
	return next, err
}

// Drop removes the state that the last process has left beside its snapshot.
func Drop(snapshot string) error {
	return errors.Join(remove(snapshot+".state"), removeLeftovers(snapshot+".state"))
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
	bytes, err := Load(taken)
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

// Save writes a bandit's snapshot to a file, and returns it for [dpb.Bandit.Stored].
func Save(bandit *dpb.Bandit, file string) (written []byte, err error) {
	if written, err = bandit.Snapshot(nil); err == nil && file != "" {
		err = Write(file, written)
	}
	return written, err
}
