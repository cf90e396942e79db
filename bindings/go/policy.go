package dpb

// #include <dpb.h>
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// Policy is the number of a policy, in [Config.Base] and [Report.Policy]. In JSON, on the command line ([flag.TextVar])
// and in other text it is the policy's name. The library may have policies without a constant here.
type Policy uint32

// policies reads the library's table once.
var policies = sync.OnceValue(func() []Policy {
	var all []Policy
	for {
		name := C.dpb_policy_at(C.size_t(len(all)))
		if name == nil {
			return all
		}
		all = append(all, Policy(C.dpb_policy_number(name)))
	}
})

// Policies returns all policies of the linked library.
func Policies() []Policy { return append([]Policy(nil), policies()...) }

// String returns a name such as "dp-se", or "policy 99" if the library has no policy with this number.
func (p Policy) String() string {
	for i, known := range policies() {
		if known == p {
			return C.GoString(C.dpb_policy_at(C.size_t(i)))
		}
	}
	return fmt.Sprintf("policy %d", uint32(p))
}

// ParsePolicy returns the policy with a name such as "dp-se", or ErrInvalidConfig.
func ParsePolicy(name string) (Policy, error) {
	for _, p := range policies() {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("%w: no policy is called %q", ErrInvalidConfig, name)
}

// MarshalText writes the name.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the name. It returns ErrInvalidConfig if no policy has it.
func (p *Policy) UnmarshalText(name []byte) error {
	found, err := ParsePolicy(string(name))
	if err == nil {
		*p = found
	}
	return err
}

// NewPolicy makes a bandit with any policy of the library, for services that read the policy from a configuration file.
func NewPolicy(policy Policy, config Config) (*Bandit, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	given, done, err := config.c(&pinner)
	if err != nil {
		return nil, err
	}
	defer done()
	name := append([]byte(policy.String()), 0)
	var c *C.dpb_bandit
	var failure C.dpb_error
	status := C.dpb_new_policy((*C.char)(unsafe.Pointer(&name[0])), given, &c, &failure)
	return ownBandit(c, status, &failure, config.bytes())
}
