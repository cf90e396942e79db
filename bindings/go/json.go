package dpb

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math"
	"strconv"
)

// exact is a 64-bit number that identifies something. JSON and logs have it as a string of decimal digits, because
// JavaScript rounds numbers above 2^53, and then for example no click finds its decision. It reads strings and numbers.
type exact uint64

func (x exact) String() string { return strconv.FormatUint(uint64(x), 10) }

func (x exact) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, x.String()), nil }

func (x *exact) UnmarshalJSON(text []byte) error {
	number, err := strconv.ParseUint(string(bytes.Trim(text, `"`)), 10, 64)
	if err == nil {
		*x = exact(number)
	}
	return err
}

// finite writes NaN (nothing released yet) and infinity (a baseline's privacy loss) as null in JSON and in logs, which
// have no such numbers.
type finite float64

func (x finite) value() any {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return nil
	}
	return float64(x)
}

func (x finite) MarshalJSON() ([]byte, error) { return json.Marshal(x.value()) }

// MarshalJSON writes the ticket as a string, and null for a NaN propensity.
func (d Decision) MarshalJSON() ([]byte, error) {
	type plain Decision
	return json.Marshal(struct {
		plain
		Ticket     exact
		Propensity finite
	}{plain(d), exact(d.Ticket), finite(d.Propensity)})
}

// UnmarshalJSON reads what MarshalJSON writes, and a ticket that is a number.
func (d *Decision) UnmarshalJSON(text []byte) error {
	type plain Decision
	read := struct {
		*plain
		Ticket     *exact
		Propensity *float64
	}{(*plain)(d), (*exact)(&d.Ticket), &d.Propensity}
	err := json.Unmarshal(text, &read)
	if read.Propensity == nil {
		d.Propensity = math.NaN()
	}
	return err
}

// MarshalJSON writes the segment and the user as strings.
func (r Request) MarshalJSON() ([]byte, error) {
	type plain Request
	return json.Marshal(struct {
		plain
		Segment, User exact
	}{plain(r), exact(r.Segment), exact(r.User)})
}

// UnmarshalJSON reads what MarshalJSON writes, and a segment and a user that are numbers.
func (r *Request) UnmarshalJSON(text []byte) error {
	type plain Request
	return json.Unmarshal(text, &struct {
		*plain
		Segment, User *exact
	}{(*plain)(r), (*exact)(&r.Segment), (*exact)(&r.User)})
}

// MarshalJSON writes null for a mean or width that is not released yet.
func (a Arm) MarshalJSON() ([]byte, error) {
	type plain Arm
	return json.Marshal(struct {
		plain
		Mean, Width finite
	}{plain(a), finite(a.Mean), finite(a.Width)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Arm) UnmarshalJSON(text []byte) error {
	type plain Arm
	read := struct {
		*plain
		Mean, Width *float64
	}{(*plain)(a), &a.Mean, &a.Width}
	err := json.Unmarshal(text, &read)
	if read.Mean == nil {
		a.Mean = math.NaN()
	}
	if read.Width == nil {
		a.Width = math.NaN()
	}
	return err
}

// MarshalJSON writes names for the policy, the duty and the warnings, strings for the key's id and the generation, and null
// for an infinite privacy loss.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		plain
		EpsilonSpent, EpsilonLimit, EpsilonLeft finite
		FleetKeyID, Generation                  exact
	}{
		plain(r), finite(r.EpsilonSpent), finite(r.EpsilonLimit), finite(r.EpsilonLeft),
		exact(r.FleetKeyID), exact(r.Generation),
	})
}

// UnmarshalJSON reads what MarshalJSON writes, and an id and a generation that are numbers.
func (r *Report) UnmarshalJSON(text []byte) error {
	type plain Report
	read := struct {
		*plain
		EpsilonSpent, EpsilonLimit, EpsilonLeft *float64
		FleetKeyID, Generation                  *exact
	}{
		(*plain)(r), &r.EpsilonSpent, &r.EpsilonLimit, &r.EpsilonLeft,
		(*exact)(&r.FleetKeyID), (*exact)(&r.Generation),
	}
	err := json.Unmarshal(text, &read)
	for of, found := range map[*float64]*float64{
		&r.EpsilonSpent: read.EpsilonSpent, &r.EpsilonLimit: read.EpsilonLimit, &r.EpsilonLeft: read.EpsilonLeft,
	} {
		if found == nil {
			*of = math.Inf(1)
		}
	}
	return err
}

// LogValue groups the fields, for log/slog.
func (d Decision) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("ticket", exact(d.Ticket).String()),
		slog.Any("propensity", finite(d.Propensity).value()),
		slog.Uint64("arm", uint64(d.Arm)),
		slog.Uint64("phase", uint64(d.Phase)),
	)
}
