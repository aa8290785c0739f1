package live

import (
	"context"
	"encoding/json"
	"iter"
	"regexp"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// NetworkState is what the programs of a session may contact, and what may be asked for.
type NetworkState struct {
	Allow, Deny []string // what they may contact
	OfKey       bool     // their key has it; else the session asked for it
	May         []string // what the caller may ask for
	MayOfKey    bool     // the caller's key allows that; else the service allows it to all
}

// Network returns what the programs of a session may contact.
func (s *Service) Network(ctx context.Context, caller engine.Caller, id engine.ID) (NetworkState, error) {
	at, err := s.find(ctx, caller, id)
	if err != nil {
		return NetworkState{}, err
	}
	var state NetworkState
	if state.May, state.MayOfKey, err = s.engine.Allowance(caller); err != nil {
		return NetworkState{}, err
	}
	of := at.settings.Network
	if of != nil {
		state.Allow, state.Deny = of.Allow, of.Deny
	}
	if key := engine.Granted(at.caller); key != nil && (of == nil || of.Allow == nil && len(of.Deny) > 0) {
		state.Allow, state.OfKey = key, true
	}
	return state, nil
}

// SetNetwork changes what the programs of a session may contact, from now on: its interpreters end, and new ones start
// with the next cells. Variables, processes and a stored memory are lost, files are there.
func (s *Service) SetNetwork(ctx context.Context, caller engine.Caller, id engine.ID, network *engine.Network) error {
	err := s.setNetwork(ctx, caller, id, network)
	allowed := ""
	if network != nil {
		allowed = strings.Join(network.Allow, ",")
	}
	s.engine.RecordAct(ctx, caller, engine.ActNetwork, "session "+id.String(), allowed, err)
	return err
}

func (s *Service) setNetwork(ctx context.Context, caller engine.Caller, id engine.ID, network *engine.Network) error {
	at, err := s.findToRun(ctx, caller, id)
	if err != nil {
		return err
	}
	if at.id != at.record.ID {
		return missing(id.String())
	}
	at.mu.Lock()
	secrets := at.secrets
	at.mu.Unlock()
	if err := s.engine.CheckNetwork(ctx, caller, network, secrets); err != nil {
		return err
	}
	known := at.settings
	known.Network = network
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	if err := s.engine.SetLive(ctx, caller, id, string(text)); err != nil {
		return err
	}
	const why = "What its programs may contact was changed."
	for _, one := range s.within(id) {
		one.quit(why)
		one.await(ctx)
		s.forget(one.id)
	}
	if keepsMemory(at.record) {
		if err := s.engine.ForgetMemory(ctx, at.record); err != nil {
			return err
		}
	}
	record, err := s.engine.GetSession(ctx, caller, id)
	if err != nil {
		return err
	}
	_, err = s.add(&session{id: id, caller: caller, record: record, setup: at.setup, secrets: secrets, why: why})
	return err
}

// mostPackages bounds the packages of one Install.
const mostPackages = 50

// Names of packages, perhaps with extras and versions. They are arguments of pip or npm, and no options, addresses or
// paths.
var (
	pipName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?` +
		`((===|==|~=|!=|<=|>=|<|>)[A-Za-z0-9.*+!_-]+(,(==|~=|!=|<=|>=|<|>)[A-Za-z0-9.*+!_-]+)*)?$`)
	npmName = regexp.MustCompile(`^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*(@[A-Za-z0-9^~<>=*.+-]+)?$`)
)

// installer returns the command that installs packages for a language.
func installer(language string, names []string) (command string, err error) {
	name, begin := pipName, "python3 -m pip install --no-input --progress-bar off --upgrade --"
	switch language {
	case "python":
	case "js", "ts":
		name, begin = npmName, "npm install --no-audit --no-fund --no-progress --"
	default:
		return "", engine.Invalid("names", "cannot be installed: packages are for Python, JavaScript and TypeScript")
	}
	if len(names) == 0 || len(names) > mostPackages {
		return "", engine.Invalid("names", "must be 1 to %d names of packages", mostPackages)
	}
	for _, one := range names {
		if len(one) > 200 || !name.MatchString(one) {
			return "", engine.Invalid("names", "has %.60q, which is no name of a package", one)
		}
		begin += " '" + one + "'" // no name has a quote
	}
	return begin, nil
}

// Install installs packages into a session, and yields what happens as Watch does. Its interpreters need no network for
// that: the installer is a program of its own, in the same workspace, that may contact the package registries while it
// runs, if the caller may ask for them. What is installed lasts as long as the workspace. The end of ctx does not end
// it.
func (s *Service) Install(
	ctx context.Context, caller engine.Caller, id engine.ID, names []string,
) (iter.Seq[Event], error) {
	of, err := s.findToRun(ctx, caller, id)
	if err == nil {
		err = s.engine.CheckMonth(ctx, "install packages", caller)
	}
	if err != nil {
		return nil, err
	}
	command, err := installer(of.settings.Language, names)
	if err != nil {
		return nil, err
	}
	network := &engine.Network{Allow: []string{engine.PackagesSet}}
	if err := s.engine.CheckNetwork(ctx, caller, network, nil); err != nil {
		return nil, err
	}
	bash, err := findLanguage("bash")
	if err == nil {
		err = of.hasLive(bash)
	}
	if err != nil {
		return nil, err
	}
	beside := &session{id: engine.NewID(), caller: caller, record: of.record, settings: of.settings}
	beside.settings.Language, beside.settings.Network, beside.settings.Secrets = bash.Name, network, nil
	if beside, err = s.add(beside); err != nil {
		return nil, err
	}
	_, maxima := s.engine.Limits()
	c, err := beside.start(ctx, CellRequest{Code: command, Timeout: maxima.Timeout}, nil)
	if err != nil {
		s.forget(beside.id)
		return nil, err
	}
	s.background(func() {
		<-c.done
		s.forget(beside.id)
		beside.quit("It has installed what it was to install.")
	})
	return c.log.events.Watch(ctx, 0), nil
}
