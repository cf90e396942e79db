// Package hookstage replaces github.com/prebid/prebid-server/v3/hooks/hookstage here, because the server, with which
// modules are compiled, has many dependencies. It has the parts that the module uses, with the same names and types.
package hookstage

import (
	"context"
	"encoding/json"

	"examples/prebid/openrtb_ext"
)

// ProcessedAuctionRequest is called after the server has read and checked a request, and before any bidder receives it.
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

// HookResult holds the changes that a hook requests.
type HookResult[T any] struct {
	Reject    bool
	NbrCode   int
	Message   string
	ChangeSet ChangeSet[T]
	Errors    []string
	Warnings  []string
}

// ChangeSet holds mutations, which the server applies if the hook returns in time.
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
