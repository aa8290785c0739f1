package librechat

import (
	_ "embed"
	"regexp"
	"strconv"
	"strings"
)

// The drivers run inside the sandbox; what they do is said in them.
var (
	//go:embed channel.py
	channelDriver string
	//go:embed driver.py
	pythonDriver string
	//go:embed shell.py
	shellDriver string
	//go:embed state.py
	stateDriver string
)

// program is what a driver is told on its stdin: the text that the client sent
// stays whole, whatever is in it.
type program struct {
	Source string   `json:"source"`
	Tools  []tool   `json:"tools"`
	Args   []string `json:"args"`
}

var importLine = regexp.MustCompile(`(?m)^[ \t]*(?:import|from)[ \t]+\w.*$`)

// driverCode is the Python program that is run: a driver in one line, and below
// it, as a text that does nothing, what the program imports. The sandbox looks
// at that to choose an interpreter that has it loaded.
func driverCode(driver, source string) string {
	var b strings.Builder
	b.WriteString("exec(compile(")
	b.WriteString(strconv.QuoteToASCII(channelDriver + "\n" + driver))
	b.WriteString(`, "<tools>", "exec"), {"__name__": "<tools>", "MAIN": globals()})` + "\n\"\"\"\n")
	for _, line := range importLine.FindAllString(source, 200) {
		b.WriteString(strings.NewReplacer(`\`, "", `"`, "", "\r", "").Replace(line) + "\n")
	}
	for _, word := range usual.FindAllString(source, 20) {
		b.WriteString(usualImports[word] + "\n")
	}
	b.WriteString("\"\"\"\n")
	return b.String()
}

// usual are the names that the driver imports for a program that does not.
var (
	usual        = regexp.MustCompile(`\b(?:pd|np|plt)\.`)
	usualImports = map[string]string{"pd.": "import pandas", "np.": "import numpy", "plt.": "import matplotlib"}
)
