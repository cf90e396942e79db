package dpb

// #include <dpb.h>
import "C"

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// These are the reasons why a call fails. A call that fails has changed nothing, unless its comment says otherwise.
var (
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("dpb: closed")
	// ErrNull: a required pointer is NULL. Go programs do not see this error.
	ErrNull = errors.New("dpb: null pointer")
	// ErrInvalidConfig: a configuration or argument is out of range. The message names the field and the value.
	ErrInvalidConfig = errors.New("dpb: invalid configuration")
	// ErrInvalidRequest: the request names an arm that does not exist or is retired, leaves no arm, or has a wrong number
	// of slots or features.
	ErrInvalidRequest = errors.New("dpb: invalid request")
	// ErrInvalidReward: a reward is not finite, or outside the declared range, or (with RewardBits = 0) neither RewardMin
	// nor RewardMax. The ticket stays open.
	ErrInvalidReward = errors.New("dpb: invalid reward")
	// ErrUnknownTicket: this bandit did not issue the ticket.
	ErrUnknownTicket = errors.New("dpb: unknown ticket")
	// ErrDuplicate: the ticket has a reward or is cancelled already, or the shuffled batch was submitted already.
	ErrDuplicate = errors.New("dpb: duplicate")
	// ErrExpired: the ticket's reward window is over, or a full pending table dropped it. Also: the phase of a shuffled
	// batch is over, or a message came while a complete batch waits.
	ErrExpired = errors.New("dpb: expired")
	// ErrNotReady: there is no result yet; or a restored bandit with ExpectedUsers waits for [Bandit.Stored], or one that
	// was resumed from a state at rest for [Bandit.Claimed].
	ErrNotReady = errors.New("dpb: no result yet, or the bandit waits for Stored or Claimed")
	// ErrHalted: it has ended: a stopping rule that has halted, a full counter, a suspended handle, or a node that has left.
	ErrHalted = errors.New("dpb: halted")
	// ErrBufferTooSmall: a buffer is too small. Go programs do not see this error, because buffers grow.
	ErrBufferTooSmall = errors.New("dpb: buffer too small")
	// ErrCorrupt: the bytes are truncated or altered.
	ErrCorrupt = errors.New("dpb: corrupt data")
	// ErrNewerVersion: a newer library made the structure or snapshot.
	ErrNewerVersion = errors.New("dpb: made by a newer library")
	// ErrEntropy: the operating system gave no randomness, so the library cannot draw noise.
	ErrEntropy = errors.New("dpb: no randomness from the operating system")
	// ErrUnsupported: the policy or configuration does not support the call.
	ErrUnsupported = errors.New("dpb: unsupported")
	// ErrPoisoned: an earlier call failed half-way, or the process was forked after the object was made. The object stays
	// unusable, because further use could break the privacy accounting.
	ErrPoisoned = errors.New("dpb: poisoned by an internal failure")
	// ErrNoMemory: there is too little memory. Nothing has changed.
	ErrNoMemory = errors.New("dpb: no memory")
	// ErrFull: the bandit has MaxSegments segments, and the request names a new one.
	ErrFull = errors.New("dpb: full")
	// ErrOverBudget: the Budget has too little left for this bandit, or all BudgetPeriods have begun. Nothing was charged.
	ErrOverBudget = errors.New("dpb: over budget")
)

// statuses maps each status to its error.
var statuses = [...]error{
	C.DPB_OK:               nil,
	C.DPB_NULL:             ErrNull,
	C.DPB_INVALID_CONFIG:   ErrInvalidConfig,
	C.DPB_INVALID_REWARD:   ErrInvalidReward,
	C.DPB_UNKNOWN_TICKET:   ErrUnknownTicket,
	C.DPB_DUPLICATE:        ErrDuplicate,
	C.DPB_EXPIRED:          ErrExpired,
	C.DPB_NOT_READY:        ErrNotReady,
	C.DPB_HALTED:           ErrHalted,
	C.DPB_BUFFER_TOO_SMALL: ErrBufferTooSmall,
	C.DPB_CORRUPT:          ErrCorrupt,
	C.DPB_NEWER_VERSION:    ErrNewerVersion,
	C.DPB_ENTROPY:          ErrEntropy,
	C.DPB_UNSUPPORTED:      ErrUnsupported,
	C.DPB_POISONED:         ErrPoisoned,
	C.DPB_NO_MEMORY:        ErrNoMemory,
	C.DPB_FULL:             ErrFull,
	C.DPB_OVER_BUDGET:      ErrOverBudget,
	C.DPB_INVALID_REQUEST:  ErrInvalidRequest,
}

// check returns the error of a status. For a status of a newer library it returns an error with the number.
func check(status C.dpb_status) error {
	if status == C.DPB_OK {
		return nil
	}
	if status > 0 && int(status) < len(statuses) && statuses[status] != nil {
		return statuses[status]
	}
	return fmt.Errorf("dpb: unknown status %d", int32(status))
}

// statusName is for the tests, which cannot use cgo.
func statusName(status int32) string { return C.GoString(C.dpb_status_name(C.dpb_status(status))) }

// explain returns the error of a status with C's message, which names the field and the value, in the names of Go.
func explain(status C.dpb_status, failure *C.dpb_error) error {
	if status == C.DPB_OK {
		return nil
	}
	return fmt.Errorf("%w: %s", check(status), inGo(C.GoString(&failure.message[0])))
}

// explainArguments is explain for a function whose arguments have the names of C.
func explainArguments(status C.dpb_status, failure *C.dpb_error) error {
	return fmt.Errorf("%w: %s", check(status), C.GoString(&failure.message[0]))
}

// inGo replaces the names of C's fields in a message by Go's.
func inGo(message string) string {
	message = methods.Replace(values.Replace(message))
	return names.ReplaceAllStringFunc(message, func(name string) string {
		if field, is := strings.CutPrefix(name, "config."); is && fields()[field] != "" {
			return "Config." + fields()[field]
		}
		if fields()[name] != "" {
			return fields()[name]
		}
		return name
	})
}

// names matches what may be a field's name: a field of a configuration, words joined by _, and the first word.
var names = regexp.MustCompile(`config\.\w+|\b[a-z]+(?:_[a-z]+)+\b|^[a-z]+\b`)

// methods replaces the functions of C that messages name.
var methods = strings.NewReplacer("dpb_stored", "Bandit.Stored", "dpb_claimed", "Bandit.Claimed")

// values replaces the values of C that are others in Go, and the bits of C's flags by the fields that they are in Go.
var values = func() *strings.Replacer {
	pairs := []string{"NULL", "nil"}
	for name, field := range renamed {
		if strings.HasPrefix(name, "DPB_") {
			pairs = append(pairs, "flags must have "+name, field+" must be true", "flags must not have "+name, field+" must be false",
				"no "+name, "false", "got "+name, "got true", name, field)
		}
	}
	for value, inGo := range revalued {
		pairs = append(pairs, value, inGo)
	}
	return strings.NewReplacer(pairs...)
}()

// fields has Go's name of each field of C that a message may name.
var fields = sync.OnceValue(func() map[string]string {
	all := maps.Clone(lengths)
	maps.Copy(all, renamed)
	for _, name := range []string{"Interval", "Delay", "Tick", "Settle"} {
		all[strings.ToLower(name)+"_ms"] = name + " in milliseconds"
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[Config](), reflect.TypeFor[Request](), reflect.TypeFor[CounterConfig](),
		reflect.TypeFor[StoppingConfig](), reflect.TypeFor[ShuffleParams](), reflect.TypeFor[NodeOptions](),
	} {
		for i := range of.NumField() {
			var name strings.Builder
			for place, letter := range of.Field(i).Name {
				if place > 0 && unicode.IsUpper(letter) {
					name.WriteByte('_')
				}
				name.WriteRune(unicode.ToLower(letter))
			}
			all[name.String()] = of.Field(i).Name
		}
	}
	return all
})
