package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// Half the time between changes, as is the rule: the best ad of the day changes after 100,000 visitors.
const usualMemory = 50_000

// An ad not clicked while so many later ones were shown: no click.
var usualWindow = span{ticks: 1000}

var creatives = []string{
	"mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
	"night train", "reading lamp", "bread knife", "wool socks", "folding kayak",
}

// One bandit serves all goroutines, and one with segments all placements.
type adServer struct {
	bandit     member
	memory     uint64 // theirs
	window     span   // too
	context    bool   // the bandit's
	segmented  member // has a segment for each placement; without a bandit where there are none
	placements uint32
	reports    *copies
}

// newShop has the memory that was asked for; else the usual one, or none where that is refused. What is in the
// file comes before a fresh start, and what is wrong with the file ends it.
func newShop(o options) (adServer, error) {
	config := dpb.NewConfig(uint32(len(creatives)), 1) // epsilon = 1
	config.Horizon = 200_000
	config.Node = uint64(o.fleet.number())
	config.RewardBits = 0      // a click or none
	config.ClampRewards = true // a refused reward would leave its ticket open, for all to see
	if o.window.ticks == 0 {
		o.window = usualWindow
	}
	o.window.configure(&config)
	construct := dpb.New // the recommended one
	if o.policy != 0 {
		construct = func(config dpb.Config) (*dpb.Bandit, error) { return dpb.NewPolicy(o.policy, config) }
	}
	config.ForgetAfter = usualMemory
	if o.window.isTime {
		config.ForgetAfter = halfADay
	}
	if o.context {
		configureContext(&config)
	}
	if o.memory != nil {
		config.ForgetAfter = o.memory.ticks
	}
	bandit, err := construct(config)
	if err != nil && o.memory == nil {
		config.ForgetAfter = 0
		bandit, err = construct(config)
	}
	if err != nil {
		return adServer{}, err
	}
	kept, err := load(o.snapshot)
	if err == nil && kept != nil {
		policy, _ := dpb.ParsePolicy(bandit.PolicyName())
		bandit.Close()
		if bandit, err = dpb.RestorePolicy(policy, config, kept); err != nil {
			err = fmt.Errorf("%s: %w", o.snapshot, err)
		}
	}
	if err != nil {
		return adServer{}, err
	}
	ads := adServer{memory: config.ForgetAfter, window: o.window, context: o.context, placements: o.placements, reports: newCopies(o.reportEvery)}
	if ads.bandit, err = o.fleet.join(bandit, o.fleet.name(), config); err != nil {
		return adServer{}, err
	}
	if o.placements > 0 {
		ads.segmented, err = newSegmented(o, config)
	}
	if err == nil {
		err = ads.tickAll()
	}
	if err != nil {
		ads.close()
	}
	return ads, err
}

func (s adServer) close() {
	for _, m := range s.members() {
		m.close()
	}
}

// Bytes of a snapshot: one of 600,000 placements has no more.
const maxSnapshot = 256 << 20

// load reads what a file holds; nil where there is none.
func load(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	open, err := os.Open(file)
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
		return nil, fmt.Errorf("%s: %d bytes are no snapshot of this server", file, state.Size())
	}
	kept := make([]byte, state.Size())
	_, err = io.ReadFull(open, kept)
	return kept, err
}

// lock makes a snapshot this server's own: of two on one file the later one would undo what the other has saved. The
// lock is on a file beside it, for a rename puts another file under the name. It is there for good: to remove it would
// be a race. Whoever dies lets it go.
func lock(snapshot string) (unlock func(), err error) {
	if snapshot == "" {
		return func() {}, nil
	}
	beside, err := os.OpenFile(snapshot+".lock", os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(beside.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		beside.Close()
		return nil, fmt.Errorf("%s: another server has it (%s is locked)", snapshot, beside.Name())
	}
	return func() { beside.Close() }, nil
}

// save keeps what was learned, if there is a file for it.
func (s adServer) save(o options) error {
	if o.snapshot == "" {
		return nil
	}
	err := save(s.bandit.Bandit, o.snapshot)
	if s.placements > 0 {
		err = errors.Join(err, save(s.segmented.Bandit, o.segmentedSnapshot()))
	}
	return err
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
// time is one; between them it is said, and the next time may do. It begins the periods of placements, too: a snapshot is to
// know of each at once, or a restart would forget what that has spent.
func (s adServer) keep(o options) (stop func() error, err error) {
	if err := s.save(o); err != nil {
		return nil, err
	}
	saves, periods, ticks := time.NewTicker(o.snapshotEvery), time.NewTicker(o.period), time.NewTicker(time.Second)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ticks.C:
				s.tickAll() // refused, it is broken: so its next answer will say
				continue
			case <-saves.C:
			case <-periods.C:
				if s.placements > 0 {
					s.segmented.nextPeriod() // refused, it is broken: so its next answer will say
				}
			case <-done:
				return
			}
			if err := s.save(o); err != nil {
				slog.Warn("not saved", "err", err)
			}
		}
	}()
	return func() error {
		close(done)
		<-stopped
		return s.save(o)
	}, nil
}

// log says what is going on, with what is released.
func (s adServer) log(what string) {
	report, _ := s.bandit.Report()
	slog.Info(what, "report", report)
}
