package remote

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/mutual"
)

// Server returns an HTTP server for a worker and its listener, which must be on loopback if
// there is no TLS configuration of package mutual: then Serve serves processes of this user.
func Server(l net.Listener, handler http.Handler, config *tls.Config, log *slog.Logger) (*http.Server, error) {
	at, ok := l.Addr().(*net.TCPAddr)
	if config == nil && (!ok || !at.IP.IsLoopback()) {
		return nil, errors.New("beyond loopback a worker needs a worker token")
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(config != nil)
	protocols.SetUnencryptedHTTP2(config == nil)
	return &http.Server{
		Handler: handler, Protocols: protocols, TLSConfig: config.Clone(), ReadHeaderTimeout: 5 * time.Second,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 10_000, MaxReceiveBufferPerConnection: 4<<20 - 1, MaxReceiveBufferPerStream: 256 << 10,
			SendPingTimeout: 5 * silence, PingTimeout: 5 * answerTime,
		},
	}, nil
}

// Serve serves until the server is shut down, and then returns nil.
func Serve(server *http.Server, l net.Listener) error {
	var err error
	if server.TLSConfig != nil {
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(mutual.Listener(l))
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
