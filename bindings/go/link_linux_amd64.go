//go:build !dpb_system

package dpb

import _ "github.com/libdpb/libdpb/bindings/go/internal/lib/linux_amd64"
