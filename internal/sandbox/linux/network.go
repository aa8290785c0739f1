package linux

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// A program with a network grant finds a proxy on its own loopback. The executor
// creates the listening socket in the sandbox's network namespace before the program
// starts. It sends the socket to the service, which passes it to the egress process. No
// process accepts inside: the namespace stays as empty as every other.

// proxyPort is the port of a program's proxy.
const proxyPort = 3128

// proxyBacklog bounds the connections that wait to be accepted.
const proxyBacklog = 512

// authorityPath is the path of the certificates that a program with an inspected grant
// trusts. certificatesPath is the path of the host's certificates in every sandbox.
const (
	authorityName    = ".airlock-certificates.pem"
	authorityPath    = "/tmp/" + authorityName
	certificatesPath = "/etc/ssl/certs/ca-certificates.crt"
	maxCertificate   = 16 << 10
	maxBundle        = 512 << 10 // the image is small
)

// installPath is where pip installs packages, and where Python looks for them.
const installPath = rootWorkspace + "/.packages"

// isInstalled reports whether a path of the workspace is in a folder into which pip, npm
// or uv installs.
func isInstalled(path string) bool {
	folder, _, _ := strings.Cut(path, "/")
	return folder == ".packages" || folder == "node_modules" || folder == ".venv"
}

// hostCertificates are the usual paths of the certificates of authorities on a host.
var hostCertificates = []string{
	certificatesPath, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem",
}

// proxyEnvironment returns the variables that configure common programs to use the proxy.
func proxyEnvironment(p *engine.ProxySettings) map[string]string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(proxyPort)
	const without = "localhost,127.0.0.1,::1"
	certificates := certificatesPath
	if len(p.Certificate) > 0 {
		certificates = authorityPath
	}
	env := map[string]string{
		"http_proxy": proxy, "https_proxy": proxy, "HTTP_PROXY": proxy, "HTTPS_PROXY": proxy,
		"ALL_PROXY": proxy, "all_proxy": proxy, "NO_PROXY": without, "no_proxy": without,
		"AIRLOCK_SOCKS_PROXY": "socks5h://127.0.0.1:" + strconv.Itoa(proxyPort),
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

// addProxy adds the variables of the program's proxy to the environment of a process
// started beside the program.
func (s *sandbox) addProxy(env []string) []string {
	if !s.request.Network {
		return env
	}
	names := proxyEnvironment(&engine.ProxySettings{Env: map[string]string{
		"PIP_INDEX_URL": "", "PIP_EXTRA_INDEX_URL": "", "PIP_TRUSTED_HOST": "", "UV_DEFAULT_INDEX": "",
		"npm_config_registry": "",
	}})
	var added []string
	for _, entry := range s.request.Env {
		if name, _, _ := strings.Cut(entry, "="); hasName(names, name) {
			added = append(added, entry)
		}
	}
	return lastOfEach(append(added, env...))
}

func hasName(names map[string]string, name string) bool {
	_, there := names[name]
	return there
}

// listen creates the proxy's socket in the calling thread's network namespace.
func listen() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "proxy")
	address := &unix.SockaddrInet4{Port: proxyPort}
	copy(address.Addr[:], net.IPv4(127, 0, 0, 1).To4())
	if err = unix.Bind(fd, address); err == nil {
		err = unix.Listen(fd, proxyBacklog)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("make the proxy's socket: %w", err)
	}
	return f, nil
}

// inThread calls a function in a new thread that ends with the call: a thread that
// entered another namespace must not be reused.
func inThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in another namespace
		done <- do()
	}()
	return <-done
}

// listenIn creates the proxy's socket in the network namespace of a process.
func listenIn(pidfd int) (f *os.File, err error) {
	err = inThread(func() error {
		if err := unix.Setns(pidfd, unix.CLONE_NEWNET); err != nil {
			return err
		}
		f, err = listen()
		return err
	})
	return f, err
}

// newNetwork creates a network namespace with loopback and the proxy's socket, for a
// sandbox that starts cold: no process of the program may run before the socket exists.
func newNetwork() (namespace, socket *os.File, err error) {
	err = inThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if namespace, err = os.Open(procPath + "/thread-self/ns/net"); err != nil {
			return err
		}
		if err := loopbackUp(); err != nil {
			return err
		}
		socket, err = listen()
		return err
	})
	if err != nil && namespace != nil {
		namespace.Close()
		namespace = nil
	}
	return namespace, socket, err
}

// loopbackUp brings the loopback device of the thread's network namespace up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// openNetwork creates the proxy's socket for a waiting sandbox, if its program has a
// grant. Its namespaces are not reused afterwards.
func (w *waiting) openNetwork() (socket *os.File, err error) {
	if !w.request.Network {
		return nil, nil
	}
	w.markDirty()
	if err := w.placeAuthority(); err != nil {
		return nil, err
	}
	return listenIn(int(w.pidfd.Fd()))
}

// openNetwork does the same for a sandbox that starts cold.
func (s *sandbox) openNetwork() (socket *os.File, err error) {
	if !s.request.Network {
		return nil, nil
	}
	if s.network, socket, err = newNetwork(); err != nil {
		return nil, err
	}
	if err := s.placeAuthority(); err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
}

// sendProxy sends the proxy's socket, if there is one, to the service.
func (l *link) sendProxy(socket *os.File) error {
	if socket == nil {
		return nil
	}
	defer socket.Close()
	return l.send(answer{Network: true}, socket)
}

// placeAuthority writes the certificates that a program with an inspected grant trusts:
// the run's own and the host's.
func (s *sandbox) placeAuthority() error {
	if len(s.request.Authority) == 0 {
		return nil
	}
	known, _ := os.ReadFile(imagePath + certificatesPath)
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(s.tmp.Fd()), authorityName, flags, 0o444)
	if err != nil {
		return fmt.Errorf("place the certificate of a run: %w", err)
	}
	f := os.NewFile(uintptr(fd), "certificates")
	defer f.Close()
	_, err = f.Write(append(known, s.request.Authority...))
	return err
}

// networkSteps enter the network namespace created for a sandbox, or bring up the
// loopback device of the one in which the sandbox was born.
func (s *sandbox) networkSteps() []spawn.Step {
	if s.network == nil {
		return s.loopback()
	}
	return []spawn.Step{spawn.Call("enter the network namespace", unix.SYS_SETNS, s.network, unix.CLONE_NEWNET)}
}

// networkFlag returns the clone flag for a new network namespace, 0 if one was created before.
func (s *sandbox) networkFlag() uintptr {
	if s.network == nil {
		return unix.CLONE_NEWNET
	}
	return 0
}
