package main

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// With --sales an ad earns by parts: a click, what the visitor buys, and what comes back. The shop's own program reports
// purchases and returns, in euros, on the operator's port, when they happen and in any order:
//
//	GET /bought/<ticket>?euros=39.90
//	GET /returned/<ticket>?euros=39.90
//
// What comes after the window does not count, so choose it as long as most returns take.

const (
	clicked = iota
	bought
	returned
	salesParts
)

// earnings of a click, and of a euro. A visitor who spends 95 euros or more earns an ad as much as an ad can earn.
var earnings = [8]float64{clicked: 0.05, bought: 0.01, returned: -0.01}

func configureSales(config *dpb.Config) {
	config.Parts, config.PartWeights = salesParts, earnings
	config.RewardBits = 20
}

// sold reports a part in euros. Like a click it always gets the same response.
func (s adServer) sold(part uint32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		ticket, err := strconv.ParseUint(text, 16, 64)
		euros, bad := strconv.ParseFloat(r.URL.Query().Get("euros"), 64)
		if bad != nil || !(euros >= 0) || math.IsInf(euros, 0) {
			refuse(w, http.StatusBadRequest, "bad_euros", "euros must be a number of euros")
			return
		}
		if err == nil && len(text) == 16 {
			_ = s.of(ticket).updatePart(ticket, part, euros) // the operator's counts have refused reports
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
