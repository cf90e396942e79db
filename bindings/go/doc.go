// Package dpb provides multi-armed bandits with differential privacy. It calls libdpb, a library in Rust, through cgo.
//
// A bandit chooses one of several arms (ads, recommendations, page variants) for each request, and learns from rewards
// (clicks, purchases, ratings) which arm is best. Epsilon bounds what decisions and publications reveal about rewards. For
// any two values of one reward, the probability of anything the adversary sees differs by a factor of at most e^epsilon.
//
//	config := dpb.NewConfig(10, 1.0) // 10 arms, epsilon = 1
//	config.RewardWindow = 1000       // no click within 1000 decisions: reward 0
//	bandit, err := dpb.New(config)   // the recommended policy
//	...
//	defer bandit.Close()
//	decision, err := bandit.Select()
//	err = bandit.Update(decision.Ticket, 1) // a click
//
// # Linking
//
// The package needs cgo and a C compiler, but no Rust. Releases contain libdpb.a for linux/amd64 and linux/arm64. In a
// checkout, run `make go` first. To link an installed library, which pkg-config finds, set the tag dpb_system:
//
//	go build -tags dpb_system
//
// # Use
//
// Any number of goroutines may call all methods at once, Close included. A call after Close returns [ErrClosed]. Errors
// are the package's Err values, some wrapped with a message: compare them with [errors.Is]. [Bandit.CheckRequest] says why
// a request is refused.
//
// Select, Update, Cancel, Push, Add and Read allocate nothing, and neither do the batch calls except as [Bandit.SelectMany]
// says. A method that appends to a slice allocates only if the capacity is too small.
//
// A [Request] gives more information for a decision: the number of slots, the segment, the user, the eligible arms, the
// features. Besides [Bandit] the package has:
//
//   - privacy budgets that bandits share: [Budget]
//   - private running sums: [Counter]
//   - stopping rules: [Stopping]
//   - the roles of the shuffle model: [ShufflePlan], [ShuffleEncode], [Shuffler], [Bandit.SubmitShuffled]
//   - the encoder of the local model: [LDPEncode]
//
// A call takes about 30 ns longer than the C function, for cgo and a read lock against Close. A batch call takes this
// time once.
package dpb
