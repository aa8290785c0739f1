package gemini_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/gemini"
)

func Example() {
	ctx := context.Background()
	client, err := gemini.New(gemini.Options{Key: "AIza...", URL: "http://127.0.0.1:1"}) // URL: only for this example
	if err != nil {
		panic(err)
	}
	err = client.Check(ctx, "gemini-3-pro")
	fmt.Println(errors.Is(err, provider.Transient))
	// Output: true
}
