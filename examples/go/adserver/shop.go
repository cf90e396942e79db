package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// Half the time between changes, as is the rule: the best ad of the day changes after 100,000 visitors.
const usualMemory = 50_000

var creatives = []string{
	"mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
	"night train", "reading lamp", "bread knife", "wool socks", "folding kayak",
}

// One bandit serves all goroutines.
type adServer struct {
	bandit *dpb.Bandit
	memory uint64 // the bandit's
}

// newShop has the memory that was asked for; else the usual one, or none where that is refused. What is in the
// file comes before a fresh start, and what is wrong with the file ends it.
func newShop(o options) (adServer, error) {
	config := dpb.NewConfig(uint32(len(creatives)), 1) // epsilon = 1
	config.Horizon = 200_000
	config.RewardBits = 0      // a click or none
	config.ClampRewards = true // a refused reward would leave its ticket open, for all to see
	config.AnswerWindow = 1000 // an ad not clicked while 1000 later ones were shown: no click
	construct := dpb.New       // the recommended one
	if o.policy != 0 {
		construct = func(config dpb.Config) (*dpb.Bandit, error) { return dpb.NewPolicy(o.policy, config) }
	}
	config.Memory = usualMemory
	if o.memory != nil {
		config.Memory = *o.memory
	}
	bandit, err := construct(config)
	if err != nil && o.memory == nil {
		config.Memory = 0
		bandit, err = construct(config)
	}
	if err != nil || o.snapshot == "" {
		return adServer{bandit, config.Memory}, err
	}
	kept, err := os.ReadFile(o.snapshot)
	if errors.Is(err, fs.ErrNotExist) {
		return adServer{bandit, config.Memory}, nil
	}
	if err == nil {
		policy, _ := dpb.ParsePolicy(bandit.PolicyName())
		bandit.Close()
		bandit, err = dpb.RestorePolicy(policy, config, kept)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", o.snapshot, err)
	}
	return adServer{bandit, config.Memory}, err
}

// save: whatever happens, and whenever, the file holds the whole of this snapshot or of the one before.
func save(bandit *dpb.Bandit, file string) error {
	written, err := bandit.Snapshot(nil)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	beside, err := os.Create(file + ".new") // a rename does not cross file systems
	if err != nil {
		return err
	}
	_, err = beside.Write(written)
	err = errors.Join(err, beside.Sync(), beside.Close()) // before the name points there
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return err
	}
	directory, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync() // now the name lasts, too
}

// keep saves now, and again and again until it is stopped, and then once more. An error of the first or the last
// time is one; between them it is said, and the next time may do.
func keep(bandit *dpb.Bandit, file string, every time.Duration) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	if err := save(bandit, file); err != nil {
		return nil, err
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(every); ; {
			select {
			case <-tick.C:
				if err := save(bandit, file); err != nil {
					slog.Warn("not saved", "err", err)
				}
			case <-done:
				return
			}
		}
	}()
	return func() error {
		close(done)
		<-stopped
		return save(bandit, file)
	}, nil
}

// log says what is going on, with what is released.
func (s adServer) log(what string) {
	report, _ := s.bandit.Report()
	slog.Info(what, "report", report)
}
