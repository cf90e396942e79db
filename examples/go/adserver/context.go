package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// With --context the server chooses an ad by three features of the visitor: device, part of the day, language. Each
// ad has its own model.
//
// NEVER COMPUTE A FEATURE FROM REWARDS: not from this visitor's clicks, an ad's click rate from the log, or a segment
// of visitors that was made from clicks. Each of these releases clicks without noise, which epsilon does not cover.
// All features here come from the request's header and the clock. They are not protected; clicks are.
const (
	devices = 4 // desktop, phone, tablet, something else
	parts   = 6 // of the day (UTC), four hours each
	// Languages are hashed. The models do not distinguish two languages with the same hash.
	languages = 22
	fields    = 3 // features of a row that are not 0. Each is 1.
	explored  = 0.05
)

// configureContext sets the fields for dp-linear, which dpb.New then makes.
func configureContext(config *dpb.Config) {
	config.Features = devices + parts + languages
	config.ModelPerArm = true
	config.Exploration = explored // so that /report can say what the features gain
	// A model needs more decisions than a click rate, and half a day has too few. --memory overrides this.
	config.ForgetAfter = 0
}

// contextOf returns the row of features of a visitor at this time.
func contextOf(r *http.Request, now time.Time) dpb.Request {
	part := uint32(now.UTC().Hour() * parts / 24)
	// net/http refuses a header with a NUL, the only text without an index.
	language, _ := dpb.FeatureHash("language", languageOf(r.Header.Get("Accept-Language")), languages)
	return dpb.Request{
		Sparse: []dpb.Feature{
			{Index: deviceOf(r.UserAgent()), Value: 1},
			{Index: devices + part, Value: 1},
			{Index: devices + parts + language, Value: 1},
		},
		SparseEnds: []uint32{fields},
	}
}

// featureNames returns what the weights of a model are of, the intercept last.
func featureNames() []string {
	names := []string{"desktop", "phone", "tablet", "other device"}
	for part := range parts {
		names = append(names, fmt.Sprintf("%d to %d h", 4*part, 4*part+4))
	}
	for language := range languages {
		names = append(names, fmt.Sprintf("language %d", language))
	}
	return append(names, "any visitor")
}

// weights returns the weight of each feature for each ad that is not retired, with its deviation.
func weights(bandit *dpb.Bandit, arms []dpb.Arm) (map[string]any, error) {
	all := make([]any, len(arms))
	for arm := range arms {
		if !arms[arm].Active {
			continue
		}
		read, err := bandit.FeatureWeights(uint32(arm))
		if err != nil {
			return nil, err
		}
		pairs := make([][2]float64, len(read))
		for i, weight := range read {
			pairs[i] = [2]float64{weight.Mean, weight.Deviation}
		}
		all[arm] = pairs
	}
	return map[string]any{"names": featureNames(), "of_arms": all, "exploration": explored}, nil
}

// deviceOf distinguishes large screens from small ones. A false User-Agent affects only its sender.
func deviceOf(userAgent string) uint32 {
	has := func(text string) bool { return strings.Contains(userAgent, text) }
	switch {
	case has("iPad") || has("Tablet") || has("Android") && !has("Mobile"):
		return 2
	case has("Mobi") || has("iPhone") || has("Android"):
		return 1
	case has("Windows") || has("Macintosh") || has("X11"):
		return 0
	}
	return 3
}

// languageOf returns the first language without its region: "de" for "de-AT,de;q=0.9,en;q=0.8".
func languageOf(acceptLanguage string) string {
	first, _, _ := strings.Cut(acceptLanguage, ",")
	first, _, _ = strings.Cut(first, ";")
	first, _, _ = strings.Cut(first, "-")
	return strings.ToLower(strings.TrimSpace(first))
}
