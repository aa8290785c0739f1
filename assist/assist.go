// Package assist is the door of the assistant: what the program that starts it needs. Its commands
// ask models and change folders; in a service it has pages and routes too. It reaches the service
// that runs code through a client.
//
// Programs use the libraries below: reply, workspace, assignment and provider.
package assist

import (
	"context"

	"github.com/airlock-run/airlock/assist/internal/commands"
	"github.com/airlock-run/airlock/internal/command"
)

type (
	// Assistant is the assistant in one invocation of the command line.
	Assistant = commands.Assistant
	// Service is how its commands reach the service.
	Service = commands.Service
	// Connection is a client of a service.
	Connection = commands.Connection
	// Engine is a service in this process.
	Engine = commands.Engine
	// Serving is the assistant in a service.
	Serving = commands.Serving
)

// New returns the assistant of an invocation.
func New(app *command.App, service Service) *Assistant { return commands.New(app, service) }

// Data returns what the assistant keeps in a data directory: its database, what checks one, and
// the names of files and folders.
func Data() (database string, check func(ctx context.Context, path string) error, others []string) {
	return commands.Data()
}
