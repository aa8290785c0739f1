package xai_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/xai"
)

func Example() {
	client, err := xai.New(xai.Options{Key: "xai-...", URL: "http://127.0.0.1:1/v1"}) // URL: only for this example
	if err != nil {
		panic(err)
	}
	err = client.Check(context.Background(), "grok-5")
	fmt.Println(errors.Is(err, provider.Transient))
	// Output: true
}
