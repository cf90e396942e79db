module examples

go 1.24

require (
	github.com/libdpb/libdpb/bindings/go v0.0.0
	github.com/libdpb/libdpb/bindings/go/fleet v0.0.0
	github.com/redis/go-redis/v9 v9.17.3
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
)

// The modules of this checkout.
replace (
	github.com/libdpb/libdpb/bindings/go => ../../bindings/go
	github.com/libdpb/libdpb/bindings/go/fleet => ../../bindings/go/fleet
)
