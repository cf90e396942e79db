// Package hookstage is what a module sees of Prebid Server's package of that name, with its names and types:
// github.com/prebid/prebid-server/v3/hooks/hookstage. It stands in for it here, because a module is compiled
// into the server, with all that the server needs.
package hookstage

import (
	"context"
	"encoding/json"

	"examples/prebid/openrtb_ext"
)

// ProcessedAuctionRequest is called when a request is read and checked, and before any bidder has it.
type ProcessedAuctionRequest interface {
	HandleProcessedAuctionHook(
		context.Context,
		ModuleInvocationContext,
		ProcessedAuctionRequestPayload,
	) (HookResult[ProcessedAuctionRequestPayload], error)
}

type ProcessedAuctionRequestPayload struct {
	Request *openrtb_ext.RequestWrapper
}

type ModuleInvocationContext struct {
	AccountID     string
	AccountConfig json.RawMessage // the account's own configuration of this module
	Endpoint      string
}

// HookResult is what a hook wants to be done.
type HookResult[T any] struct {
	Reject    bool
	NbrCode   int
	Message   string
	ChangeSet ChangeSet[T]
	Errors    []string
	Warnings  []string
}

// ChangeSet has mutations, which the server applies if the hook has returned in time.
type ChangeSet[T any] struct{ mutations []Mutation[T] }

func (c *ChangeSet[T]) AddMutation(f MutationFunc[T], kind MutationType, key ...string) *ChangeSet[T] {
	c.mutations = append(c.mutations, Mutation[T]{f, kind, key})
	return c
}

func (c *ChangeSet[T]) Mutations() []Mutation[T] { return c.mutations }

type MutationFunc[T any] func(T) (T, error)

type MutationType int

const (
	MutationAdd MutationType = iota
	MutationUpdate
	MutationDelete
)

type Mutation[T any] struct {
	apply MutationFunc[T]
	kind  MutationType
	key   []string
}

func (m Mutation[T]) Apply(payload T) (T, error) { return m.apply(payload) }
func (m Mutation[T]) Type() MutationType         { return m.kind }
func (m Mutation[T]) Key() []string              { return m.key }
