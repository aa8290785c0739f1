package language

import _ "embed"

//go:embed node.cjs
var nodePrelude []byte

// SupportFiles are the files that the sandbox must have in the folder Support,
// by name.
func SupportFiles() map[string][]byte { return map[string][]byte{"node.cjs": nodePrelude} }
