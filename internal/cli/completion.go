package cli

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"
)

//go:embed completion.bash
var bashHelpers string

// WriteBashCompletion writes the completions of Bash, which Cobra generates, and the helpers that
// they take from another package.
func WriteBashCompletion(root *cobra.Command, to io.Writer, descriptions bool) error {
	if _, err := io.WriteString(to, bashHelpers); err != nil {
		return err
	}
	return root.GenBashCompletionV2(to, descriptions)
}

// addCompletion adds the command that prints completions.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil || bash.Name() != "bash" {
		return
	}
	bash.Long = "Prints the completions of Bash. `source <(airlock completion bash)` loads them into this shell,\n" +
		"and the same line in ~/.bashrc into later ones. The package bash-completion is of use, and not needed."
	bash.RunE = func(cmd *cobra.Command, _ []string) error {
		without, err := cmd.Flags().GetBool("no-descriptions")
		if err != nil {
			return err
		}
		return WriteBashCompletion(cmd.Root(), cmd.OutOrStdout(), !without)
	}
}
