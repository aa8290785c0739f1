//go:build !unix

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// errSystem is the error of whatever reaches a folder or locks a file: a folder keeps its promise
// by openat with O_NOFOLLOW, which Windows has not. What reads, compares and judges changes works.
var errSystem = fmt.Errorf("folders cannot be changed safely on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func openFolder(string) (*folder, error) { return nil, errSystem }

func (d *folder) child(string) (*folder, error)                { return nil, errSystem }
func (d *folder) stat(string) (node, error)                    { return node{}, errSystem }
func (d *folder) open(string) (*os.File, node, error)          { return nil, node{}, errSystem }
func (d *folder) create(string, fs.FileMode) (*os.File, error) { return nil, errSystem }
func (d *folder) mkdir(string) error                           { return errSystem }
func (d *folder) rmdir(string) error                           { return errSystem }
func (d *folder) unlink(string) error                          { return errSystem }
func (d *folder) readlink(string) (string, error)              { return "", errSystem }
func (d *folder) move(string, *folder, string) error           { return errSystem }
func (d *folder) exchange(string, *folder, string) error       { return errSystem }
func (d *folder) names() ([]string, error)                     { return nil, errSystem }
func (d *folder) sync() error                                  { return errSystem }
func (d *folder) free() (int64, error)                         { return 0, errSystem }
func (d *folder) lock(context.Context) error                   { return errSystem }
func (d *folder) chown(int, int) error                         { return errSystem }
func copyAttributes(*os.File, *os.File, node) error            { return errSystem }
func tryFlock(*os.File, bool) (bool, error)                    { return false, errSystem }
func explain(err error) error                                  { return err }
