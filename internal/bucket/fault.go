package bucket

import (
	"context"
	"errors"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/airlock-run/airlock/internal/engine"
)

// failed returns the *engine.Error of an error of a bucket, with a hint.
func failed(op, id string, err error) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*engine.Error](err); ok {
		return own
	}
	e := &engine.Error{Op: op, ID: id, Kind: engine.ErrUnavailable, Err: err,
		Hint: "The service cannot use its bucket at the moment: try again in some seconds."}
	answer := minio.ToErrorResponse(err)
	switch {
	case errors.Is(err, context.Canceled):
		e.Kind, e.Hint = engine.ErrCanceled, ""
	case isNoBucket(err):
		e.Hint = "There is no such bucket: the operator makes it; Airlock does not."
	case answer.StatusCode == http.StatusNotFound:
		e.Kind, e.Hint = engine.ErrNotFound, ""
	case answer.Code == "RequestTimeTooSkewed":
		e.Hint = "The clock of this machine is more than a quarter of an hour off the bucket's, which then takes no " +
			"signature: set it."
	case answer.StatusCode == http.StatusForbidden:
		e.Hint = "The credentials of the service may not do this with its bucket: it needs s3:GetObject, s3:PutObject, " +
			"s3:DeleteObject and s3:ListBucket."
	case answer.StatusCode == http.StatusInsufficientStorage, answer.Code == "QuotaExceeded",
		answer.Code == "XMinioStorageFull":
		e.Kind, e.Hint = engine.ErrFull, "The bucket of the service is full: delete files, or ask the operator for room."
	}
	return e
}

func isNoBucket(err error) bool { return minio.ToErrorResponse(err).Code == "NoSuchBucket" }
