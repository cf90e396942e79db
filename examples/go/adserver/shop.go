package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"examples/keep"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ForgetAfter is half the time between changes. The best ad of the simulated day changes after 100,000 visitors.
const usualMemory = 50_000

// An ad without a click after this many later decisions has reward 0.
var usualWindow = span{ticks: 1000}

var creatives = []string{
	"mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
	"night train", "reading lamp", "bread knife", "wool socks", "folding kayak",
}

// adServer has one bandit for all goroutines, and a segmented one for all placements.
type adServer struct {
	bandit     member
	memory     uint64 // their ForgetAfter
	window     span   // their RewardWindow
	context    bool   // the bandit decides by features
	sales      bool   // rewards have parts
	payouts    *payouts
	segmented  member // has a segment for each placement; without placements it has no bandit
	placements uint32
	rotation   *rotation // of the ads of the placements
	reports    *copies
}

// newShop makes the bandits with the ForgetAfter of the options; without one, with the default, or with none if the
// policy does not support it. If there are files, a bandit continues from them. A snapshot that is not valid is an error.
func newShop(o options) (adServer, error) {
	config := dpb.NewConfig(uint32(len(creatives)), 1) // epsilon = 1
	config.Horizon = 200_000
	config.Node = uint64(o.fleet.number())
	key, err := o.fleet.key()
	if err != nil {
		return adServer{}, err
	}
	config.FleetKey = key
	config.RewardBits = 0      // a click or none
	config.ClampRewards = true // a refused reward would leave its ticket open, and public counts would show that
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
	if o.sales {
		configureSales(&config)
	}
	if o.budget > 0 {
		config.ForgetAfter = 0
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
	kept, err := keep.Load(o.snapshot)
	if err == nil && kept != nil {
		policy, _ := dpb.ParsePolicy(bandit.PolicyName())
		bandit.Close()
		if bandit, err = dpb.RestorePolicy(policy, config, kept); err != nil {
			err = fmt.Errorf("%s: %w", o.snapshot, err)
		}
	}
	if err == nil {
		bandit, err = resume(bandit, o, config, o.snapshot)
	}
	if err != nil {
		return adServer{}, err
	}
	ads := adServer{
		memory: config.ForgetAfter, window: o.window, context: o.context, sales: o.sales, placements: o.placements,
		reports: newCopies(o.reportEvery), payouts: &payouts{budget: o.budget},
	}
	if ads.bandit, err = o.fleet.join(bandit, o.fleet.name(), config, kept); err != nil {
		return adServer{}, err
	}
	if o.budget > 0 {
		if err = ads.bandit.CheckRequest(dpb.Request{Values: pays}); err != nil {
			ads.close()
			return adServer{}, fmt.Errorf("-budget: %w", err)
		}
	}
	if node := ads.bandit.node; node != nil {
		config.Node = uint64(node.Number())
	}
	if o.placements > 0 {
		ads.segmented, err = newSegmented(o, config)
	}
	if err == nil && o.placements > 0 {
		ads.rotation, err = newRotation(ads.segmented.Bandit, o.rotate)
	}
	if err != nil {
		ads.close()
		return adServer{}, err
	}
	ads.tickAll()
	return ads, nil
}

func (s adServer) close() {
	for _, m := range s.members() {
		m.close()
	}
}

// leavesState reports whether the server leaves its state to the next one. In a fleet it hands over what it can to the
// other servers.
func (o options) leavesState() bool { return o.fleet.keyFile != "" && o.fleet.redis == "" }

// suspend ends the bandits, and leaves their states beside their snapshots.
func (s adServer) suspend(o options) error {
	if !o.leavesState() {
		return nil
	}
	err := keep.Suspend(s.bandit.Bandit, o.snapshot)
	if s.placements > 0 {
		err = errors.Join(err, keep.Suspend(s.segmented.Bandit, o.segmentedSnapshot()))
	}
	return err
}

// resume makes a bandit continue from the state that the last process has left. It takes ownership of the bandit.
func resume(bandit *dpb.Bandit, o options, config dpb.Config, snapshot string) (*dpb.Bandit, error) {
	switch {
	case snapshot == "":
		return bandit, nil
	case o.fleet.redis != "": // the clicks of the meantime have gone elsewhere
		return bandit, keep.Drop(snapshot)
	}
	return keep.Resume(bandit, config, snapshot)
}

// save writes snapshots if the options name a file.
func (s adServer) save(o options) (err error) {
	if o.snapshot != "" {
		err = s.bandit.save(o.snapshot)
	}
	if s.placements > 0 {
		err = errors.Join(err, s.segmented.save(o.segmentedSnapshot()))
	}
	return err
}

// save writes a snapshot and says that it is stored. In a fleet the node says so, once the store has the snapshot. Without
// a file nothing is kept, and a restart makes another bandit.
func (m member) save(file string) error {
	written, err := keep.Save(m.Bandit, file)
	if err == nil && m.node == nil {
		err = m.Stored(written)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// keep saves now, regularly until it is stopped, and then once more. It returns an error of the first or the last
// time. It logs others and tries again. It also begins the periods of placements, and writes a snapshot at once in
// each: otherwise a restart would forget what the period has spent.
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
				s.tickAll()
				if err := s.rotation.turn(); err != nil {
					slog.Warn("the rotation failed", "err", err)
				}
				continue
			case <-saves.C:
			case <-periods.C:
				if s.placements > 0 {
					s.segmented.nextPeriod() // if it fails, the next decision fails too and reports it
				}
			case <-done:
				return
			}
			if err := s.save(o); err != nil {
				slog.Warn("the snapshot is not saved", "err", err)
			}
		}
	}()
	return func() error {
		close(done)
		<-stopped
		return s.save(o)
	}, nil
}

// log logs the state of the server, with released values only.
func (s adServer) log(what string) {
	report, _ := s.bandit.Report()
	slog.Info(what, "report", report)
}
