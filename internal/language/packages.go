package language

// Names of the sets of Python packages.
const (
	CurrentPackages   = "current"   // the newest versions
	OnyxPackages      = "onyx"      // what Onyx's image has
	LibreChatPackages = "librechat" // what LibreChat's image has
	OwnPackages       = "own"       // what the operator's own file asks for, and nothing else
)

// PackageSets returns the names of the sets of Python packages that can be
// installed.
func PackageSets() []string {
	return []string{CurrentPackages, OnyxPackages, LibreChatPackages, OwnPackages}
}
