package web

import (
	"errors"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/workspace"
)

// worded lets a handler fail with what folders and projects say.
func (p *reviewPage) worded(
	serve func(http.ResponseWriter, *webRequest) error,
) func(http.ResponseWriter, *webRequest) error {
	return func(w http.ResponseWriter, v *webRequest) error {
		if err := p.onMachine(); err != nil {
			return err
		}
		return workProblem(serve(w, v))
	}
}

// workProblem says in words for a person what folders and projects say. Errors
// that are not known stay as they are.
func workProblem(err error) error {
	if err == nil {
		return nil
	}
	if answered, late := errors.AsType[*assignment.AnsweredError](err); late {
		return refuse(http.StatusConflict, "Somebody was first: "+prose(answered.Error())+".",
			"Go back and load the page again.")
	}
	if state, wrong := errors.AsType[*assignment.StateError](err); wrong {
		return refuse(http.StatusConflict, prose(state.Error())+".", "Go back and load the page again.")
	}
	if said := firstKnown(err, []knownProblem{
		{workspace.ErrStale, http.StatusConflict, "The proposal has changed since you looked at it, so nothing was done.",
			"Go back and load the page again."},
		{workspace.ErrConflict, http.StatusConflict,
			"Files in the folder have changed since the proposal was made, so nothing was changed.",
			"Go back, load the page again, and look at the merged proposal."},
		{workspace.ErrNothing, http.StatusConflict, "There is nothing to revert.",
			"It was reverted already, or it changed no files."},
		{workspace.ErrBusy, http.StatusServiceUnavailable, "Somebody else is writing into this folder at the moment.",
			"Try again."},
		{conversation.ErrDone, http.StatusConflict, "This was settled before, so nothing was done now.",
			"Load its page again to see what became of it."},
		{conversation.ErrOutside, http.StatusForbidden, "This folder is none of those that this service was given.",
			"Start it with `airlock serve --workspace DIR`; folders below DIR can then be linked."},
		{workspace.ErrNotFound, http.StatusNotFound, problems[engine.ErrNotFound].Message, problems[engine.ErrNotFound].Cure},
		{conversation.ErrNotFound, http.StatusNotFound, problems[engine.ErrNotFound].Message,
			problems[engine.ErrNotFound].Cure},
		{assignment.ErrNotFound, http.StatusNotFound, problems[engine.ErrNotFound].Message,
			problems[engine.ErrNotFound].Cure},
		{fs.ErrPermission, http.StatusConflict, "The service may not write to the folder, or not read all of it.",
			"Give the user that it runs as access to the folder, or take the files as an archive."},
		{syscall.EROFS, http.StatusConflict, "The folder cannot be written to.", "Take the files as an archive."},
		{syscall.ENOSPC, http.StatusInsufficientStorage, "The disk is full, so nothing was changed.",
			"Make room and try again."},
		{fs.ErrNotExist, http.StatusConflict, "The folder is not there any more.",
			"Put it back, or link the project with another one."},
	}); said != nil {
		return said
	}
	for _, plain := range []struct {
		is     error
		status int
	}{{conversation.ErrInvalid, http.StatusBadRequest}, {workspace.ErrNeedsDecision, http.StatusConflict},
		{workspace.ErrRefused, http.StatusForbidden}, {conversation.ErrClosed, http.StatusConflict}} {
		if errors.Is(err, plain.is) {
			return refuse(plain.status, sentence(prose(err.Error())), "")
		}
	}
	return err
}

// knownProblem is how a page shows an error.
type knownProblem struct {
	is            error
	status        int
	message, cure string
}

// firstKnown returns the first problem that an error is, nil if it is none of them.
func firstKnown(err error, list []knownProblem) error {
	for _, known := range list {
		if errors.Is(err, known.is) {
			return refuse(known.status, known.message, known.cure)
		}
	}
	return nil
}

// sentence makes a sentence of an error.
func sentence(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text + "."
	}
	return string(text[0]-'a'+'A') + text[1:] + "."
}
