package reply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unseenCase is a reply and the files that a run without a person may write.
type unseenCase struct {
	name, text string
	want       [][2]string
}

const one = "export const a = 1;\n"

func file(path, content string) [][2]string { return [][2]string{{path, content}} }

var none = [][2]string{}

// unseen are forms beside the 48 variants. Where the want is none, a careless
// parser writes.
var unseen = []unseenCase{
	// Openers.
	{"full-width colon", "```ts：src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"empty lang, full-width colon", "```：src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"space before the info", "``` ts:src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"space before the colon's path and after", "```ts:  src/a.ts  \n" + one + "```\n", file("src/a.ts", one)},
	{"quoted path", "```ts:\"src/a.ts\"\n" + one + "```\n", file("src/a.ts", one)},
	{"path attribute in single quotes", "```ts file='src/a.ts'\n" + one + "```\n", file("src/a.ts", one)},
	{"filename attribute among others", "```ts {1,3-4} filename=\"src/a.ts\" showLineNumbers\n" + one + "```\n",
		file("src/a.ts", one)},
	{"pandoc attributes", "``` {.typescript file=src/a.ts}\n" + one + "```\n", file("src/a.ts", one)},
	{"pandoc attributes, quoted", "```{.rust file=\"src/main.rs\" #id}\nfn main() {}\n```\n",
		file("src/main.rs", "fn main() {}\n")},
	{"name attribute", "```ts name=src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"title that is no path", "```ts title=\"My component\"\n" + one + "```\n", none},
	{"two attributes that differ", "```ts file=src/a.ts path=src/b.ts\n" + one + "```\n", none},
	{"label in brackets", "```ts [src/a.ts]\n" + one + "```\n", file("src/a.ts", one)},
	{"label that is a tool", "```bash [npm]\nnpm i\n```\n", none},
	{"lang and path with options", "```ts src/a.ts showLineNumbers\n" + one + "```\n", file("src/a.ts", one)},
	{"gptme save", "```save src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"gptme append", "```append src/a.ts\n" + one + "```\n", none},
	{"new in parentheses", "```ts:src/a.ts (new)\n" + one + "```\n", file("src/a.ts", one)},
	{"route with parentheses", "```tsx:src/app/(auth)/[id]/page.tsx\n" + one + "```\n",
		file("src/app/(auth)/[id]/page.tsx", one)},
	{"bare route with brackets", "```src/app/[id]/page.tsx\n" + one + "```\n", file("src/app/[id]/page.tsx", one)},
	{"remix route", "```tsx:app/routes/users.$id.tsx\n" + one + "```\n", file("app/routes/users.$id.tsx", one)},
	{"dot slash", "```ts:./src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"dotfile", "```gitignore:.gitignore\nnode_modules\n```\n", file(".gitignore", "node_modules\n")},
	{"bare dotfile", "```.gitignore\nnode_modules\n```\n", file(".gitignore", "node_modules\n")},
	{"name without ending", "```dockerfile:Dockerfile\nFROM alpine\n```\n", file("Dockerfile", "FROM alpine\n")},
	{"name above its language", "**Dockerfile**\n```dockerfile\nFROM alpine\n```\n", file("Dockerfile", "FROM alpine\n")},
	{"go.mod above", "`go.mod`\n```\nmodule x\n```\n", file("go.mod", "module x\n")},
	{"language in capitals", "```TypeScript:src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"file as the language", "```file:src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"long run", "``````ts:src/a.ts\n" + one + "``````\n", file("src/a.ts", one)},
	{"longer closer", "```ts:src/a.ts\n" + one + "`````\n", file("src/a.ts", one)},
	{"tildes with backticks inside", "~~~md:README.md\n```ts\nx\n```\n~~~\n", file("README.md", "```ts\nx\n```\n")},
	{"no final line feed", "```ts:src/a.ts\n" + one + "```", file("src/a.ts", one)},
	{"lone carriage return is data", "```ts:src/a.ts\na\rb\n```\n", file("src/a.ts", "a\rb\n")},
	{"a body of one empty line", "```ts:src/a.ts\n\n```\n", file("src/a.ts", "\n")},
	{"three files", "```ts:a.ts\n1\n```\n\n```ts:b.ts\n2\n```\n\n```ts:c.ts\n3\n```\n",
		[][2]string{{"a.ts", "1\n"}, {"b.ts", "2\n"}, {"c.ts", "3\n"}}},
	{"base64", "```base64:logo.png\niVBO\nRw==\n```\n", file("logo.png", "\x89PNG")},
	{"base64 attribute", "```png file=logo.png encoding=base64\niVBORw==\n```\n", file("logo.png", "\x89PNG")},
	{"base64 that is none", "```base64:logo.png\nnot base64!\n```\n", none},

	// Info strings that only look like one with a path.
	{"language with a dot", "```asp.net\nx\n```\n", none},
	{"node.js", "```node.js\nx\n```\n", none},
	{"a version", "```python:3.11\nx\n```\n", none},
	{"a word after a colon", "```ts:hello\nx\n```\n", none},
	{"vitepress line numbers", "```ts:line-numbers {1}\nx\n```\n", none},
	{"dockerfile as language", "```dockerfile\nFROM alpine\n```\n", none},
	{"a URL", "```https://example.com/a.ts\nx\n```\n", none},
	{"dot and language", "```.ts\nx\n```\n", none},
	{"a command behind bash", "```bash npm run build\nx\n```\n", none},
	{"inline code at the line's beginning", "```ts:src/a.ts``` is a file\nx\n```\n", none},
	{"placeholder", "```language:path/to/file.ext\nx\n```\n", none},
	{"placeholder folder", "```ts:path/to/a.ts\nx\n```\n", none},
	{"placeholder in angles", "```ts:<path>\nx\n```\n", none},
	{"lines of a file", "```ts:src/a.ts#L10-L20\nx\n```\n", none},
	{"lines behind a colon", "```ts:src/a.ts:12-30\nx\n```\n", none},
	{"bare path with lines", "```src/a.ts:12-30\nx\n```\n", none},
	{"citation with a dash", "```12-15:src/a.ts\nx\n```\n", none},
	{"citation behind a language", "```ts:12:15:src/a.ts\nx\n```\n", none},
	{"citation after a space", "```ts 12:15:src/a.ts\nx\n```\n", none},
	{"lines in words", "```ts:src/a.ts (lines 10-20)\nx\n```\n", none},
	{"startline attribute", "```ts path=src/a.ts startline=10\nx\n```\n", none},
	{"two paths", "```ts src/a.ts src/b.ts\nx\n```\n", none},

	// Paths that lead out.
	{"absolute", "```ts:/etc/passwd\nx\n```\n", none},
	{"home", "```ts:~/.ssh/authorized_keys\nx\n```\n", none},
	{"drive, bare", "```C:\\proj\\a.ts\nx\n```\n", none},
	{"drive with slashes", "```ts:C:/proj/a.ts\nx\n```\n", none},
	{"drive in a comment", "```ts\n// filepath: c:\\xampp\\htdocs\\a.ts\nx\n```\n", none},
	{"slash and drive", "```ts\n// filepath: /d:/Programming Repos/a.ts\nx\n```\n", none},
	{"network", "```ts:\\\\server\\share\\a.ts\nx\n```\n", none},
	{"dots in the middle", "```ts:src/../../a.ts\nx\n```\n", none},
	{"dots with backslashes", "```ts:..\\..\\a.ts\nx\n```\n", none},
	{"dots above", "**../a.ts**\n```ts\nx\n```\n", none},
	{"attribute that leads out", "```ts file=\"../a.ts\"\nx\n```\n", none},
	{"bidi", "```ts:src/\u202ea.ts\nx\n```\n", none},
	{"zero width", "```ts:src/a\u200b.ts\nx\n```\n", none},
	{"sandbox URL", "```py:sandbox:/mnt/data/a.py\nx\n```\n", none},
	{"file URL", "```py file=file:///etc/x.py\nx\n```\n", none},

	// Names above.
	{"label in bold", "**File:** `src/a.ts`\n```ts\n" + one + "```\n", file("src/a.ts", one)},
	{"label inside the bold", "**File: src/a.ts**\n\n```ts\n" + one + "```\n", file("src/a.ts", one)},
	{"emoji", "### 📄 `src/a.ts`\n```ts\n" + one + "```\n", file("src/a.ts", one)},
	{"bullet with a colon", "- `src/a.ts`:\n\n```ts\n" + one + "```\n", file("src/a.ts", one)},
	{"number with a colon", "1. **src/a.ts**:\n   ```ts\n   " + one + "   ```\n", file("src/a.ts", one)},
	{"link", "[src/a.ts](src/a.ts)\n```ts\n" + one + "```\n", file("src/a.ts", one)},
	{"spaces in backticks", "**`src/my file.ts`**\n```ts\n" + one + "```\n", file("src/my file.ts", one)},
	{"escaped underscore", "**src/my\\_file.py**\n```python\nx = 1\n```\n", file("src/my_file.py", "x = 1\n")},
	{"dash and words", "**src/a.ts** - updated\n```ts\n" + one + "```\n", file("src/a.ts", one)},
	{"underline heading number", "## 3) src/a.ts\n```ts\n" + one + "```\n", file("src/a.ts", one)},
	{"aider", "src/a.ts\n```\n" + one + "```\n", file("src/a.ts", one)},
	{"info before the line above", "**src/b.ts**\n```ts:src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"two blank lines", "src/a.ts\n\n\n```ts\nx\n```\n", none},
	{"a sentence", "Now change `src/a.ts`:\n```ts\nx\n```\n", none},
	{"a list of files", "Changed:\n- src/a.ts\n- src/b.ts\n\n```ts\nx\n```\n", none},
	{"bare names in a row", "src/a.ts\nsrc/b.ts\n```ts\nx\n```\n", none},
	{"commands below a name", "### src/a.ts\n```bash\nnpm test\n```\n", none},
	{"output below a name", "**src/a.py**\n```output\n1\n```\n", none},
	{"text below a name", "**src/a.py**\n```text\nhello\n```\n", none},
	{"another language below a name", "**src/a.ts**\n```json\n{}\n```\n", none},
	{"before", "### src/a.ts (before)\n```ts\nx\n```\n", none},
	{"lines above", "`src/a.ts` (lines 3-9)\n```ts\nx\n```\n", none},
	{"language's name above", "**typescript**\n```ts\nx\n```\n", none},
	{"the name of the fence before", "**src/a.ts**\n```ts\n" + one + "```\n```ts\nmore\n```\n", file("src/a.ts", one)},
	{"script under its name", "**scripts/x.sh**\n```bash\nset -e\n```\n", file("scripts/x.sh", "set -e\n")},
	{".env under its name", "**.env**\n```bash\nA=1\n```\n", file(".env", "A=1\n")},
	{"ellipsis above", "**src/...**\n```ts\nx\n```\n", none},

	// Names inside.
	{"copilot, python", "```python\n# filepath: src/main.py\nx = 1\n```\n", file("src/main.py", "x = 1\n")},
	{"copilot, html", "```html\n<!-- filepath: public/i.html -->\n<p>\n```\n", file("public/i.html", "<p>\n")},
	{"copilot, css", "```css\n/* filepath: src/a.css */\na {}\n```\n", file("src/a.css", "a {}\n")},
	{"directive and info agree", "```ts:src/a.ts\n// filepath: src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"directive and info differ", "```ts:src/a.ts\n// filepath: src/b.ts\n" + one + "```\n", none},
	{"comment inside, other name above", "**src/b.ts**\n```ts\n// src/a.ts\n" + one + "```\n", none},
	{"comment inside is longer", "**a.ts**\n```ts\n// src/a.ts\n" + one + "```\n", file("src/a.ts", "// src/a.ts\n"+one)},
	{"after a shebang", "```bash\n#!/bin/sh\n# scripts/x.sh\necho\n```\n",
		file("scripts/x.sh", "#!/bin/sh\n# scripts/x.sh\necho\n")},
	{"after <?php", "```php\n<?php\n// src/A.php\nclass A {}\n```\n",
		file("src/A.php", "<?php\n// src/A.php\nclass A {}\n")},
	{"directive after <?php", "```php\n<?php\n// filepath: src/A.php\nclass A {}\n```\n",
		file("src/A.php", "<?php\nclass A {}\n")},
	{"a command's comment", "```bash\n# src/main.py\npython src/main.py\n```\n", none},
	{"a script's name over commands", "```bash\n# scripts/x.sh\nsh scripts/x.sh\n```\n", none},
	{"markdown heading", "```markdown\nx\n```\n\n```markdown\n# README.md\nx\n```\n", none},
	{"a word with a dot", "```ts\n// Deprecated.\nx\n```\n", none},
	{"a URL in a comment", "```ts\n// https://example.com/a.ts\nx\n```\n", none},
	{"include", "```c\n#include \"a.h\"\n```\n", none},
	{"comment with spaces", "```ts\n// see src/a.ts\nx\n```\n", none},
	{"excerpt of a file", "```ts\n// src/a.ts (excerpt)\nx\n```\n", none},

	{"a directive in words", "```ts\n// file: handles the login.ts\nx\n```\n", none},

	// Words that are no part of a path.
	{"comment in the info", "```ts // src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"two paths with a colon", "```ts:src/a.ts:src/b.ts\nx\n```\n", none},
	{"number inside the bold", "**1. src/a.ts**\n```ts\n" + one + "```\n", file("src/a.ts", one)},
	{"words inside the bold", "**Create src/a.ts**\n```ts\nx\n```\n", none},
	{"step inside the bold", "**Step 1: src/a.ts**\n```ts\nx\n```\n", none},
	{"a command in backticks above", "`node src/a.ts`\n```\nhello\n```\n", none},
	{"a command with folders above", "`bin/run src/a.ts`\n```\nhello\n```\n", none},
	{"a command behind sh", "```sh run tests/a.sh\nx\n```\n", none},
	{"a command behind bash and a colon", "```bash:npm run src/a.sh\nx\n```\n", none},
	{"an import behind a colon", "```python:os.path\nx\n```\n", none},
	{"bullet without a colon", "- src/a.ts\n```ts\nx\n```\n", none},
	{"evidence above a fence",
		"=== SUBMISSION ===\nassignment_id: A1\nsummary: s\nevidence:\n- `src/a.ts`:\n```ts\nx\n```\n=== END ===\n", none},
	{"a URL with an ending", "```ts\n// example.com/a\nx\n```\n", none},
	{"the old code", "Before:\n```ts:src/a.ts\nold\n```\nAfter:\n```ts:src/b.ts\n" + one + "```\n", file("src/b.ts", one)},
	{"byte order mark before all", "\ufeff```ts:src/a.ts\n" + one + "```\n", file("src/a.ts", one)},
	{"in an example tag", "<example>\n```ts:src/a.ts\nx\n```\n</example>\n", none},
	{"in another program's tag",
		"<write_to_file>\n<path>README.md</path>\n<content>\n```ts:src/a.ts\nx\n```\n</content>\n</write_to_file>\n", none},
	{"in an HTML comment", "<!--\n```ts:src/a.ts\nx\n```\n-->\n```ts:src/b.ts\n" + one + "```\n", file("src/b.ts", one)},
	{"lines like a diff's", "```ts:src/a.ts\n x\n-a\n+b\n```\n", none},
	{"a list in YAML", "```yaml:a.yml\n- a\n- b\n```\n", file("a.yml", "- a\n- b\n")},
	{"numbered lines", "```ts:src/a.ts\n 1 | a\n 2 | b\n 3 | c\n```\n", none},
	{"a glued closing and opening with two infos", "```ruby\n# path: app/a.rb\n```ruby\nclass A\nend\n```\n", none},

	// Nesting.
	{"bare fence in a README", "```markdown:README.md\n# T\n```\nnpm i\n```\nend\n```\n", none},
	{"two levels", "````markdown:README.md\n```markdown\n~~~\nx\n~~~\n```\n````\n",
		file("README.md", "```markdown\n~~~\nx\n~~~\n```\n")},
	{"two fences in a README of the same length", "```markdown:README.md\n```bash\na\n```\n\n```js\nb\n```\n```\n",
		file("README.md", "```bash\na\n```\n\n```js\nb\n```\n")},
	{"a path in a nested fence is content", "````markdown:docs/p.md\n```ts:src/a.ts\nx\n```\n````\n",
		file("docs/p.md", "```ts:src/a.ts\nx\n```\n")},
	{"missing closer, then a file", "```ts:src/a.ts\n1\n\nNow:\n```ts:src/b.ts\n2\n```\n", none},
	{"missing closer, then commands, then a file", "```ts:src/a.ts\n1\n```bash\nnpm i\n```\n\n```ts:src/b.ts\n2\n```\n",
		none},
	{"fence in a template literal", "```js:src/p.js\nconst p = `\n```json\n{}\n```\n`;\n```\n", none},
	{"bare fence in a template literal", "```js:src/p.js\nconst p = `\n```\n{}\n```\n`;\n```\n", none},
	{"fence in a docstring, indented", "```py:src/p.py\n\"\"\"\n    ```\n    x\n    ```\n\"\"\"\n```\n",
		file("src/p.py", "\"\"\"\n    ```\n    x\n    ```\n\"\"\"\n")},
	{"yaml block with a fence", "```yaml:k.yml\nd: |\n  ```\n  x\n  ```\ne: 1\n```\n", none},
	{"clean again after trouble", "```ts:src/a.ts\n1\n```ts:src/b.ts\n2\n```\n\n```ts:src/c.ts\n3\n```\n",
		file("src/c.ts", "3\n")},
	{"markdown that does not end", "```markdown:README.md\n# T\n\n```ts:src/a.ts\n1\n```\n", none},
	{"README swallowed the rest",
		"```markdown:README.md\n# T\n\n```ts:a.ts\n1\n```\n\n```ts:b.ts\n2\n```\n```\ntree\n```\n", none},
	{"path in a text fence", "```text\n```ts:src/a.ts\nx\n```\n```\n", none},
	{"path in a bare fence", "Use:\n```\n```ts:src/a.ts\nx\n```\n```\n", none},
	{"two files, then text on the closing line", "```ts:a.ts\n1\n``` and\n```ts:b.ts\n2\n```\n",
		[][2]string{{"b.ts", "2\n"}}},
	{"closer and heading on one line", "```ts:a.ts\n1\n```### src/b.ts\n```ts\n2\n```\n",
		[][2]string{{"a.ts", "1\n"}, {"src/b.ts", "2\n"}}},
	{"closer and block on one line",
		"```ts:a.ts\n1\n```=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\n=== END ===\n", file("a.ts", "1\n")},
	{"three in a row, glued", "```ts:a.ts\n1\n``````ts:b.ts\n2\n``````ts:c.ts\n3\n```\n",
		[][2]string{{"a.ts", "1\n"}, {"b.ts", "2\n"}, {"c.ts", "3\n"}}},
	{"anonymous fences in prose are harmless", "```ts:a.ts\n1\n```\n\nTree:\n```\na.ts\n```\n\n```ts:b.ts\n2\n```\n",
		[][2]string{{"a.ts", "1\n"}, {"b.ts", "2\n"}}},
	{"documents in a row", "```txt:a.txt\n1\n```\n```txt:b.txt\n2\n```\n```txt:c.txt\n3\n```\n",
		[][2]string{{"a.txt", "1\n"}, {"b.txt", "2\n"}, {"c.txt", "3\n"}}},
	{"bare fences in a README", "```markdown:README.md\n# T\n\nRun:\n\n```\nnpm i\n```\n\nThen use it.\n```\n",
		file("README.md", "# T\n\nRun:\n\n```\nnpm i\n```\n\nThen use it.\n")},
	{"bare fences of which the last is the document's last line",
		"```markdown:README.md\n# T\n\n```\nnpm i\n```\n```\n\nDone.\n", file("README.md", "# T\n\n```\nnpm i\n```\n")},
	{"a fence whose last line looks like a path",
		"```markdown:README.md\n# T\n\n```\nsrc/\nmain.py\n```\n\nIt is short.\n```\n\nThat is all.\n",
		file("README.md", "# T\n\n```\nsrc/\nmain.py\n```\n\nIt is short.\n")},
	{"a path above a fence in a README",
		"```markdown:README.md\n# T\n\nmain.py\n```\nprint(1)\n```\n\n## Use\n\n```bash\npython main.py\n```\n```\n",
		file("README.md", "# T\n\nmain.py\n```\nprint(1)\n```\n\n## Use\n\n```bash\npython main.py\n```\n")},
	{"bare fences in two documents",
		"```md:a.md\n# A\n\n```\na\n```\n\nend\n```\n\nAnd:\n\n```md:b.md\n# B\n\n```\nb\n```\n```\n",
		[][2]string{{"a.md", "# A\n\n```\na\n```\n\nend\n"}, {"b.md", "# B\n\n```\nb\n```\n"}}},
	{"bare fences in a README, then a file, then commands",
		"```md:a.md\n# A\n\n```\na\n```\n\nend\n```\n\n```py:main.py\nprint(1)\n```\n\nRun:\n\n```\npython main.py\n```\n",
		[][2]string{{"a.md", "# A\n\n```\na\n```\n\nend\n"}, {"main.py", "print(1)\n"}}},
	{"a fence of tildes in a README", "```md:a.md\n# A\n\n~~~\n```\n~~~\n\nend\n```\n",
		file("a.md", "# A\n\n~~~\n```\n~~~\n\nend\n")},
	{"a longer fence in a README", "```md:a.md\n# A\n\n````\n```js\nx\n```\n````\n\nend\n```\n",
		file("a.md", "# A\n\n````\n```js\nx\n```\n````\n\nend\n")},
	{"fences in a list of a README", "```md:a.md\n1. One:\n   ```\n   a\n   ```\n2. ```\n   b\n   ```\n\nend\n```\n",
		file("a.md", "1. One:\n   ```\n   a\n   ```\n2. ```\n   b\n   ```\n\nend\n")},
	{"a README in a list",
		"1. The README:\n\n   ```md:a.md\n   # A\n\n   ```\n   a\n   ```\n\n   end\n   ```\n\n2. Done.\n",
		file("a.md", "# A\n\n```\na\n```\n\nend\n")},
	{"edits shown in a README",
		"```md:a.md\n# A\n\n```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\n\nend\n```\n",
		file("a.md", "# A\n\n```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\n\nend\n")},
	{"a README whose last fence is open", "```md:a.md\n# A\n\n```\nnpm i\n```\n", none},
	{"a README with an odd fence",
		"```md:a.md\n# A\n\n```\nnpm i\n\ntext\n\n```\na\n```\n\nend\n```\n\nmain.py\n```\nx\n```\n", none},
	{"README, then commands", "```markdown:README.md\n# T\n```\n\nRun:\n\n```\nnpm i\n```\n", file("README.md", "# T\n")},

	// Lists, quotes, indentation.
	{"fence on the bullet's line", "- ```ts:src/a.ts\n  " + one + "  ```\n", file("src/a.ts", one)},
	{"deep list", "- a\n  - b\n\n    ```ts:src/a.ts\n    if (x) {\n      y\n    }\n    ```\n",
		file("src/a.ts", "if (x) {\n  y\n}\n")},
	{"list of two digits", "10. Do:\n\n    ```ts:src/a.ts\n    " + one + "    ```\n", file("src/a.ts", one)},
	{"list, closer at the margin", "1. Do:\n   ```ts:src/a.ts\n   " + one + "```\n", file("src/a.ts", one)},
	{"list, body at the margin", "1. Do:\n   ```py:a.py\nif x:\n  y\n   ```\n", none},
	{"list, flat body at the margin", "1. Do:\n   ```ts:src/a.ts\n" + one + "   ```\n", file("src/a.ts", one)},
	{"list with tabs", "-\tDo:\n\n\t```make:Makefile\n\tall:\n\t\techo\n\t```\n", file("Makefile", "all:\n\techo\n")},
	{"indented code is an example", "Like so:\n\n    ```ts:src/a.ts\n    x\n    ```\n", none},
	{"quoted", "> ```ts:src/a.ts\n> x\n> ```\n", none},

	// Thoughts.
	{"file in a thought", "<think>\n```ts:src/a.ts\ndraft\n```\n</think>\n\n```ts:src/b.ts\n2\n```\n",
		file("src/b.ts", "2\n")},
	{"thought in one line", "<think>hm</think>\n```ts:src/b.ts\n2\n```\n", file("src/b.ts", "2\n")},
	{"text behind the thought", "<thinking>\nhm\n</thinking>```ts:src/b.ts\n2\n```\n", file("src/b.ts", "2\n")},
	{"thought that does not end", "<think>\nhm\n```ts:src/a.ts\n1\n```\n", none},
	{"thought that did not begin", "```ts:src/a.ts\ndraft\n```\nok</think>\n```ts:src/a.ts\n1\n```\n",
		file("src/a.ts", "1\n")},
	{"thought that did not begin, open fence", "```ts:src/a.ts\ndraft\n</think>\n\n```ts:src/a.ts\n1\n```\n", none},
	{"the end of a thought in backticks", "```ts:src/a.ts\n1\n```\nNever write `</think>`.\n", file("src/a.ts", "1\n")},
	{"think in code", "```ts:src/a.ts\nconst s = '<think>';\n```\n", file("src/a.ts", "const s = '<think>';\n")},

	// Wrappers.
	{"wrapped in md", "```md\n**src/a.ts**\n```ts\n" + one + "```\n```\n", file("src/a.ts", one)},
	{"wrapped in four", "````markdown\n```ts:src/a.ts\n" + one + "```\n````\n", file("src/a.ts", one)},
	{"wrapped after a thought", "<think>x</think>\n```markdown\nHere:\n```ts:src/a.ts\n" + one + "```\n```\n",
		file("src/a.ts", one)},
	{"wrapped two files", "```markdown\n```ts:a.ts\n1\n```\ntext\n```ts:b.ts\n2\n```\n```\n",
		[][2]string{{"a.ts", "1\n"}, {"b.ts", "2\n"}}},
	{"a document with an example", "```markdown\n# Guide\n\n```ts:src/a.ts\nx\n```\n```\n", none},
	{"wrapper that is an example", "```markdown\n```ts:src/a.ts\nx\n```\n```\n\nThat is the format.\n", none},
	{"markdown example further down", "The format:\n```markdown\n```ts:src/a.ts\nx\n```\n```\n", none},
	{"wrapper that does not end", "```markdown\nHere:\n```ts:src/a.ts\nx\n```\n", none},
	{"a file named in a comment", "```markdown\n<!-- docs/a.md -->\n```ts:src/a.ts\nx\n```\n```\n",
		file("docs/a.md", "<!-- docs/a.md -->\n```ts:src/a.ts\nx\n```\n")},

	// What is left out.
	{"rest of the file", "```ts:src/a.ts\nx\n// rest of the file...\n```\n", none},
	{"rest without dots", "```ts:src/a.ts\nx\n// rest of the code remains the same\n```\n", none},
	{"python elision", "```py:a.py\n# ... existing imports ...\nx = 1\n```\n", none},
	{"html elision", "```html:a.html\n<!-- ... -->\n<p>\n```\n", none},
	{"jsx elision", "```tsx:a.tsx\n{/* ... existing props ... */}\n```\n", none},
	{"cursor edit", "```ts:a.ts\n{{ edit_1 }}\nx\n```\n", none},
	{"unicode dots", "```ts:a.ts\n// … existing code …\n```\n", none},
	{"dots alone", "```ts:a.ts\nfoo();\n...\nbar();\n```\n", none},
	{"comment behind code", "```ts:a.ts\nfoo() { /* ... existing code ... */ }\n```\n", none},
	{"css elision", "```css:a.css\n/* existing styles */\n```\n", none},
	{"sql elision", "```sql:a.sql\n-- ... rest unchanged\n```\n", none},
	{"dots in braces", "```ts:a.ts\nfunction f() { ... }\n```\n", none},
	{"dots in JSON", "```json:package.json\n{ \"a\": 1, ... }\n```\n", none},
	{"dots in a string of JSON", "```json:package.json\n{ \"a\": \"...\" }\n```\n",
		file("package.json", "{ \"a\": \"...\" }\n")},
	{"code with dots in a README", "````md:README.md\n```js\n// ...\n```\n````\n",
		file("README.md", "```js\n// ...\n```\n")},
	{"a README that leaves out", "```md:README.md\n# T\n<!-- rest of the file unchanged -->\n```\n", none},
	{"capital letters", "```ts:a.ts\n// ... Rest Of Code ...\n```\n", none},
	{"python's own dots", "```py:a.py\ndef f():\n    ...\n```\n", file("a.py", "def f():\n    ...\n")},
	{"spread", "```ts:a.ts\nconst b = { ...rest, ...existing };\n```\n",
		file("a.ts", "const b = { ...rest, ...existing };\n")},
	{"a comment about a rest", "```ts:a.ts\n// handle the rest of the input\nx();\n```\n",
		file("a.ts", "// handle the rest of the input\nx();\n")},
	{"existing users", "```ts:a.ts\n// existing users keep their plan\nx();\n```\n",
		file("a.ts", "// existing users keep their plan\nx();\n")},

	// What is no file.
	{"diff of no file", "```diff\n-a\n+b\n```\n", none},
	{"yaml without a path", "```yaml\na: 1\n```\n", none},
	{"merge conflict", "```ts:src/a.ts\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> feature\n```\n", none},
	{"half an edit", "```ts:src/a.ts\n<<<<<<< SEARCH\na\n```\n", none},
	{"edit without a divider", "```ts:src/a.ts\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n```\n", none},
	{"a diff is no whole file", "```ts:src/a.ts\n@@ -1 +1 @@\n-a\n```\n", [][2]string{{"edit src/a.ts", ""}}},
	{"fence in a block", "=== SUBMISSION ===\nassignment_id: A1\nsummary: s\n\n```ts:src/a.ts\n" + one +
		"```\nevidence: src/a.ts\n=== END SUBMISSION ===\n", file("src/a.ts", one)},

	// Tags.
	{"file tag", "<file path=\"src/a.ts\">\n" + one + "</file>\n", file("src/a.ts", one)},
	{"bolt", "<boltArtifact id=\"x\">\n<boltAction type=\"file\" filePath=\"src/a.ts\">" + one +
		"</boltAction>\n<boltAction type=\"shell\">npm i</boltAction>\n</boltArtifact>\n", file("src/a.ts", one)},
	{"plandex", "- src/a.go:\n\n<PlandexBlock lang=\"go\" path=\"src/a.go\">\npackage a\n</PlandexBlock>\n",
		file("src/a.go", "package a\n")},
	{"fence in a tag", "<file path=\"src/a.ts\">\n```ts\n" + one + "```\n</file>\n", file("src/a.ts", one)},
	{"tag in a tag", "<file path=\"a.xml\">\n<file>\n</file>\n</file>\n", file("a.xml", "<file>\n</file>\n")},
	{"closing tag twice", "<file path=\"a.xml\">\n</file>\nx\n</file>\n", none},
	{"tag that does not end", "<file path=\"src/a.ts\">\n" + one, none},
	{"tag that leads out", "<file path=\"/etc/x.ts\">\n" + one + "</file>\n", none},
	{"elided tag", "<file path=\"src/a.ts\">\n// ... existing code ...\n</file>\n", none},
}

func TestUnseen(t *testing.T) {
	for _, c := range unseen {
		t.Run(c.name, func(t *testing.T) {
			r := Parse([]byte(c.text))
			if diff := cmp.Diff(c.want, writes(r)); diff != "" {
				b, _ := r.JSON()
				t.Errorf("%s\n%s", diff, b)
			}
		})
	}
}

// TestAroundAReply: text around a file does not change the written files, and neither do
// the reply's line endings.
func TestAroundAReply(t *testing.T) {
	cases := unseen
	for _, v := range variants(t) {
		cases = append(cases, unseenCase{v.ID, v.Text, v.Expect})
	}
	for _, c := range cases {
		text := c.text
		if strings.Contains(text, "\r") {
			continue
		}
		if got := writes(Parse([]byte(strings.ReplaceAll(text, "\n", "\r\n")))); !cmp.Equal(c.want, got) {
			t.Errorf("%s, with CRLF:\n%s", c.name, cmp.Diff(c.want, got))
		}
		first := Parse([]byte(text))
		if len(first.Warnings) > 0 || strings.HasPrefix(text, "```m") || strings.HasPrefix(text, "````m") ||
			strings.HasPrefix(text, "<think") || strings.HasPrefix(text, "\ufeff") {
			continue // open at the end, or looks different at the beginning of a reply
		}
		if got := writes(Parse([]byte("Sure, here it is.\n\n" + text))); !cmp.Equal(c.want, got) {
			t.Errorf("%s, behind a greeting:\n%s", c.name, cmp.Diff(c.want, got))
		}
		if strings.HasSuffix(text, "\n") {
			if got := writes(Parse([]byte(text + "\nDoes that help?\n"))); !cmp.Equal(c.want, got) {
				t.Errorf("%s, before a farewell:\n%s", c.name, cmp.Diff(c.want, got))
			}
		}
		if got := writes(Parse([]byte("```text\n" + text + "```\n"))); strings.Count(text, "`") == 0 && len(got) > 0 {
			t.Errorf("%s, in a fence, is written", c.name)
		}
		longer := strings.Repeat("`", 9)
		for _, info := range []string{"", "text", "markdown"} {
			if got := writes(Parse([]byte("For example:\n\n" + longer + info + "\n" + text + longer + "\n"))); len(got) > 0 &&
				strings.HasSuffix(text, "\n") {
				t.Errorf("%s, in a long fence of %q, is written: %v", c.name, info, got)
			}
		}
		if got := writes(Parse([]byte("<think>\n" + text + "\n</think>\nok\n"))); len(got) > 0 &&
			!strings.Contains(text, "think") {
			t.Errorf("%s, in a thought, is written: %v", c.name, got)
		}
		if got := writes(Parse([]byte(text[:len(text)-1]))); len(got) > len(c.want) {
			t.Errorf("%s, cut by a byte, writes more: %v", c.name, got)
		}
	}
}

// TestCutReplies: a reply that is cut anywhere writes only files that the whole reply
// writes, with the content at their closing fence.
func TestCutReplies(t *testing.T) {
	for _, v := range variants(t) {
		for n := range len(v.Text) {
			for _, w := range writes(Parse([]byte(v.Text[:n]))) {
				ok := false
				for _, e := range v.Expect {
					ok = ok || e == w
				}
				if !ok && v.ID != "45 same path twice" && !strings.HasPrefix(v.ID, "24") && !strings.HasPrefix(v.ID, "37") {
					t.Errorf("%s cut at %d writes %q", v.ID, n, w)
				}
			}
		}
	}
}

// TestDoubtfulFilesAreProposed: if the fences do not balance, nothing is written, and every
// possible file is proposed.
func TestDoubtfulFilesAreProposed(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       [][2]string
	}{
		{"README without its end", "```markdown:README.md\n# T\n\n```ts:src/a.ts\n1\n```\n\n```ts:src/b.ts\n2\n```\n",
			[][2]string{{"README.md", "# T\n\n```ts:src/a.ts\n1\n"}, {"src/b.ts", "2\n"}}},
		{"edit without its end", "```ts:src/a.ts\n<<<<<<< SEARCH\na\n```\n\n```ts:src/b.ts\n2\n```\n",
			[][2]string{{"src/b.ts", "2\n"}}},
		{"thought without its end", "<think>\nhm\n```ts:src/b.ts\n2\n```\n", [][2]string{{"src/b.ts", "2\n"}}},
		{"tag without its end", "<file path=\"a.ts\">\n1\n\n```ts:src/b.ts\n2\n```\n", [][2]string{{"src/b.ts", "2\n"}}},
		{"only mentioned", "Change `src/a.ts`:\n```ts\n1\n```\n", file("src/a.ts", "1\n")},
		{"a word", "```ts:hello\n1\n```\n", file("hello", "1\n")},
		{"a quotation mark in the path", "```html:src/a\"b.html\n1\n```\n", file(`src/a"b.html`, "1\n")},
		{"a question mark in the path behind a language", "```ts src/a?b.ts\n1\n```\n", file("src/a?b.ts", "1\n")},
		{"an asterisk in a path alone", "```src/*.ts\n1\n```\n", file("src/*.ts", "1\n")},
		{"a placeholder in the path", "```ts:src/<name>.ts\n1\n```\n", file("src/<name>.ts", "1\n")},
		{"missing closer", "```ts:src/a.ts\n1\n```ts:src/b.ts\n2\n```\n",
			[][2]string{{"src/a.ts", "1\n"}, {"src/b.ts", "2\n"}}},
	} {
		r := Parse([]byte(c.text))
		got := [][2]string{}
		for _, it := range r.Proposals() {
			got = append(got, [2]string{it.Path, string(it.Content)})
			if it.OK() || it.Reason == "" {
				t.Errorf("%s: %s is %s", c.name, it.Path, it.Verdict)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// TestReadings: an ambiguous end comes with each way to read it.
func TestReadings(t *testing.T) {
	r := Parse([]byte("```js:src/p.js\nconst p = `\n```json\n{}\n```\n`;\n```\n"))
	var got []string
	for _, reading := range r.Items[0].Readings {
		got = append(got, string(reading.Content))
	}
	want := []string{"const p = `\n```json\n{}\n```\n`;\n", "const p = `\n```json\n{}\n", "const p = `\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestReadingsOfIndentedDocument reads a document in a list whose lines begin
// before its fence does and whose end is not sure, with and without a comment
// that names it.
func TestReadingsOfIndentedDocument(t *testing.T) {
	for _, directive := range []string{"", "<!-- filepath: README.md -->\n"} {
		r := Parse([]byte("```ts path=src/a.ts startline=10\n```\n1. ```markdown:README.md\n" + directive +
			"first\n    <content>\n```\n```ts:src/a.ts\n```\n"))
		it := r.Items[1]
		if it.Path != "README.md" || it.Verdict != VerdictAmbiguous || len(it.Readings) < 2 {
			t.Fatalf("%s is %s with %d readings", it.Path, it.Verdict, len(it.Readings))
		}
		for _, reading := range it.Readings {
			if !strings.HasPrefix(string(reading.Content), "first\n") {
				t.Errorf("%s: %q", reading.Description, reading.Content)
			}
		}
	}
}
