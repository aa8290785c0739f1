package reply_test

import (
	"fmt"

	"github.com/airlock-run/airlock/assist/reply"
)

func ExampleParse() {
	text := "Here is the login:\n\n" +
		"```typescript:src/api/auth.ts\nexport const login = () => true;\n```\n\n" +
		"It is tested like this:\n\n```bash\nnpm test\n```\n\n" +
		"=== PROGRESS UPDATE ===\nassignment_id: A1234\npercent: ~75\nnext:\n- Add the password reset\n" +
		"=== END PROGRESS UPDATE ===\n"
	r := reply.Parse([]byte(text))
	for _, item := range r.Files() {
		fmt.Printf("%s %s: %q\n", item.Kind, item.Path, item.Content)
	}
	for _, item := range r.Blocks() {
		fmt.Println(item.Block.Type, item.Block.ID(), item.Block.Percent.Value, item.Block.List(reply.KeyNext))
	}
	// Output:
	// file src/api/auth.ts: "export const login = () => true;\n"
	// PROGRESS UPDATE A1234 75 [Add the password reset]
}

func ExampleParser() {
	p := reply.NewParser(reply.Options{Events: func(e reply.Event) {
		fmt.Println(e.Type, e.Item.Path, e.Item.Verdict)
	}})
	for _, token := range []string{"``", "`ts:src/", "a.ts\nimport x;\n// ... exist", "ing code ...\n`", "``\n"} {
		if _, err := p.Write([]byte(token)); err != nil {
			fmt.Println(err)
		}
	}
	if err := p.Close(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(p.Reply().Items[0].Reason)
	// Output:
	// opened src/a.ts truncated
	// item src/a.ts partial
	// it leaves out a part of the file
}

func ExampleApply() {
	r := reply.Parse([]byte("```go:main.go\n<<<<<<< SEARCH\n\tprintln(1)\n=======\n\tprintln(2)\n>>>>>>> REPLACE\n```\n"))
	result, err := reply.Apply(r.Items[0], []byte("func main() {\r\n\tprintln(1)\r\n}\r\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q at line %d, %s\n", result.Content, result.Hunks[0].Line, result.Fuzz)
	// Output:
	// "func main() {\r\n\tprintln(2)\r\n}\r\n" at line 2, exact
}
