// Package analytics is what the module here sees of Prebid Server's package of that name, with its names and
// types: github.com/prebid/prebid-server/v3/analytics.
package analytics

// Module hears what happens. The real one hears of auctions, cookies and so on too.
type Module interface {
	LogNotificationEventObject(*NotificationEvent)
	Shutdown()
}

// NotificationEvent is a request of GET /event, of an account that has events enabled.
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
