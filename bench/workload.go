package main

import (
	"crypto/rand"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

// workload is a program for all contestants, with the file that it reads.
type workload struct {
	name   string // in results
	code   string
	input  string // name of the file beside the program; empty: none
	data   []byte // its content
	output string // name of the file that the program leaves; empty: none
	stdout string // how what it prints begins

	packages bool // it imports what Python does not come with

	prepare string // what an interpreter that stays runs before

	language string // empty: Python
	image    string // name of the image that it runs in; empty: none
	memory   int64  // limit in bytes; 0: the service's default
	wall     string // that it asks for; empty: the service's
	entry    string // name of the program's file; empty: programName
}

const (
	megabyte = 1_000_000
	mebibyte = 1 << 20
)

var printing = workload{name: "print", code: "print(1)", stdout: "1\n"}

// kilobyte is printing with as much output as answers of some length have.
var kilobyte = workload{name: "kilobyte", code: "print('x' * 1023)", stdout: "xxx"}

// plainProgram is the least that a table, a sum by group and a picture take.
//
//go:embed plain.py
var plainProgram string

// newPictures is added to programs that draw. Random bytes behind the picture
// make each one new: a store that keeps contents once must not find it there.
const newPictures = "\nimport os\nwith open('plot.png', 'ab') as picture:\n    picture.write(os.urandom(16))\n"

// drawing returns both programs that read a table of 2,000 rows, group it and
// draw it: the plain one, and examples/plot.py, which takes more care and
// three times as long.
func drawing(root string) (plain, plot workload, err error) {
	table, err := os.ReadFile(filepath.Join(root, "testdata", "sales.csv"))
	if err != nil {
		return plain, plot, err
	}
	code, err := os.ReadFile(filepath.Join(root, "examples", "plot.py"))
	if err != nil {
		return plain, plot, err
	}
	plain = workload{
		name: "plain", input: "sales.csv", data: table, output: "plot.png", stdout: "sales.csv: 2,000 rows",
		packages: true, code: plainProgram + newPictures,
	}
	plot = plain
	plot.name, plot.code = "plot", string(code)+newPictures
	return plain, plot, nil
}

// copying reads 10 MB and writes 10 MB of new bytes.
func copying() workload {
	return workload{
		name: "copy", input: "in.bin", data: noise(10 * megabyte), output: "out.bin", stdout: "10000000\n",
		code: `import os
data = open("in.bin", "rb").read()
with open("out.bin", "wb") as out:
    out.write(os.urandom(16))
    out.write(data[16:])
print(os.path.getsize("out.bin"))
`,
	}
}

// holding only looks at the size of its input: beside the same with a small
// input, the difference is what staging costs.
func holding(size int) workload {
	return workload{
		name: fmt.Sprintf("input-%d", size), input: "in.bin", data: noise(size),
		stdout: fmt.Sprintf("%d\n", size), code: "import os\nprint(os.path.getsize('in.bin'))\n",
	}
}

func noise(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.Read(data) // never fails
	return data
}
