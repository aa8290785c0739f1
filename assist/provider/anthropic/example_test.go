package anthropic_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
)

func Example() {
	// URL: only for this example
	client, err := anthropic.New(anthropic.Options{Key: "sk-ant-...", URL: "http://127.0.0.1:1"})
	if err != nil {
		panic(err)
	}
	_, err = client.Run(context.Background(), provider.RunRequest{
		Model:        "claude-sonnet-5",
		Instructions: provider.Instruct(client.Name(), "claude-sonnet-5", provider.ToolAuto, provider.HintsAuto),
		Input:        []provider.Turn{{Role: provider.RoleUser, Text: "Plot sin(x) and save it as sin.png."}},
	}, nil)
	fmt.Println(errors.Is(err, provider.Transient))
	// Output: true
}
