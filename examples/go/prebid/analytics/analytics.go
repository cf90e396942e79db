// Package analytics replaces github.com/prebid/prebid-server/v3/analytics here. It has the parts that the module
// uses, with the same names and types.
package analytics

// Module receives events. In Prebid Server it also receives auctions, cookies and others.
type Module interface {
	LogNotificationEventObject(*NotificationEvent)
	Shutdown()
}

// NotificationEvent is a request of GET /event for an account that has events enabled.
type NotificationEvent struct {
	Request *EventRequest
}

type EventRequest struct {
	Type        EventType
	BidID       string
	AccountID   string
	Bidder      string
	Integration string
}

type EventType string

const (
	Win  EventType = "win"
	Imp  EventType = "imp"
	Vast EventType = "vast"
)
