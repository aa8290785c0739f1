package pages

import (
	"errors"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

// worded puts the errors of a handler about folders and projects into words.
func (p *reviewPage) worded(serve page.Handler) page.Handler {
	return func(w http.ResponseWriter, v *page.Request) error {
		if err := p.OnMachine(); err != nil {
			return err
		}
		return workProblem(serve(w, v))
	}
}

// workProblem returns an error of folders and projects in words. It returns other errors as
// they are.
func workProblem(err error) error {
	if err == nil {
		return nil
	}
	if answered, late := errors.AsType[*assignment.AnsweredError](err); late {
		return page.Refuse(http.StatusConflict, "This came too late: "+page.Prose(answered.Error())+".",
			"Go back and load the page again.")
	}
	if state, wrong := errors.AsType[*assignment.StateError](err); wrong {
		return page.Refuse(http.StatusConflict, page.Prose(state.Error())+".", "Go back and load the page again.")
	}
	none := page.Describe(page.ErrNotFound)
	return page.InWords(err,
		page.Case(workspace.ErrStale, http.StatusConflict,
			"The proposal has changed since you looked at it, so nothing was done.",
			"Go back and load the page again."),
		page.Case(workspace.ErrConflict, http.StatusConflict,
			"Files in the folder have changed since the proposal was made, so nothing was changed.",
			"Go back, load the page again, and look at the merged proposal."),
		page.Case(workspace.ErrNothing, http.StatusConflict, "There is nothing to revert.",
			"It was reverted already, or it changed no files."),
		page.Case(workspace.ErrBusy, http.StatusServiceUnavailable,
			"Another change is being written into this folder at the moment.",
			"Try again."),
		page.Case(changes.ErrDone, http.StatusConflict, "This was decided before, so nothing was done now.",
			"Load its page again to see what became of it."),
		page.Case(changes.ErrOutside, http.StatusForbidden, "This folder is not one of those that this service was given.",
			"Start it with `airlock serve --workspace DIR`; folders below DIR can then be linked."),
		page.Case(workspace.ErrNotFound, http.StatusNotFound, none.Message, none.Cure),
		page.Case(conversation.ErrNotFound, http.StatusNotFound, none.Message, none.Cure),
		page.Case(assignment.ErrNotFound, http.StatusNotFound, none.Message, none.Cure),
		page.Case(fs.ErrPermission, http.StatusConflict, "The service may not write to the folder, or not read all of it.",
			"Give the user that it runs as access to the folder, or take the files as an archive."),
		page.Case(syscall.EROFS, http.StatusConflict, "The folder cannot be written to.", "Take the files as an archive."),
		page.Case(syscall.ENOSPC, http.StatusInsufficientStorage, "The disk is full, so nothing was changed.",
			"Make room and try again."),
		page.Case(fs.ErrNotExist, http.StatusConflict, "The folder is not there any more.",
			"Put it back, or link the project with another one."),
		page.Case(conversation.ErrInvalid, http.StatusBadRequest, "", ""),
		page.Case(workspace.ErrNeedsDecision, http.StatusConflict, "", ""),
		page.Case(workspace.ErrRefused, http.StatusForbidden, "", ""),
		page.Case(changes.ErrClosed, http.StatusConflict, "", ""),
	)
}
