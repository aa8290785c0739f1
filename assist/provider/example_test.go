package provider_test

import (
	"fmt"

	"github.com/airlock-run/airlock/assist/provider"
)

// A provider that hands out no files still brings small ones, in its output.
func ExampleUnframe() {
	output := "rows: 2\n" + provider.Frame("table.csv", []byte("a,b\n1,2\n"))
	files, rest := provider.Unframe(output, provider.MaxFrame)
	fmt.Printf("%s: %q\n%s", files[0].Name, files[0].Data, rest)
	// Output:
	// table.csv: "a,b\n1,2\n"
	// rows: 2
	// [file table.csv]
}

// What a person is told of an error is what it means, and what to do.
func ExampleHintOf() {
	err := fmt.Errorf("ask: %w", &provider.Error{Kind: provider.ContainerExpired, Provider: provider.OpenAI, Op: "run",
		Status: 400, Message: "Container is expired."})
	fmt.Println(err)
	fmt.Println(provider.HintOf(err))
	// Output:
	// ask: openai: run: Container is expired. (status 400)
	// The provider ended the session and deleted its files. Start a new one with the same files; outputs that were fetched are still here.
}
