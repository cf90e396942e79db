module github.com/libdpb/libdpb/bindings/go/openfeature

go 1.24

require github.com/libdpb/libdpb/bindings/go v0.0.0

require (
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/open-feature/go-sdk v1.15.1
	go.uber.org/mock v0.5.2 // indirect
)

// The module of this checkout. A release requires its own version instead.
replace github.com/libdpb/libdpb/bindings/go => ../
