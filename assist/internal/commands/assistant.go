// Package commands has the commands of the assistant, and the assistant in a service. They
// reach the service, which runs code and keeps files, through its client.
package commands

import (
	"context"
	"net/http"
	"sync"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
)

// Assistant is the assistant in one invocation of the command line.
type Assistant struct {
	*command.App
	service   Service
	web       func() *http.Client // for the addresses of providers, and public ones
	modelKeys *modelKeys          // entered in the page of a service; nil: none
}

// Service is how commands of the assistant reach the service.
type Service struct {
	// Connect returns a client of the service that runs code for a command.
	Connect func(context.Context) (*Connection, error)
	// Reserve returns a function that borrows the disk space reserved in a directory.
	Reserve func(dir string) func() (giveBack func())
}

// Connection is a client of a service. The caller closes it.
type Connection struct {
	Client    *client.Client
	Temporary bool // the service is in this process, and ends with the connection
	Close     func()
}

// New returns the assistant of an invocation.
func New(app *command.App, service Service) *Assistant {
	a := &Assistant{App: app, service: service}
	a.web = sync.OnceValue(func() *http.Client {
		web := a.WebClient(a.providerAddresses()...)
		a.AtEnd = append(a.AtEnd, web.CloseIdleConnections)
		return web
	})
	return a
}

// Commands returns the commands of the assistant, in the order of the help.
func (a *Assistant) Commands() []*cobra.Command {
	return []*cobra.Command{a.askCommand(), a.chat(), a.provider(), a.apply(), a.undo(), a.redo(), a.history(), a.outbox(),
		a.workspace()}
}

// Data returns what the assistant keeps in a data directory: its database, what checks one, and
// the names of files and folders.
func Data() (database string, check func(ctx context.Context, path string) error, others []string) {
	return state.Name, state.Check, []string{"contents", "outputs", "mirrors", modelKeysFile, modelKeysSecret}
}
