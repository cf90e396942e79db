package main

import (
	"math"
	"sync"
	"sync/atomic"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// With --budget E each ad pays for a click, and its campaign ends when it has spent E euros here. The server then plays
// for money: the payouts are the values of a request, and what the bandit learns are still click rates.
//
// A budget must not end by counting clicks, because the end would be public and clicks are not. So it ends by public
// numbers: an ad that was shown n times and has the released click rate m has had about n m clicks.

// pays is what an advertiser pays for a click, in euros.
var pays = []float64{0.30, 0.25, 0.60, 0.20, 0.15, 0.45, 0.10, 0.35, 0.20, 0.50}

type payouts struct {
	budget float64       // euros of each ad; 0: the server has no payouts
	shown  atomic.Uint64 // requests so far
	mu     sync.Mutex
	now    atomic.Pointer[offers]
}

// offers is what the ads offer for the next requests. It does not change.
type offers struct {
	request dpb.Request // the ads with a budget, and what a click on each is worth
	left    []float64   // euros of each ad
}

// renewal is the number of requests after which the budgets are looked at again.
const renewal = 50

// offers returns what the ads offer now.
func (p *payouts) offers(bandit *dpb.Bandit) (*offers, error) {
	if p.shown.Add(1)%renewal != 1 {
		if now := p.now.Load(); now != nil {
			return now, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	arms, err := bandit.Arms()
	if err != nil {
		return nil, err
	}
	now := &offers{left: make([]float64, len(arms))}
	now.request.Eligible, now.request.Values = []uint32{}, []float64{}
	for arm, read := range arms {
		spent := float64(read.Pulls) * read.Mean * pays[arm]
		if math.IsNaN(spent) {
			spent = 0 // nothing is released yet
		}
		now.left[arm] = max(p.budget-spent, 0)
		if now.left[arm] > 0 {
			now.request.Eligible = append(now.request.Eligible, uint32(arm))
			now.request.Values = append(now.request.Values, pays[arm])
		}
	}
	p.now.Store(now)
	return now, nil
}
