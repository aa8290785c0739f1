package executor

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// A program with a network grant finds a proxy on its own loopback. The wall creates the
// listening socket before the program starts. The executor sends it to the service, which
// passes it to the egress process. No process accepts inside.

// ProxyPort is the port of a program's proxy.
const ProxyPort = 3128

// authorityPath is the path of the certificates that a program with an inspected grant
// trusts.
const (
	authorityName  = ".airlock-certificates.pem"
	authorityPath  = "/tmp/" + authorityName
	maxCertificate = 16 << 10
)

// installPath is where pip installs packages, and where Python looks for them.
const installPath = image.RootWorkspace + "/.packages"

// isInstalled reports whether a path of the workspace is in a folder into which pip, npm
// or uv installs.
func isInstalled(path string) bool {
	folder, _, _ := strings.Cut(path, "/")
	return folder == ".packages" || folder == "node_modules" || folder == ".venv"
}

// proxyEnvironment returns the variables that configure common programs to use the proxy.
func proxyEnvironment(p *engine.ProxySettings) map[string]string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(ProxyPort)
	const without = "localhost,127.0.0.1,::1"
	certificates := image.CertificatesPath
	if len(p.Certificate) > 0 {
		certificates = authorityPath
	}
	env := map[string]string{
		"http_proxy": proxy, "https_proxy": proxy, "HTTP_PROXY": proxy, "HTTPS_PROXY": proxy,
		"ALL_PROXY": proxy, "all_proxy": proxy, "NO_PROXY": without, "no_proxy": without,
		"AIRLOCK_SOCKS_PROXY": "socks5h://127.0.0.1:" + strconv.Itoa(ProxyPort),
		"SSL_CERT_FILE":       certificates, "REQUESTS_CA_BUNDLE": certificates, "CURL_CA_BUNDLE": certificates,
		"GIT_SSL_CAINFO": certificates, "NODE_EXTRA_CA_CERTS": certificates, "PIP_CERT": certificates,
		"npm_config_cafile": certificates, "NODE_USE_ENV_PROXY": "1",
		"PIP_DISABLE_PIP_VERSION_CHECK": "1", "npm_config_update_notifier": "false",
		"npm_config_fetch_retry_mintimeout": "1000", "npm_config_fetch_retry_maxtimeout": "5000", // else 70 s for a refusal
		// Installed packages belong to the session: they are deleted with its
		// workspace.
		"PIP_TARGET": installPath, "PYTHONPATH": installPath, "PIP_NO_CACHE_DIR": "1", "PIP_ROOT_USER_ACTION": "ignore",
		"npm_config_cache": installPath + "/.npm", "UV_CACHE_DIR": installPath + "/.uv", "UV_PYTHON_DOWNLOADS": "never",
	}
	for name, value := range p.Env {
		env[name] = value
	}
	return env
}

// addProxy adds the variables of the program's proxy, and the placeholders of its secrets, to the environment of a
// process started beside the program.
func (b *Box) addProxy(env []string) []string {
	if !b.Request.Network {
		return env
	}
	names := proxyEnvironment(&engine.ProxySettings{Env: map[string]string{
		"PIP_INDEX_URL": "", "PIP_EXTRA_INDEX_URL": "", "PIP_TRUSTED_HOST": "", "UV_DEFAULT_INDEX": "",
		"npm_config_registry": "",
	}})
	var added []string
	for _, entry := range b.Request.Env {
		if name, value, _ := strings.Cut(entry, "="); hasName(names, name) ||
			strings.HasPrefix(value, engine.PlaceholderPrefix) {
			added = append(added, entry)
		}
	}
	return lastOfEach(append(added, env...))
}

func hasName(names map[string]string, name string) bool {
	_, there := names[name]
	return there
}

// openNetwork creates the proxy's socket in a sandbox, if its program has a grant.
func (b *Box) openNetwork(c Cell) (socket *os.File, err error) {
	if !b.Request.Network {
		return nil, nil
	}
	if err := b.placeAuthority(); err != nil {
		return nil, err
	}
	return c.Proxy()
}

// sendProxy sends the proxy's socket, if there is one, to the service.
func (l *Link) sendProxy(socket *os.File) error {
	if socket == nil {
		return nil
	}
	defer socket.Close()
	return l.Send(answer{Network: true}, socket)
}

// placeAuthority writes the certificates that a program with an inspected grant trusts:
// the run's own and the host's.
func (b *Box) placeAuthority() error {
	if len(b.Request.Authority) == 0 {
		return nil
	}
	known, _ := os.ReadFile(image.Path + image.CertificatesPath)
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(b.Tmp.Fd()), authorityName, flags, 0o444)
	if err != nil {
		return fmt.Errorf("place the certificate of a run: %w", err)
	}
	f := os.NewFile(uintptr(fd), "certificates")
	defer f.Close()
	_, err = f.Write(append(known, b.Request.Authority...))
	return err
}
