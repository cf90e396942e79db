module github.com/libdpb/libdpb/bindings/go

go 1.24
