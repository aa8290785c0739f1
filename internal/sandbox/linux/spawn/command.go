package spawn

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Address and maximum size of a command in the memory of the process that executes it.
// spawn_amd64.s uses both.
const (
	commandAddress = 0x10000000
	mostCommand    = 1 << 20
)

// EncodeCommand returns a command in its memory layout, in the order in which
// spawn_amd64.s reads it.
func EncodeCommand(folder string, argv, env []string, report int) ([]byte, error) {
	const header, pointer = 5 * 8, 8
	lists := header + pointer*(len(argv)+1+len(env)+1)
	var text []byte
	place := func(s string) uint64 {
		at := commandAddress + lists + len(text)
		text = append(append(text, s...), 0)
		return uint64(at)
	}
	le := binary.LittleEndian
	head := le.AppendUint64(nil, place(folder))
	head = le.AppendUint64(head, place(argv[0]))
	head = le.AppendUint64(head, commandAddress+header)
	head = le.AppendUint64(head, uint64(commandAddress+header+pointer*(len(argv)+1)))
	head = le.AppendUint64(head, uint64(report))
	for _, list := range [][]string{argv, env} {
		for _, s := range list {
			head = le.AppendUint64(head, place(s))
		}
		head = le.AppendUint64(head, 0)
	}
	if len(head)+len(text) > mostCommand {
		return nil, errors.New("a command that is too long")
	}
	return slices.Concat(head, text), nil
}
