package command

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/airlock-run/airlock/internal/config"
)

// secretFile follows the key of a secret in the flag that names a file with it.
const secretFile = "_file"

// AddOptions adds flags for the options of a scope. Package config checks their
// values, so that an error reads the same whatever the source of the value.
func AddOptions(flags *pflag.FlagSet, scope config.Scope) {
	for _, o := range config.Options() {
		if o.Scope != scope {
			continue
		}
		help := strings.ReplaceAll(o.Help, "`", "") // pflag takes what is between them for the name of the value
		if o.Default != "" && !o.Switch() {
			help += " (default " + o.Default + ")"
		}
		flags.Var(&optionFlag{option: o}, o.Flag(), help)
		if o.Switch() {
			flags.Lookup(o.Flag()).NoOptDefVal = "true"
		}
		if o.Secret {
			file := config.Option{Key: o.Key + secretFile, Value: "FILE"}
			flags.Var(&optionFlag{option: file}, file.Flag(), "file that holds the "+o.Key)
			flags.Lookup(file.Flag()).Annotations = under(o.Group)
		}
		flags.Lookup(o.Flag()).Annotations = under(o.Group)
	}
}

// groupAnnotation is the annotation of a flag that holds its heading.
const groupAnnotation = "airlock_group"

func under(group string) map[string][]string { return map[string][]string{groupAnnotation: {group}} }

// GroupHelp makes the help of a command and its subcommands list flags under the
// headings of the option table, after the command's own flags.
func GroupHelp(root *cobra.Command) {
	const flat = "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	cobra.AddTemplateFunc("groupedFlags", groupedFlags)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), flat, "{{groupedFlags .LocalFlags}}", 1))
}

func groupedFlags(flags *pflag.FlagSet) string {
	groups := []string{""}
	for _, o := range config.Options() {
		if !slices.Contains(groups, o.Group) {
			groups = append(groups, o.Group)
		}
	}
	var texts []string
	for _, group := range groups {
		some := pflag.NewFlagSet(group, pflag.ContinueOnError)
		flags.VisitAll(func(f *pflag.Flag) {
			if strings.Join(f.Annotations[groupAnnotation], "") == group {
				some.AddFlag(f)
			}
		})
		heading := cmp.Or(group, "Flags")
		if some.HasAvailableFlags() {
			texts = append(texts, heading+":\n"+strings.TrimRight(some.FlagUsages(), "\n"))
		}
	}
	return strings.Join(texts, "\n\n")
}

// optionFlag collects the values of a flag.
type optionFlag struct {
	option config.Option
	values []string
}

func (f *optionFlag) String() string { return "" }

func (f *optionFlag) Type() string {
	if f.option.Switch() {
		return "bool"
	}
	return f.option.Value
}

func (f *optionFlag) Set(value string) error {
	if !f.option.Many {
		f.values = nil
	}
	f.values = append(f.values, value)
	return nil
}

// givenFlags returns the values of the flags that were set, by key of the option, and
// the name of the settings file.
func givenFlags(flags *pflag.FlagSet) (given map[string][]string, file string) {
	given = map[string][]string{}
	flags.Visit(func(flag *pflag.Flag) {
		if option, ok := flag.Value.(*optionFlag); ok {
			given[option.option.Key] = option.values
		}
		if flag.Name == "config" {
			file = flag.Value.String()
		}
	})
	return given, file
}
