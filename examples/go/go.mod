module examples

go 1.24

require github.com/libdpb/libdpb/bindings/go v0.0.0

// The module of this checkout.
replace github.com/libdpb/libdpb/bindings/go => ../../bindings/go
