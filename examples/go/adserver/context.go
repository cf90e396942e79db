package main

import (
	"net/http"
	"strings"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// With --context an ad is chosen by three features of the visitor: device, part of the day, language. Each ad has a model
// of its own.
//
// NEVER MAKE A FEATURE OF REWARDS: not how often this visitor has clicked, not an ad's click rate from the log, not a
// segment of visitors that somebody made of clicks. Each of these is a release of clicks without noise, and epsilon says
// nothing about it. All features here come from the request's header and the clock. They are not protected; clicks are.
const (
	devices = 4 // desktop, phone, tablet, something else
	parts   = 6 // of the day (UTC), four hours each
	// Languages are hashed: two of one hash look alike to the models.
	languages = 22
	// fields is how many features of a row are not 0, each of value 1.
	fields = 3
)

// configureContext is for dp-linear, which dpb.New then makes.
func configureContext(config *dpb.Config) {
	config.Features = devices + parts + languages
	config.ModelPerArm = true
	config.FeatureNorm = fields
	// A model needs more decisions than a click rate: half a day of them would be too few. --memory says otherwise.
	config.ForgetAfter = 0
}

// contextOf has the row of a visitor who comes now.
func contextOf(r *http.Request, now time.Time) dpb.Request {
	part := uint32(now.UTC().Hour() * parts / 24)
	language := dpb.FeatureHash("language", languageOf(r.Header.Get("Accept-Language")), languages)
	return dpb.Request{
		Sparse: []dpb.Feature{
			{Index: deviceOf(r.UserAgent()), Value: 1},
			{Index: devices + part, Value: 1},
			{Index: devices + parts + language, Value: 1},
		},
		SparseEnds: []uint32{fields},
	}
}

// deviceOf is coarse: it tells large screens from small ones. A User-Agent may say anything, and costs nobody but its
// sender.
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

// languageOf is the first one without its region: "de" of "de-AT,de;q=0.9,en;q=0.8".
func languageOf(acceptLanguage string) string {
	first, _, _ := strings.Cut(acceptLanguage, ",")
	first, _, _ = strings.Cut(first, ";")
	first, _, _ = strings.Cut(first, "-")
	return strings.ToLower(strings.TrimSpace(first))
}
