package sandboxtest

import "time"

// Await looks until a condition holds that the kernel reports to nobody, such as that a process
// has executed its program. After a minute it reports false.
func Await(holds func() bool) bool {
	over := time.After(time.Minute)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-over:
			return holds()
		}
	}
	return true
}
