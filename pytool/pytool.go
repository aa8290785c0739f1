// Package pytool is the run_python tool, with which the model of a chat application runs
// Python on the user's files.
//
// It has everything between the model and a code interpreter. Definition, Config.Guidance
// and Reminder are texts for the model. Tool.Run carries out a call: it stages the files of
// the chat, runs the code, streams its output to the page as packets, saves its files in the
// application's store, and returns the JSON for the model. Tool.Available tells whether the
// tool can be offered, with a reason and a cure if not.
//
//	tool, err := pytool.New(pytool.Options{Config: cfg, Store: store})
//	...
//	result := tool.Run(ctx, pytool.Call{Arguments: args, Files: files}, send)
//	messages = append(messages, toolMessage(result.JSON()))
//
// A call never fails: an error is a Result with exit code -1 and a text, so that no turn of
// the chat is lost.
//
// A Runner runs the code. NewService is a Runner for services with the protocol of Onyx's
// code interpreter, such as Airlock or Onyx. The texts, names and packets are those of Onyx.
package pytool

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The names of the tool: for the model, and on the page.
const (
	Name        = "run_python" // some providers refuse "python"
	DisplayName = "Code Interpreter"
	Description = "Execute Python code in an isolated sandbox environment."
)

// Definition returns the tool in OpenAI's format. It is always the same, so that it can be
// cached with a prompt.
func Definition() json.RawMessage {
	return json.RawMessage(`{"type":"function","function":{"name":"` + Name + `","description":"` + Description +
		`","parameters":{"type":"object","properties":{"code":{"type":"string","description":"Python source code to execute"}},"required":["code"]}}}`)
}

// Config holds the operator's settings.
type Config struct {
	BaseURL            string        // of the service; empty: there is none
	Timeout            time.Duration // of one run; the model cannot change it
	MaxOutput          int           // characters of stdout and of stderr for the model
	MaxStagedFiles     int           // files of the chat for one run
	MaxStagedBytes     int64         // their total size
	StagingConcurrency int           // files read or uploaded at once
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

// DefaultConfig returns the defaults.
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

// ReadConfig reads the settings with lookup, such as os.LookupEnv. An empty base URL means
// that there is no service; other empty settings count as not set. The error names the
// setting.
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

// fill sets zero fields to their defaults, but not an empty BaseURL, which means that there
// is no service.
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
