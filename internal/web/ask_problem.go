package web

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/workspace"
)

// askProblem says in words for a person what conversations, providers and
// folders say.
func askProblem(err error) error {
	if err == nil {
		return nil
	}
	if said := firstKnown(err, []knownProblem{
		{conversation.ErrNotFound, http.StatusNotFound, "There is no such conversation, or nothing of it is left.",
			"It was deleted, it has expired, or it belongs to somebody else."},
		{conversation.ErrTurn, http.StatusConflict, "A turn is going on in this conversation.",
			"Wait for its end, or stop it."},
		{conversation.ErrAnswered, http.StatusConflict, "This question was answered before, or its turn has ended.",
			"Load the page again to see what became of it."},
		{workspace.ErrStale, http.StatusConflict, "The file is not the one that you were shown, so nothing was saved.",
			"Load the page again."},
		{workspace.ErrConflict, http.StatusConflict, "The folder has changed in the meantime, so nothing was saved.",
			"Try again."},
		{workspace.ErrBusy, http.StatusServiceUnavailable, "Somebody else is writing into this folder at the moment.",
			"Try again."},
		{syscall.ENOSPC, http.StatusInsufficientStorage, "The disk is full, so nothing was kept.",
			"Delete conversations or files that are no longer needed, or make room, and try again."},
		{fs.ErrPermission, http.StatusConflict, "The service may not write to the folder.",
			"Give the user that it runs as access to it, or download the file."},
	}); said != nil {
		return said
	}
	if e, ok := errors.AsType[*provider.Error](err); ok {
		status := http.StatusBadGateway
		if e.Kind == provider.Invalid || e.Kind == provider.Auth {
			status = http.StatusBadRequest
		}
		return refuse(status, sentenceOf(e.Error()), provider.HintOf(err))
	}
	if errors.Is(err, conversation.ErrInvalid) {
		return refuse(http.StatusBadRequest, sentenceOf(err.Error()), "")
	}
	return err
}

// sentenceOf makes a sentence of an error.
func sentenceOf(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
