package cli

import (
	"context"
	"time"

	"github.com/airlock-run/airlock/internal/telemetry"
)

// telemetryTime bounds how long a service that ends sends what waits to be sent.
const telemetryTime = 5 * time.Second

// startTelemetry has the service send traces and metrics where the settings say so, until ended is called.
func (a *app) startTelemetry(ctx context.Context) (ended func(), err error) {
	a.telemetry, err = telemetry.Start(ctx, telemetry.Options{Endpoint: a.Config.OTLPEndpoint, Node: a.Config.NodeName,
		Version: readVersion(a.release).Version, Log: a.Log})
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryTime)
		defer cancel()
		if err := a.telemetry.Close(ctx); err != nil {
			a.Log.Warn("the last traces and metrics were not sent", "error", err)
		}
	}, err
}
