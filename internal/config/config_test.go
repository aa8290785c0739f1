package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// world is an Input that sees nothing of the machine the test runs on.
func world(t *testing.T, env map[string]string, system string) Input {
	t.Helper()
	in := Input{
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Home:   t.TempDir(),
		System: filepath.Join(t.TempDir(), "system.yaml"),
	}
	if system != "" {
		write(t, in.System, system)
	}
	return in
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, in Input) *Config {
	t.Helper()
	c, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func value(t *testing.T, c *Config, key string) Value {
	t.Helper()
	for _, v := range c.Values() {
		if v.Key == key {
			return v
		}
	}
	t.Fatalf("no setting %q", key)
	return Value{}
}

// Each step adds a source that wins over those before it.
func TestPrecedence(t *testing.T) {
	env := map[string]string{}
	in := world(t, env, "")
	own := filepath.Join(in.Home, ".local/share/airlock", FileName)
	steps := []struct {
		name   string
		add    func()
		want   int
		origin string
	}{
		{"default", func() {}, 256, "default"},
		{"system file", func() { write(t, in.System, "# all\n\nqueue: 11\n") }, 11, in.System + ":3"},
		{"own file", func() { write(t, own, "queue: 12\n") }, 12, own + ":1"},
		{"environment", func() { env["AIRLOCK_QUEUE"] = "13" }, 13, "AIRLOCK_QUEUE"},
		{"flag", func() { in.Flags = map[string][]string{"queue": {"14"}} }, 14, "--queue"},
	}
	for _, step := range steps {
		step.add()
		c := load(t, in)
		if got := value(t, c, "queue").Origin; c.Queue != step.want || got != step.origin {
			t.Errorf("%s: %d from %q, want %d from %q", step.name, c.Queue, got, step.want, step.origin)
		}
	}
}

func TestNamedFileIsTheOnlyOne(t *testing.T) {
	in := world(t, map[string]string{}, "queue: 11\n")
	in.File = filepath.Join(t.TempDir(), "mine.yaml")
	write(t, in.File, "concurrency: 3\n")
	if c := load(t, in); c.Queue != 256 || c.Concurrency != 3 {
		t.Errorf("queue %d, concurrency %d", c.Queue, c.Concurrency)
	}
	in.File += ".gone"
	if _, err := Load(in); err == nil || !strings.Contains(err.Error(), in.File) {
		t.Errorf("a named file that is not there: %v", err)
	}
}

// What the service's user can write must not configure root.
func TestRootReadsNoFileOfTheDataDirectory(t *testing.T) {
	data := t.TempDir()
	write(t, filepath.Join(data, FileName), "isolation: best\nlisten: 0.0.0.0:1\n")
	in := world(t, map[string]string{"AIRLOCK_DATA": data}, "")
	in.Root = true
	if c := load(t, in); c.Listen != "127.0.0.1:8000" {
		t.Errorf("root listens on %s", c.Listen)
	}
	in.Root = false
	if c := load(t, in); c.Listen != "0.0.0.0:1" {
		t.Errorf("a user listens on %s", c.Listen)
	}
}

func TestDataDirectory(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		flag string
		root bool
		want string
	}{
		{"user", nil, "", false, "HOME/.local/share/airlock"},
		{"xdg", map[string]string{"XDG_DATA_HOME": "/x"}, "", false, "/x/airlock"},
		{"relative xdg is ignored", map[string]string{"XDG_DATA_HOME": "x"}, "", false, "HOME/.local/share/airlock"},
		{"root", map[string]string{"XDG_DATA_HOME": "/x"}, "", true, "/var/lib/airlock"},
		{"environment", map[string]string{"AIRLOCK_DATA": "/e"}, "", true, "/e"},
		{"flag", map[string]string{"AIRLOCK_DATA": "/e"}, "/f", false, "/f"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := world(t, test.env, "")
			in.Root = test.root
			if test.flag != "" {
				in.Flags = map[string][]string{"data": {test.flag}}
			}
			if got, want := load(t, in).Data, strings.Replace(test.want, "HOME", in.Home, 1); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestEveryOptionInEveryPlace(t *testing.T) {
	samples := map[string]string{
		"data": "/some/dir", "log_level": "warn", "log_format": "json", "verbose": "true", "listen": "127.0.0.1:9",
		"trust_network": "10.0.0.0/8", "allow_host": "airlock.lan", "e2b_domain": "sandbox.lan:8000",
		"otlp_endpoint": "http://collector:4318", "public_url": "https://airlock.example.com",
		"mcp_oauth_issuer": "https://id.example.com/realms/main",
		"oidc_issuer":      "https://id.example.com/realms/main", "oidc_client_id": "airlock", "oidc_client_secret": "sample",
		"oidc_scopes": "openid", "oidc_domains": "example.com", "oidc_groups": "staff", "oidc_admin_groups": "admins",
		"oidc_groups_claim": "realm_access.roles", "auth_proxy_header": "X-Forwarded-User",
		"auth_proxy_network": "10.1.2.3/32", "auth_proxy_admins": "ada",
		"project_api": "https://projects.lan",
		"isolation":   "strict", "wall": "gvisor", "warm": "false", "python_packages": "librechat=onyx",
		"mounts": "datasets=/srv/datasets", "mount_access": "key:k1=datasets",
		"volumes_dir": "/srv/volumes",
		"images":      "jupyter=py313", "warm_images": "py313", "onyx_image": "onyxdotapp/python-executor-sci:v1",
		"network_allow": "api.example.com", "network_private": "10.1.0.0/16", "network_inspect": "true",
		"network_inject": "sample", "network_max_bytes": "5MiB", "drain_time": "5s",
		"max_upload": "3MiB", "concurrency": "7", "queue": "8", "queue_time": "9s", "file_ttl": "2h", "run_ttl": "720h",
		"snapshot_ttl": "5h",
		"keep_code":    "false",
		"min_free":     "64MiB", "database": "sample", "blobs": "s3://bucket/x", "blob_cache": "7GiB", "image_cache": "9GiB",
		"role": "worker", "worker_token": "sample", "worker_tokens": "sample", "approve_workers": "true",
		"first_key":     "ak_abcdefghjkmn_" + strings.Repeat("x", 43),
		"metrics_token": strings.Repeat("sample", 6), "worker_api": "http://sample:1", "advertise": "127.0.0.1:1",
		"node_name":  "sample",
		"owner_runs": "3", "owner_queue": "4", "owner_rate": "5", "owner_disk": "6GiB", "owner_files": "7",
		"owner_sessions": "8", "live": "9", "owner_live": "10", "live_idle": "11m", "owner_results": "9MiB",
		"owner_month": "runs=5", "usage_ttl": "800h", "audit_ttl": "900h",
		"default_timeout": "3s", "max_timeout": "4m", "default_memory": "64MiB", "max_memory": "2GiB",
		"default_processes": "9", "max_processes": "200", "default_output": "7KiB", "max_output": "20MiB",
		"provider": "gemini", "model": "some-model", "hints": "off", "max_download": "3MiB",
		"model_url": "http://localhost:11434/v1", "model_key": "sample",
		"openai_api_key": "sample", "openai_base_url": "https://models.example.com/v1", "openai_organization": "org-1",
		"openai_project":    "proj-1",
		"anthropic_api_key": "sample", "anthropic_base_url": "https://models.example.com", "gemini_api_key": "sample",
		"gemini_base_url": "https://models.example.com",
		"xai_api_key":     "sample", "xai_base_url": "https://models.example.com/v1",
		"pictures": "kitty", "server": "http://host:1", "key": "ak_sample",
		"workspace": "/srv/projects", "demo_project": "true", "code_interpreter_url": "http://host:1/onyx",
		"api": "https://projects.example.com", "api_token": "sample", "policy": "policy.json", "editor": "nano",
		"root_dialect": "onyx", "onyx_max_timeout": "50s", "onyx_max_output": "5KiB", "onyx_max_file": "6MiB",
		"onyx_file_ttl": "3m", "onyx_memory": "256MiB", "onyx_cpu_time": "5s",
		"librechat_api_key": "sample", "librechat_file_ttl": "3h", "librechat_jwt_public_key": "pem",
		"librechat_jwt_kid":      "k1",
		"librechat_jwt_keys_dir": "/keys", "librechat_jwt_jwks": "/keys/set.json", "librechat_jwt_secret": "sample",
		"librechat_jwt_issuer": "chat", "librechat_jwt_audience": "code", "librechat_jwt_tenant": "t1",
		"librechat_jwt_strict_tenant": "true",
		"librechat_jwt_secret_kid":    "k2", "librechat_jwt_algorithms": "RS256", "librechat_jwt_trust": "entries",
		"librechat_jwt_max_life": "1m", "librechat_jwt_skew": "10s",
		"librechat_user_scope": "strict", "librechat_unknown_session": "empty", "librechat_peer_ptc_errors": "true",
		"librechat_python_state": "hint", "dify_timeout": "20s",
		"openai_upstream_url": "http://localhost:11434/v1", "openai_upstream_key": "sample",
	}
	for _, o := range Options() {
		sample, ok := samples[o.Key]
		if !ok {
			t.Errorf("no sample for %s", o.Key)
			continue
		}
		want := []string{sample}
		if o.Secret {
			want = []string{"***"}
		}
		yaml := o.Key + ": " + sample + "\n"
		if o.Many {
			yaml = o.Key + ":\n  - " + sample + "\n"
		}
		for place, in := range map[string]Input{
			"file":        world(t, nil, yaml),
			"environment": world(t, map[string]string{o.Env(): sample}, ""),
			"flag": func() Input {
				in := world(t, nil, "")
				in.Flags = map[string][]string{
					o.Key: {sample}}
				return in
			}(),
		} {
			c, err := Load(in)
			if err != nil {
				t.Errorf("%s in %s: %v", o.Key, place, err)
				continue
			}
			if got := value(t, c, o.Key); !cmp.Equal(got.Values, want) || got.Origin == "default" {
				t.Errorf("%s in %s: %v from %s", o.Key, place, got.Values, got.Origin)
			}
		}
	}
}

func TestLists(t *testing.T) {
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, in := range []Input{
		world(t, nil, "trust_network: [10.0.0.0/8, \"fd00::/8\"]\n"),
		world(t, nil, "trust_network:\n- 10.0.0.0/8\n- fd00::/8\n"),
		world(t, map[string]string{"AIRLOCK_TRUST_NETWORK": "10.0.0.0/8, fd00::/8"}, ""),
	} {
		if c := load(t, in); fmt.Sprint(c.TrustNetworks) != fmt.Sprint(want) {
			t.Errorf("got %v", c.TrustNetworks)
		}
	}
}

// A key without a value is not set.
func TestEmptyValues(t *testing.T) {
	want := load(t, world(t, nil, ""))
	c := load(t, world(t, nil, "queue:\nmax_upload:\nlisten: null\ndefault_timeout: []\nrole: # all\n"))
	if c.Queue != want.Queue || c.MaxUpload != want.MaxUpload || c.Listen != want.Listen || c.Role != want.Role ||
		c.DefaultTimeout != want.DefaultTimeout || c.Origin("queue") != "default" {
		t.Errorf("queue %d, max_upload %d, listen %q, role %q, default_timeout %v", c.Queue, c.MaxUpload, c.Listen, c.Role,
			c.DefaultTimeout)
	}
}

// The service of root runs in another directory, and finds the same files.
func TestRelativeNames(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{"keys": filepath.Join(here, "keys"), "/keys": "/keys",
		`{"keys":[]}`: `{"keys":[]}`} {
		c := load(t, world(t, map[string]string{"AIRLOCK_LIBRECHAT_JWT_KEYS_DIR": given,
			"AIRLOCK_LIBRECHAT_JWT_JWKS": given}, ""))
		if c.LibreChat.JWTKeysDir != want || c.LibreChat.JWTKeySet != want {
			t.Errorf("%s: %s and %s", given, c.LibreChat.JWTKeysDir, c.LibreChat.JWTKeySet)
		}
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name, file string
		env        map[string]string
		want, hint string
	}{
		{"mistyped key", "lisen: 127.0.0.1:1\n", nil, `unknown setting "lisen"`, `did you mean "listen"?`},
		{"mistyped key with words swapped", "max_uplaod: 1MiB\n", nil, `unknown setting "max_uplaod"`,
			`did you mean "max_upload"?`},
		{"key like no other", "colour_of_the_sky: blue\n", nil, "unknown setting", "airlock config"},
		{"file form of what is no secret", "listen_file: /x\n", nil, "unknown setting", ""},
		{"twice", "queue: 1\nqueue: 2\n", nil, "already defined", ""},
		{"not yaml", "listen: [\n", nil, "system.yaml", ""},
		{"a list at the top", "- listen\n", nil, "system.yaml", ""},
		{"map as a value", "listen: {a: b}\n", nil, "plain value", ""},
		{"list for a single value", "listen: [127.0.0.1:1, 127.0.0.1:2]\n", nil, "one value", ""},
		{"port", "", map[string]string{"AIRLOCK_LISTEN": "127.0.0.1:99999"}, "99999", ""},
		{"listen on a name", "", map[string]string{"AIRLOCK_LISTEN": "example.com:80"}, "IP address", ""},
		{"no port", "", map[string]string{"AIRLOCK_LISTEN": "127.0.0.1"}, "address such as", ""},
		{"isolation", "", map[string]string{"AIRLOCK_ISOLATION": "off"}, "none of strict, best", ""},
		{"network with host bits", "", map[string]string{"AIRLOCK_TRUST_NETWORK": "10.0.0.1/8"}, "10.0.0.0/8", ""},
		{"no network", "", map[string]string{"AIRLOCK_TRUST_NETWORK": "lan"}, "10.1.2.0/24", ""},
		{"host with scheme", "", map[string]string{"AIRLOCK_ALLOW_HOST": "http://a"}, "host name", ""},
		{"size", "", map[string]string{"AIRLOCK_MAX_UPLOAD": "lots"}, "size such as", ""},
		{"zero size", "", map[string]string{"AIRLOCK_MAX_UPLOAD": "0"}, "size such as", ""},
		{"huge size", "", map[string]string{"AIRLOCK_MAX_UPLOAD": "99EiB"}, "size such as", ""},
		{"time without unit", "", map[string]string{"AIRLOCK_FILE_TTL": "60"}, "time such as", ""},
		{"negative time", "", map[string]string{"AIRLOCK_FILE_TTL": "-1h"}, "less than", ""},
		{"negative count", "", map[string]string{"AIRLOCK_QUEUE": "-1"}, "less than", ""},
		{"fraction", "", map[string]string{"AIRLOCK_QUEUE": "1.5"}, "whole number", ""},
		{"server without scheme", "", map[string]string{"AIRLOCK_SERVER": "host:80"}, "URL such as", ""},
		{"default above maximum", "", map[string]string{"AIRLOCK_DEFAULT_TIMEOUT": "1h", "AIRLOCK_MAX_TIMEOUT": "1m"},
			"above max_timeout", "set it lower"},
		{"secret twice", "", map[string]string{"AIRLOCK_KEY": "a", "AIRLOCK_KEY_FILE": "/b"}, "is set as well", "keep one"},
		{"secret file gone", "", map[string]string{"AIRLOCK_KEY_FILE": "/no/such"}, "AIRLOCK_KEY_FILE", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Load(world(t, test.env, test.file))
			bad, ok := errors.AsType[*Error](err)
			if !ok || !strings.Contains(bad.Error(), test.want) || !strings.Contains(bad.Hint, test.hint) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOwnFileCannotMoveTheData(t *testing.T) {
	in := world(t, nil, "")
	write(t, filepath.Join(in.Home, ".local/share/airlock", FileName), "data: /elsewhere\n")
	if _, err := Load(in); err == nil || !strings.Contains(err.Error(), "cannot move it") {
		t.Errorf("got %v", err)
	}
}

func TestSecretsStayInside(t *testing.T) {
	const token = "ak_hunter2"
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, token+"\n")
	for place, in := range map[string]Input{
		"environment":      world(t, map[string]string{"AIRLOCK_KEY": token}, ""),
		"environment file": world(t, map[string]string{"AIRLOCK_KEY_FILE": file}, ""),
		"settings":         world(t, nil, "key: "+token+"\n"),
		"settings file":    world(t, nil, "key_file: "+file+"\n"),
		"flag file": func() Input {
			in := world(t, nil, "")
			in.Flags = map[string][]string{
				"key_file": {file}}
			return in
		}(),
	} {
		c := load(t, in)
		if c.Key.Reveal() != token {
			t.Errorf("%s: the key is %q", place, c.Key.Reveal())
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", c.Key)
		all := fmt.Sprintf("%v %+v %#v %s %v %s", *c, *c, *c, c.Key, c.Values(), strings.Join(c.Environ("/"), " ")) +
			log.String()
		if strings.Contains(all, token) {
			t.Errorf("%s: the key shows in %s", place, all)
		}
	}
}

func TestIsolationFollowsTheAddress(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8000": IsolationBest, "[::1]:8000": IsolationBest, "localhost:1": IsolationBest,
		"0.0.0.0:8000": IsolationStrict, ":8000": IsolationStrict, "[::]:80": IsolationStrict,
		"192.168.1.5:80": IsolationStrict,
	} {
		if c := load(t, world(t, map[string]string{"AIRLOCK_LISTEN": listen}, "")); c.Isolation != want {
			t.Errorf("%s: %s", listen, c.Isolation)
		}
		if c := load(t, world(t, map[string]string{"AIRLOCK_LISTEN": listen, "AIRLOCK_ISOLATION": "best"}, "")); c.Strict() {
			t.Errorf("%s: strict although best was asked for", listen)
		}
	}
}

func TestLimitsFollowEachOther(t *testing.T) {
	c := load(t, world(t, map[string]string{"AIRLOCK_DEFAULT_MEMORY": "3GiB", "AIRLOCK_MAX_PROCESSES": "20"}, ""))
	if c.MaxMemory != 3<<30 || c.DefaultProcesses != 20 {
		t.Errorf("max_memory %d, default_processes %d", c.MaxMemory, c.DefaultProcesses)
	}
	if got := value(t, c, "max_memory").Origin; got != "AIRLOCK_DEFAULT_MEMORY" {
		t.Errorf("max_memory comes from %s", got)
	}
}

// A process of another user gets the same settings, from its environment.
func TestEnvironCarriesTheSettings(t *testing.T) {
	first := load(t, world(t, map[string]string{"AIRLOCK_DATA": "/d", "AIRLOCK_TRUST_NETWORK": "10.0.0.0/8,fd00::/8",
		"AIRLOCK_FILE_TTL": "90m", "AIRLOCK_KEY": "k"},
		"max_upload: 5MiB\nlisten: 0.0.0.0:81\nmax_timeout: 1h30m10s\n"))
	env := map[string]string{}
	for _, entry := range first.Environ("/home/airlock") {
		name, text, _ := strings.Cut(entry, "=")
		env[name] = text
	}
	in := world(t, env, "max_upload: 1MiB\n")
	second := load(t, in)
	if env["HOME"] != "/home/airlock" || second.Key != "" {
		t.Errorf("HOME=%s, key %q", env["HOME"], second.Key.Reveal())
	}
	first.Key, first.origins, second.origins = "", nil, nil
	if diff := cmp.Diff(first.Values(), second.Values()); diff != "" {
		t.Error(diff)
	}
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{24 * time.Hour: "24h", 90 * time.Minute: "1h30m", time.Minute: "1m",
		10 * time.Second: "10s", 70 * time.Second: "1m10s", 0: "0s"} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{1 << 30: "1GiB", 200 << 20: "200MiB", 1536: "1536B", 3 << 10: "3KiB",
		1000000: "1000000B"} {
		if got := formatSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{"", "queue: 1\n", "trust_network: [10.0.0.0/8]\n", "a: &x 1\nb: *x\n", "? [a]\n: b\n",
		"--- \n...\n---\nqueue: 2", "queue: !!int 3\n", "<<: {a: 1}\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, err := parseFile("fuzz", []byte(text))
		if err == nil {
			for key := range found {
				if find(Options(), key) == nil {
					t.Errorf("%q was accepted as a setting", key)
				}
			}
		}
	})
}

// The service, which runs as another user, gets the secrets that are its own,
// wherever they were set, and no others.
func TestServiceSecrets(t *testing.T) {
	c := load(t, world(t, map[string]string{"AIRLOCK_OPENAI_API_KEY": "one", "AIRLOCK_KEY": "of a client"},
		"librechat_api_key: two\n"))
	env := map[string]string{}
	for _, entry := range append(c.Environ("/home/airlock"), c.ServiceSecrets()...) {
		name, text, _ := strings.Cut(entry, "=")
		env[name] = text
	}
	second := load(t, world(t, env, ""))
	if second.OpenAI.Key != "one" || second.LibreChat.APIKey != "two" || second.Key != "" {
		t.Errorf("openai %q, librechat %q, client %q", second.OpenAI.Key.Reveal(), second.LibreChat.APIKey.Reveal(),
			second.Key.Reveal())
	}
}

func TestInstalled(t *testing.T) {
	data, image := t.TempDir(), t.TempDir()
	load := func() *Config {
		none := func(string) (string, bool) { return "", false }
		c, err := Load(Input{File: NoFile, Flags: map[string][]string{"data": {data}}, Lookup: none, Image: image})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, step := range []struct{ make, want string }{
		{"", data}, // nowhere yet: setup installs into the data directory
		{image, image},
		{data, data}, // what was installed later wins
	} {
		if step.make != "" {
			if err := os.Mkdir(filepath.Join(step.make, "runtimes"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if got := load().Runtimes(); got != filepath.Join(step.want, "runtimes") {
			t.Errorf("packages are looked for in %s, want those of %s", got, step.want)
		}
	}
}
