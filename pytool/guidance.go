package pytool

import (
	"fmt"
	"strings"
	"time"
)

// Guidance returns instructions about the tool for the system prompt.
func (c Config) Guidance() string {
	return strings.ReplaceAll(guidance, "{timeout}", seconds(c.fill().Timeout))
}

const guidance = `## run_python
Runs Python in a sandbox, for calculations, data analysis, charts and files.
- Every call is a new, empty sandbox. Variables, imports and files of earlier calls are gone, so do all that belongs together in one script, and load the data again in each.
- Files of this chat are in the current directory, under their names. Open them with relative paths.
- What the script saves in the current directory comes back as generated_files, each with a file_link. Save charts with plt.savefig; a window that is shown is seen by nobody.
- Use print for what you want to read. The value of an expression on the last line is shown too.
- A script may run for {timeout} and then is stopped; what it printed and saved until then is kept.
- There is no internet access, and packages cannot be installed. numpy, pandas, scipy, matplotlib, scikit-learn, Pillow and openpyxl (for Excel files) are there.
- If a script fails, read stderr, correct the script, and run it again.`

// Reminder returns a text that asks the model to link the files of a call in its answer:
// other files are not attached. It is empty if there are none.
func Reminder(files []GeneratedFile) string {
	if len(files) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("The run made files. The user sees only those that your answer links, as [filename](file_link) with " +
		"the exact link (images as ![filename](file_link)):\n")
	for _, f := range files {
		fmt.Fprintf(&b, "- [%s](%s)\n", f.Filename, f.FileLink)
	}
	return b.String()
}

// seconds formats a duration in words.
func seconds(d time.Duration) string {
	switch {
	case d == time.Second:
		return "1 second"
	case d%time.Second == 0:
		return fmt.Sprintf("%d seconds", d/time.Second)
	}
	return d.String()
}
