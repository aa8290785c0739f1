package local_test

import (
	"fmt"

	"github.com/airlock-run/airlock/assist/provider/local"
)

func ExampleNew() {
	_, err := local.New(local.Options{URL: "http://localhost:11434/v1"})
	fmt.Println(err)
	// Output: local: a runner is needed
}
