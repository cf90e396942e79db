package fleet

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
)

// ReadKey reads a fleet key ([dpb.Config].FleetKey) from a file. The file has 32 secret random bytes, or 64 hexadecimal
// digits on one line, which may end as on Windows. ReadKey returns an error if other users can access the file.
func ReadKey(name string) (*[32]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	status, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if status.Mode()&0o077 != 0 {
		return nil, fmt.Errorf("%s: other users can access it: chmod 600", name)
	}
	text, err := io.ReadAll(io.LimitReader(file, 67))
	if err != nil {
		return nil, err
	}
	if len(text) != 32 {
		line, _ := strings.CutSuffix(string(text), "\n")
		text, err = hex.DecodeString(strings.TrimSuffix(line, "\r"))
	}
	if err != nil || len(text) != 32 {
		return nil, fmt.Errorf("%s: no fleet key: 32 bytes, or 64 hexadecimal digits", name)
	}
	return (*[32]byte)(text), nil
}
