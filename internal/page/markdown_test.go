package page

import (
	"testing"
	"time"
)

// Only so many documents are rendered at once: another one waits, and then is rendered.
func TestRenderingIsBounded(t *testing.T) {
	for range cap(rendering) {
		rendering <- struct{}{}
	}
	rendered := make(chan bool, 1)
	go func() {
		_, ok := RenderMarkdown("*a*")
		rendered <- ok
	}()
	select {
	case <-rendered:
		t.Fatal("it did not wait")
	case <-time.After(100 * time.Millisecond):
	}
	for range cap(rendering) {
		<-rendering
	}
	if !<-rendered {
		t.Error("it was not rendered")
	}
}
