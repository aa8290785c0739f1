package openai_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/openai"
)

func Example() {
	client, err := openai.New(openai.Options{Key: "sk-...", URL: "http://127.0.0.1:1/v1"}) // URL: only for this example
	if err != nil {
		panic(err)
	}
	_, err = client.Run(context.Background(), provider.RunRequest{
		Model:        "gpt-5.1",
		Instructions: provider.Instruct(client.Name(), "gpt-5.1", provider.ToolAuto, provider.HintsAuto),
		Input:        []provider.Turn{{Role: provider.RoleUser, Text: "Plot sin(x) and save it as sin.png."}},
	}, nil)
	fmt.Println(errors.Is(err, provider.Transient))
	// Output: true
}
