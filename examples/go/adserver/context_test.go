package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

var userAgents = [devices]string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36",
	"Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537.36",
	"Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Mobile/15E148 Safari/604.1",
	"curl/8.5.0",
}

func TestFeaturesOfAVisitor(t *testing.T) {
	for device, userAgent := range userAgents {
		if got := deviceOf(userAgent); got != uint32(device) {
			t.Errorf("%s: %d", userAgent, got)
		}
	}
	for header, language := range map[string]string{
		"": "", "de-AT,de;q=0.9,en;q=0.8": "de", " EN ;q=0.5": "en", "*": "*", "fr": "fr", ",;--": "",
	} {
		if got := languageOf(header); got != language {
			t.Errorf("%q: %q", header, got)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/ad", nil)
	r.Header.Set("Accept-Language", "de")
	for hour, part := range map[int]uint32{0: 0, 3: 0, 4: 1, 23: 5} {
		row := contextOf(r, time.Date(2026, 1, 1, hour, 59, 0, 0, time.UTC)).Sparse
		language, err := dpb.FeatureHash("language", "de", languages)
		if err != nil {
			t.Fatal(err)
		}
		language += devices + parts
		if len(row) != fields || row[0].Index != 3 || row[1].Index != devices+part || row[2].Index != language {
			t.Errorf("%d: %v", hour, row)
		}
	}
}

// Visitors with phones click the ads with even numbers, and those with desktops the others. So each ad suits half of
// the visitors.
func TestContext(t *testing.T) {
	const visits = 40_000
	play := func(o options) (liked, clicks int) {
		ads, err := newShop(o)
		if err != nil {
			t.Fatal(err)
		}
		defer ads.close()
		pages, coins := ads.visitors(), rand.New(rand.NewPCG(1, 2))
		for visit := range visits {
			device := coins.IntN(2)
			r := httptest.NewRequest(http.MethodGet, "/ad", nil)
			r.Header.Set("User-Agent", userAgents[device])
			r.Header.Set("Accept-Language", []string{"de", "en-GB,en", "fr;q=0.9"}[coins.IntN(3)])
			response := httptest.NewRecorder()
			pages.ServeHTTP(response, r)
			var ad shown
			if err := json.Unmarshal(response.Body.Bytes(), &ad); err != nil || response.Code != 200 {
				t.Fatalf("%d %s: %v", response.Code, response.Body, err)
			}
			rate := 0.05
			if int(ad.Arm)%2 != device {
				rate = 0.4
			}
			if coins.Float64() < rate {
				get(pages, ad.ClickURL)
				clicks++
			}
			if rate > 0.1 && visit >= 3*visits/4 {
				liked++
			}
		}
		for _, page := range []string{"/privacy", "/privacy.json"} {
			if status, body := get(pages, page); status != 200 || len(body) < 500 {
				t.Errorf("%s: %d %s", page, status, body)
			}
		}
		status, body := get(pages, "/report")
		var report struct {
			Lift     []float64
			Features *struct {
				Names    []string
				Arms     [][][2]float64 `json:"of_arms"`
				Explored float64        `json:"exploration"`
			}
		}
		if err := json.Unmarshal([]byte(body), &report); err != nil || status != 200 || (report.Features != nil) != o.context {
			t.Errorf("%d %s: %v", status, body, err)
		}
		if of := report.Features; of != nil {
			// What phones add to a desktop's logit, of all ads together: one ad may be known little.
			sum, variance := 0.0, 0.0
			for ad, weights := range of.Arms {
				desktop, phone := weights[0], weights[1]
				sum += float64(1-2*(ad%2)) * (phone[0] - desktop[0])
				variance += phone[1]*phone[1] + desktop[1]*desktop[1]
			}
			z := sum / math.Sqrt(variance)
			t.Log("phones: z", z, "lift", report.Lift)
			if len(of.Names) != len(of.Arms[0]) || of.Names[1] != "phone" || z < 3 ||
				len(report.Lift) != 2 || report.Lift[0] <= 0 || of.Explored != 0.05 {
				t.Errorf("phones: z %v, lift %v", z, report.Lift)
			}
		}
		return liked, clicks
	}
	liked, clicks := play(options{context: true, placements: 2, users: 1000})
	likedWithout, clicksWithout := play(options{})
	result := fmt.Sprintf("%d clicks, %d without context; visitors liked %d and %d of the last %d ads",
		clicks, clicksWithout, liked, likedWithout, visits/4)
	t.Log(result)
	if liked < 8*visits/40 || likedWithout > 6*visits/40 || clicks < clicksWithout {
		t.Error("context does not help:", result)
	}
	if _, err := newShop(options{context: true, policy: dpb.PolicyIMED}); err == nil {
		t.Error("dp-imed accepts features")
	}
}
