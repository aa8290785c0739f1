package lab

import "fmt"

// failure is what Check panics with.
type failure struct{ error }

// Check ends the Try around it with an error, as testing's FailNow ends a test: a measurement has dozens of steps that
// may fail, and ends with the first that does. It must run in the goroutine of the Try.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns a value, or ends the Try around it.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Fail ends the Try around it.
func Fail(format string, args ...any) { Check(fmt.Errorf(format, args...)) }

// Try returns the error with which a step ended early.
func Try(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	do()
	return nil
}
