package exchange

import (
	"fmt"
	"io"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
)

// Upload checks an upload to a provider, and sets what its caller has left out: its size if the body
// knows it, and the nearest lifetime that the provider has.
func Upload(p provider.Provider, u provider.Upload) (provider.Upload, error) {
	invalid := func(format string, args ...any) (provider.Upload, error) {
		return u, &provider.Error{Kind: provider.Invalid, Provider: p.Name(), Op: "upload " + u.Name,
			Message: fmt.Sprintf(format, args...)}
	}
	if u.Body == nil {
		return invalid("the Upload has no Body")
	}
	ttl, err := Lifetime(p, "upload "+u.Name, u.TTL, time.Second)
	if err != nil {
		return u, err
	}
	if caps := p.Caps(); ttl > 0 && caps.TTLMax > 0 {
		ttl = min(max(ttl, caps.TTLMin), caps.TTLMax)
	}
	u.TTL = ttl
	switch known := sizeOf(u.Body); {
	case u.Size <= 0:
		u.Size = known
	case known >= 0 && known != u.Size:
		return invalid("its Size is %d bytes, and its Body has %d", u.Size, known)
	}
	return u, nil
}

// Lifetime returns a lifetime in the units that a provider counts in, the last of which counts whole.
func Lifetime(p provider.Provider, op string, ttl, unit time.Duration) (time.Duration, error) {
	if ttl < 0 {
		return 0, &provider.Error{Kind: provider.Invalid, Provider: p.Name(), Op: op,
			Message: fmt.Sprintf("the lifetime %v is negative; 0 is the default of the provider", ttl)}
	}
	if rest := ttl % unit; rest > 0 {
		ttl += unit - rest
	}
	return ttl, nil
}

// sizeOf returns how many bytes a reader has left, or -1 if it does not know.
func sizeOf(body io.Reader) int64 {
	if inMemory, ok := body.(interface{ Len() int }); ok {
		return int64(inMemory.Len())
	}
	seeker, ok := body.(io.Seeker)
	if !ok {
		return -1
	}
	here, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return -1
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = seeker.Seek(here, io.SeekStart)
	}
	if err != nil {
		return -1
	}
	return end - here
}
