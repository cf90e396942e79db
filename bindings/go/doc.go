// Package dpb binds libdpb: differentially private multi-armed bandits.
//
//	config := dpb.NewConfig(10, 1.0) // 10 arms, epsilon = 1
//	config.Horizon = 1_000_000
//	bandit, err := dpb.NewSE(config)
//	...
//	defer bandit.Close()
//	decision, err := bandit.Select()
//	err = bandit.Update(decision.Ticket, reward)
//
// # Linking
//
// The package needs cgo and a C compiler, no Rust: releases have libdpb.a for linux/amd64 and linux/arm64
// inside. In a checkout `make go` puts it there. With the tag dpb_system it is an installed library that
// is linked, found by pkg-config:
//
//	go build -tags dpb_system
//
// # Use
//
// All methods may be called from any number of goroutines, Close included: a call that comes after
// Close returns [ErrClosed]. Select, Update, Cancel and the batch calls allocate nothing, nor do Push,
// Add and Read; what appends to a slice allocates when its capacity does not suffice. Errors are the
// package's Err values, some wrapped with a message: compare with [errors.Is].
//
// A [Request] says more of a decision: several slots, the segment, the user, the eligible arms. Besides [Bandit] there are
// stopping rules ([Stopping]), private running sums ([Counter]), the roles of the shuffle model ([ShufflePlan], [ShuffleEncode], [Shuffler], [Bandit.SubmitShuffled]) and the
// encoder of the local model ([LDPEncode]).
//
// A call costs about 30 ns over the C function: the crossing, and a read lock against Close. The
// batch calls pay it once.
package dpb
