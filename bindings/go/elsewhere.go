package dpb

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hex is a 64-bit number that is text of 16 hexadecimal digits in JSON: JavaScript would round the number.
type Hex uint64

func (x Hex) String() string { return fmt.Sprintf("%016x", uint64(x)) }

// MarshalText writes the digits.
func (x Hex) MarshalText() ([]byte, error) { return []byte(x.String()), nil }

// UnmarshalText reads exactly 16 digits.
func (x *Hex) UnmarshalText(text []byte) error {
	number, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return fmt.Errorf("%w: %q is not 16 hexadecimal digits", ErrInvalidRequest, text)
	}
	*x = Hex(number)
	return nil
}

// Table is a published table of probabilities, by which programs decide without a bandit: at the edge, in a browser, in
// any language. [Bandit.Publish] makes one, and JSON carries it. Do not change a table that you decide by.
type Table struct {
	Name     string              `json:"name"`
	Version  Hex                 `json:"version"`         // for [Bandit.Record]
	Salt     string              `json:"salt"`            // 128 fresh random bits
	Until    int64               `json:"until,omitempty"` // its planned end, in milliseconds since 1970: a hint for caches
	Arms     []string            `json:"arms"`            // the name of each arm
	Contexts map[string][]uint64 `json:"contexts"`        // for each context the weight of each arm; they sum to 2^32
	Policy   string              `json:"policy,omitempty"`
	Private  bool                `json:"is_private"`
}

// Elsewhere is a decision by a [Table].
type Elsewhere struct {
	Version    Hex     // of the table
	ID         Hex     // names the decision
	Propensity float64 // the probability of the arm
	Arm        uint32  // from 0
	Name       string  // of the arm
}

const (
	tableFormat = 1
	tableBytes  = 1 << 20
	allWeights  = 1 << 32
)

// MarshalJSON writes the table with the number of its format.
func (t Table) MarshalJSON() ([]byte, error) {
	type plain Table
	return json.Marshal(struct {
		Format int `json:"dpb_table"`
		plain
	}{tableFormat, plain(t)})
}

// UnmarshalJSON reads a table. It returns ErrCorrupt for anything else, and for more than 1 MiB, and ErrNewerVersion for
// another format. Then the table stays as it was: go on deciding by it.
func (t *Table) UnmarshalJSON(text []byte) error {
	type plain Table
	var read struct {
		Format int `json:"dpb_table"`
		plain
	}
	if len(text) > tableBytes {
		return fmt.Errorf("%w: a table of %d bytes, and the most is %d", ErrCorrupt, len(text), tableBytes)
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if read.Format != tableFormat {
		return fmt.Errorf("%w: dpb_table is %d, and this library reads %d", ErrNewerVersion, read.Format, tableFormat)
	}
	fresh := Table(read.plain)
	if err := fresh.check(); err != nil {
		return err
	}
	*t = fresh
	return nil
}

func (t *Table) check() error {
	refuse := func(what string, given ...any) error {
		return fmt.Errorf("%w: "+what, append([]any{ErrCorrupt}, given...)...)
	}
	if t.Salt == "" || strings.Contains(t.Salt, "\n") {
		return refuse("the table's salt is %q", t.Salt)
	}
	if _, ok := t.Contexts[""]; !ok {
		return refuse("the table has no default context")
	}
	for context, weights := range t.Contexts {
		if len(weights) != len(t.Arms) {
			return refuse("context %q has %d weights, and there are %d arms", context, len(weights), len(t.Arms))
		}
		var sum uint64
		for _, weight := range weights {
			sum += min(weight, allWeights+1) // so that the sum cannot overflow
		}
		if sum != allWeights || strings.Contains(context, "\n") {
			return refuse("the weights of context %q sum to %d, not to 2^32", context, sum)
		}
	}
	return nil
}

// Decide chooses an arm for a unit: a visitor's id, who then has the same arm in every program until the next version of
// the table, or a request's id. A context that the table does not have is the default, "". Decide needs no clock and has
// no state. It returns ErrInvalidRequest for a unit that is empty or has a newline.
func (t *Table) Decide(unit, context string) (Elsewhere, error) {
	if unit == "" || strings.Contains(unit, "\n") {
		return Elsewhere{}, fmt.Errorf("%w: the unit must not be empty, and have no newline: %q", ErrInvalidRequest, unit)
	}
	weights, ok := t.Contexts[context]
	if !ok {
		context, weights = "", t.Contexts[""]
	}
	hash := sha256.Sum256([]byte(t.Salt + "\n" + context + "\n" + unit))
	left := uint64(binary.BigEndian.Uint32(hash[:]))
	for arm, weight := range weights {
		if left < weight {
			id := Hex(binary.BigEndian.Uint64(hash[:]))
			return Elsewhere{t.Version, id, float64(weight) / allWeights, uint32(arm), t.Arms[arm]}, nil
		}
		left -= weight
	}
	return Elsewhere{}, fmt.Errorf("%w: the weights do not sum to 2^32", ErrCorrupt)
}

// Publication says what a [Table] is published for.
type Publication struct {
	Name     string
	Arms     []string           // the name of each arm, by its number; nil: the numbers
	Contexts map[string]Request // what to decide for in each context; "", the default, is the zero Request if it is not here
	Until    time.Time          // the planned end of the version; zero: none is published
	Grace    uint64             // for how many ticks more the version before it may be recorded
}

// Publish begins a version of this bandit's table and returns it, for json.Marshal. Publish one every few minutes: a
// visitor keeps an arm so long, at most for a [Config.RewardWindow]. Its errors are those of [Bandit.BeginTable] and
// [Bandit.Weights], and ErrInvalidConfig for another number of names than arms.
func (b *Bandit) Publish(p Publication) (*Table, error) {
	table := &Table{Name: p.Name, Arms: p.Arms, Contexts: map[string][]uint64{}}
	report, err := b.Report()
	if err != nil {
		return nil, err
	}
	table.Policy, table.Private = report.Policy.String(), report.IsPrivate
	contexts := map[string]Request{"": {}}
	for context, request := range p.Contexts {
		contexts[context] = request
	}
	for context, request := range contexts {
		if strings.Contains(context, "\n") {
			return nil, fmt.Errorf("%w: context %q has a newline", ErrInvalidConfig, context)
		}
		if table.Contexts[context], err = b.Weights(request); err != nil {
			return nil, fmt.Errorf("context %q: %w", context, err)
		}
	}
	arms := len(table.Contexts[""])
	for arm := len(table.Arms); p.Arms == nil && arm < arms; arm++ {
		table.Arms = append(table.Arms, strconv.Itoa(arm))
	}
	if len(table.Arms) != arms {
		return nil, fmt.Errorf("%w: %d names for %d arms", ErrInvalidConfig, len(table.Arms), arms)
	}
	if !p.Until.IsZero() {
		table.Until = p.Until.UnixMilli()
	}
	var salt [16]byte
	rand.Read(salt[:])
	table.Salt = hex.EncodeToString(salt[:])
	version, err := b.BeginTable(p.Grace)
	if err != nil {
		return nil, err
	}
	table.Version = Hex(version)
	return table, nil
}
