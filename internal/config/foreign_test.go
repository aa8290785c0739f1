package config

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Who replaces Onyx's service keeps the settings that it had.
func TestForeignNames(t *testing.T) {
	env := map[string]string{
		"MAX_EXEC_TIMEOUT_MS": "30000", "MAX_OUTPUT_BYTES": "5000", "MAX_FILE_SIZE_MB": "10",
		"FILE_TTL_SEC": "120", "MEMORY_LIMIT_MB": "256", "CPU_TIME_LIMIT_SEC": "5", "PYTHON_EXECUTOR_DOCKER_IMAGE": "a/b:1",
		"HOST": "1.2.3.4", "PORT": "9",
	}
	want := Onyx{30 * time.Second, 5000, 10 << 20, 2 * time.Minute, 256 << 20, 5 * time.Second, "a/b:1"}
	c := load(t, world(t, env, ""))
	if diff := cmp.Diff(want, c.Onyx); diff != "" {
		t.Error(diff)
	}
	if c.Listen != "127.0.0.1:8000" {
		t.Errorf("HOST and PORT count for everybody: %s", c.Listen)
	}
	if got := value(t, c, "onyx_file_ttl").Origin; got != "FILE_TTL_SEC" {
		t.Errorf("said to come from %s", got)
	}

	env["AIRLOCK_ONYX_FILE_TTL"], env["MEMORY_LIMIT_MB"] = "1m", ""
	c = load(t, world(t, env, ""))
	if c.Onyx.FileTTL != time.Minute || c.Onyx.Memory != 0 {
		t.Errorf("our name counts less than theirs, or an empty one as none: %+v", c.Onyx)
	}

	if _, err := Load(world(t, map[string]string{"FILE_TTL_SEC": "soon"}, "")); err == nil {
		t.Error("no error for a bad value")
	}
}

// Who replaces the official server of LibreChat keeps its settings.
func TestForeignTokenNames(t *testing.T) {
	c := load(t, world(t, map[string]string{
		"CODEAPI_JWT_PUBLIC_KEY": "{}", "CODEAPI_JWT_KEY_ID": "k", "CODEAPI_JWT_HS256_SECRET": "s",
		"CODEAPI_JWT_HS256_KID":          "hs",
		"CODEAPI_JWT_TRUST_ENTRIES_JSON": "[]", "CODEAPI_JWT_ALLOWED_ALGS": "EdDSA", "CODEAPI_JWT_MAX_TTL_SECONDS": "60",
		"CODEAPI_JWT_CLOCK_SKEW_SECONDS": "0",
	}, "")).LibreChat
	if c.JWTPublicKey != "{}" || c.JWTKeyID != "k" || c.JWTSecret.Reveal() != "s" || c.JWTSecretKeyID != "hs" ||
		c.JWTTrust != "[]" ||
		c.JWTAlgorithms != "EdDSA" || c.JWTMaxLife != time.Minute || c.JWTSkew != 0 {
		t.Errorf("%+v", c)
	}
	if c := load(t, world(t, map[string]string{"CODEAPI_JWT_KEY_ID": "less", "CODEAPI_JWT_KID": "more"},
		"")); c.LibreChat.JWTKeyID != "more" {
		t.Errorf("the key's id is %q", c.LibreChat.JWTKeyID)
	}
}

func TestCalledByAnotherName(t *testing.T) {
	for _, test := range []struct {
		name         string
		env          map[string]string
		file, listen string
	}{
		{"nothing set", nil, "", "0.0.0.0:8000"},
		{"plain log", map[string]string{"LOG_FORMAT": "plain"}, "", "0.0.0.0:8000"},
		{"theirs", map[string]string{"HOST": "::1", "PORT": "99", "LOG_FORMAT": "JSON"}, "", "[::1]:99"},
		{"file", map[string]string{"PORT": "99"}, "listen: 127.0.0.1:7\n", "127.0.0.1:7"},
		{"ours", map[string]string{"PORT": "99", "AIRLOCK_LISTEN": "127.0.0.1:8"}, "", "127.0.0.1:8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := world(t, test.env, test.file)
			in.Program = OnyxProgram
			c := load(t, in)
			if want := test.env["LOG_FORMAT"] == "JSON"; (c.LogFormat == LogJSON) != want {
				t.Errorf("the log is written as %s", c.LogFormat)
			}
			if c.Listen != test.listen || c.RootDialect != DialectOnyx {
				t.Errorf("listens on %s, speaks %q at the root", c.Listen, c.RootDialect)
			}
		})
	}
}

// Secrets of other products may be in files, as containers have them.
func TestForeignSecretInFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	write(t, name, "from-file\n")
	if c := load(t, world(t, map[string]string{"OPENAI_API_KEY_FILE": name}, "")); c.OpenAI.Key.Reveal() != "from-file" {
		t.Errorf("the key is %q", c.OpenAI.Key.Reveal())
	}
	if c := load(t, world(t, map[string]string{"OPENAI_API_KEY_FILE": name, "AIRLOCK_OPENAI_API_KEY": "ours"},
		"")); c.OpenAI.Key.Reveal() != "ours" {
		t.Errorf("ours does not win: %q", c.OpenAI.Key.Reveal())
	}
	if _, err := Load(world(t, map[string]string{"OPENAI_API_KEY_FILE": name + "-missing"}, "")); err == nil {
		t.Error("a file that is missing is no error")
	}
}
