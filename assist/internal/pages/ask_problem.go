package pages

import (
	"errors"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/page"
)

// askProblem returns an error of conversations, providers and folders in words.
func askProblem(err error) error {
	if err == nil {
		return nil
	}
	known := page.InWords(err,
		page.Case(conversation.ErrNotFound, http.StatusNotFound, "There is no such conversation, or nothing of it is left.",
			"It was deleted, it has expired, or it belongs to somebody else."),
		page.Case(conversation.ErrTurn, http.StatusConflict, "A turn of this conversation is running.",
			"Wait for its end, or stop it."),
		page.Case(conversation.ErrMany, http.StatusTooManyRequests,
			"As many conversations as you may have at once have a turn "+
				"that goes on.", "Wait for the end of one, or stop it."),
		page.Case(conversation.ErrAnswered, http.StatusConflict, "This question was answered before, or its turn has ended.",
			"Load the page again to see what became of it."),
		page.Case(workspace.ErrStale, http.StatusConflict,
			"The file is not the one that you were shown, so nothing was saved.",
			"Load the page again."),
		page.Case(workspace.ErrConflict, http.StatusConflict, "The folder has changed in the meantime, so nothing was saved.",
			"Try again."),
		page.Case(workspace.ErrBusy, http.StatusServiceUnavailable,
			"Another change is being written into this folder at the moment.",
			"Try again."),
		page.Case(syscall.ENOSPC, http.StatusInsufficientStorage, "The disk is full, so nothing was kept.",
			"Delete conversations or files that are no longer needed, or make room, and try again."),
		page.Case(fs.ErrPermission, http.StatusConflict, "The service may not write to the folder.",
			"Give the user that it runs as access to it, or download the file."),
		page.Case(conversation.ErrInvalid, http.StatusBadRequest, "", ""),
	)
	if e, ok := errors.AsType[*provider.Error](known); ok {
		status := http.StatusBadGateway
		if e.Kind == provider.Invalid || e.Kind == provider.Auth {
			status = http.StatusBadRequest
		}
		return page.Refuse(status, page.Sentence(e.Error()), provider.HintOf(err))
	}
	if e, ok := errors.AsType[*client.Error](known); ok { // the service refuses an upload
		return page.Refuse(e.Status, page.Sentence(e.Message), e.Hint)
	}
	return known
}
