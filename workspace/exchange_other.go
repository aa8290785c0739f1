//go:build unix && !linux

package workspace

func moveNew(from int, name string, to int, newName string) error {
	return linkNew(from, name, to, newName)
}

func exchange(int, string, int, string) error { return errNoExchange }
