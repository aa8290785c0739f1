// Package pytool is the run_python tool: what a chat application gives to a
// model so that it can run Python on the user's files.
//
// It is everything between the model and a code interpreter. What the model is
// told: Definition, Config.Guidance, Reminder. What happens when it calls:
// Tool.Run stages the files of the chat, runs the code, streams what it prints
// to the page as packets, saves what it made in the application's file store,
// and returns the JSON that goes back to the model. And whether the tool is to
// be offered at all: Tool.Available, with the reason and the cure where it is
// not.
//
//	tool, err := pytool.New(pytool.Options{Config: cfg, Store: store})
//	...
//	result := tool.Run(ctx, pytool.Call{Arguments: args, Files: files}, send)
//	messages = append(messages, toolMessage(result.JSON()))
//
// A call never fails: whatever goes wrong is a Result with exit code -1, whose
// text says what, so that no turn of the chat is lost.
//
// The code runs wherever a Runner says. NewService talks to any service that
// speaks the protocol of Onyx's code interpreter, Airlock's or Onyx's own. The
// texts, names and packets are those that Onyx's frontend and its models know.
package pytool

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// How the tool is called: by the model, and on the page.
const (
	Name        = "run_python" // "python" is a name that some providers refuse
	DisplayName = "Code Interpreter"
	Description = "Execute Python code in an isolated sandbox environment."
)

// Definition is the tool as a provider of the OpenAI kind takes it. It is the
// same for every call, byte for byte, so that it can be cached with a prompt.
func Definition() json.RawMessage {
	return json.RawMessage(`{"type":"function","function":{"name":"` + Name + `","description":"` + Description +
		`","parameters":{"type":"object","properties":{"code":{"type":"string","description":"Python source code to execute"}},"required":["code"]}}}`)
}

// Config is what an operator sets.
type Config struct {
	BaseURL            string        // of the service; empty: there is none
	Timeout            time.Duration // of one run; the model cannot change it
	MaxOutput          int           // characters of stdout and of stderr that go back to the model
	MaxStagedFiles     int           // files of the chat that one run gets
	MaxStagedBytes     int64         // and how large they may be together
	StagingConcurrency int           // files that are read or uploaded at the same time
}

// The names of the settings, in the environment of the chat application.
const (
	EnvBaseURL            = "CODE_INTERPRETER_BASE_URL"
	EnvTimeout            = "CODE_INTERPRETER_DEFAULT_TIMEOUT_MS"
	EnvMaxOutput          = "CODE_INTERPRETER_MAX_OUTPUT_LENGTH"
	EnvMaxStagedFiles     = "CODE_INTERPRETER_MAX_STAGED_FILES"
	EnvMaxStagedBytes     = "CODE_INTERPRETER_MAX_STAGED_BYTES"
	EnvStagingConcurrency = "CODE_INTERPRETER_STAGING_CONCURRENCY"
)

// DefaultConfig is what counts for what is not set.
func DefaultConfig() Config {
	return Config{
		BaseURL:            "http://localhost:8000",
		Timeout:            time.Minute,
		MaxOutput:          50_000,
		MaxStagedFiles:     25,
		MaxStagedBytes:     100 << 20,
		StagingConcurrency: 8,
	}
}

// ReadConfig reads the settings through lookup, such as os.LookupEnv. A base
// URL that is set and empty means that there is no service; any other setting
// that is empty counts as not set. The error names the setting.
func ReadConfig(lookup func(name string) (string, bool)) (Config, error) {
	c := DefaultConfig()
	if url, ok := lookup(EnvBaseURL); ok {
		c.BaseURL = strings.TrimSpace(url)
	}
	millis, output, files, concurrency := c.Timeout.Milliseconds(), int64(c.MaxOutput), int64(c.MaxStagedFiles),
		int64(c.StagingConcurrency)
	for _, setting := range []struct {
		name string
		to   *int64
	}{
		{EnvTimeout, &millis},
		{EnvMaxOutput, &output},
		{EnvMaxStagedFiles, &files},
		{EnvMaxStagedBytes, &c.MaxStagedBytes},
		{EnvStagingConcurrency, &concurrency},
	} {
		text, _ := lookup(setting.name)
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 {
			return Config{}, fmt.Errorf("%s is %q: it must be a whole number from 1 to 2147483647", setting.name, text)
		}
		*setting.to = n
	}
	c.Timeout = time.Duration(millis) * time.Millisecond
	c.MaxOutput, c.MaxStagedFiles, c.StagingConcurrency = int(output), int(files), int(concurrency)
	return c, nil
}

// fill takes the defaults for what is zero. An empty BaseURL stays: it means
// that there is no service.
func (c Config) fill() Config {
	d := DefaultConfig()
	or(&c.Timeout, d.Timeout)
	or(&c.MaxOutput, d.MaxOutput)
	or(&c.MaxStagedFiles, d.MaxStagedFiles)
	or(&c.MaxStagedBytes, d.MaxStagedBytes)
	or(&c.StagingConcurrency, d.StagingConcurrency)
	return c
}

func or[T int | int64 | time.Duration](field *T, otherwise T) {
	if *field <= 0 {
		*field = otherwise
	}
}
