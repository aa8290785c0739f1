package cli

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
)

// secretFlags are the secrets of a run: --secret adds one, --secret-host and --secret-header are of the last one. A
// value is never on the command line, which every user of a machine can read.
type secretFlags struct {
	list  []client.Secret
	files []string // in which their values are; empty: in the variable with the name
	fault error    // of a --secret: the flag's own error would repeat the text
}

func (s *secretFlags) add(flags *pflag.FlagSet) {
	flags.Func("secret", "`NAME` of a variable of yours, or NAME=@FILE, whose value goes into requests of the program to "+
		"the hosts that follow, and that it does not see; may be repeated, needs network_inspect", s.addNamed)
	flags.Func("secret-host", "`HOST` of the secret before it, as api.github.com or example.com:8443, which --allow-net has "+
		"to allow too; may be repeated", func(host string) error {
		last, err := s.last()
		if err == nil {
			last.Hosts = append(last.Hosts, host)
		}
		return err
	})
	flags.Func("secret-header", "`HEADER` to set in each request to the hosts of the secret before it, as "+
		"'Authorization: Bearer {}'; without it the service puts the value where the program sends the variable's",
		func(header string) error {
			last, err := s.last()
			if err == nil {
				last.Header = header
			}
			return err
		})
}

// addNamed adds the secret of a --secret.
func (s *secretFlags) addNamed(text string) error {
	name, from, given := strings.Cut(text, "=")
	file, isFile := strings.CutPrefix(from, "@")
	if given && (!isFile || file == "") {
		s.fault = command.Fail(command.ExitUsage, "export the variable and give --secret NAME, or give --secret NAME=@FILE",
			"the value of a secret cannot be on the command line, where others see it")
	}
	s.list, s.files = append(s.list, client.Secret{Name: name}), append(s.files, file)
	return nil
}

func (s *secretFlags) last() (*client.Secret, error) {
	if len(s.list) == 0 {
		return nil, errors.New("it belongs to the --secret before it, and there is none")
	}
	return &s.list[len(s.list)-1], nil
}

// read reads the values.
func (s *secretFlags) read(a *command.App) ([]client.Secret, error) {
	if s.fault != nil {
		return nil, s.fault
	}
	for i := range s.list {
		secret := &s.list[i]
		if file := s.files[i]; file != "" {
			text, err := a.Read(file)
			if err != nil {
				return nil, err
			}
			secret.Value = strings.TrimRight(string(text), "\r\n")
		} else {
			value, set := a.Input.Lookup(secret.Name)
			if !set {
				return nil, command.Fail(command.ExitUsage, "export it, or give --secret "+secret.Name+"=@FILE",
					"there is no variable %s here", secret.Name)
			}
			secret.Value = value
		}
		if len(secret.Hosts) == 0 {
			return nil, command.Fail(command.ExitUsage, "name it with --secret-host after --secret",
				"the secret %s has no host", secret.Name)
		}
		a.Redact.Learn(secret.Value)
	}
	return s.list, nil
}
