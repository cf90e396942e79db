package dpb

import (
	"encoding/json"
	"log/slog"
	"math"
)

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

// MarshalJSON writes null for a NaN propensity.
func (d Decision) MarshalJSON() ([]byte, error) {
	type plain Decision
	return json.Marshal(struct {
		plain
		Propensity finite
	}{plain(d), finite(d.Propensity)})
}

// MarshalJSON writes null for a mean or width that is not released yet.
func (a Arm) MarshalJSON() ([]byte, error) {
	type plain Arm
	return json.Marshal(struct {
		plain
		Mean, Width finite
	}{plain(a), finite(a.Mean), finite(a.Width)})
}

// MarshalJSON writes the policy's name, and null for an infinite privacy loss.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		plain
		EpsilonSpent finite
	}{plain(r), finite(r.EpsilonSpent)})
}

// LogValue groups the fields, for log/slog.
func (d Decision) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("ticket", d.Ticket),
		slog.Any("propensity", finite(d.Propensity).value()),
		slog.Uint64("arm", uint64(d.Arm)),
		slog.Uint64("phase", uint64(d.Phase)),
	)
}

// LogValue groups the fields, for log/slog.
func (a Arm) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Any("mean", finite(a.Mean).value()),
		slog.Any("width", finite(a.Width).value()),
		slog.Uint64("pulls", a.Pulls),
		slog.Bool("active", a.Active),
		slog.Float64("effective_pulls", a.EffectivePulls),
	)
}

// LogValue groups the fields, for log/slog.
func (r Report) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("policy", r.Policy.String()),
		slog.Uint64("phase", uint64(r.Phase)),
		slog.Uint64("arms_active", uint64(r.ArmsActive)),
		slog.Uint64("pending", uint64(r.Pending)),
		slog.Uint64("decisions", r.Decisions),
		slog.Uint64("answered", r.Answered),
		slog.Uint64("cancelled", r.Cancelled),
		slog.Uint64("expired", r.Expired),
		slog.Any("epsilon_spent", finite(r.EpsilonSpent).value()),
		slog.Float64("delta_spent", r.DeltaSpent),
		slog.Bool("is_private", r.IsPrivate),
		slog.Uint64("changes_detected", r.ChangesDetected),
		slog.Uint64("segments", uint64(r.Segments)),
		slog.Uint64("max_segments", uint64(r.MaxSegments)),
		slog.Uint64("failures", r.Failures),
		slog.Uint64("features", uint64(r.Features)),
		slog.Bool("model_per_arm", r.ModelPerArm),
		slog.Uint64("contributions", r.Contributions),
		slog.Uint64("contributions_lost", r.ContributionsLost),
		slog.Uint64("fleet_key_id", r.FleetKeyID),
	)
}
