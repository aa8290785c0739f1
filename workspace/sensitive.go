package workspace

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// sensitive returns why a file needs a person's approval even where approval
// is automatic: whoever writes it decides what runs on this computer or on
// another one, or what secrets are used. "" for all other files.
func sensitive(path string) string {
	path = foldPath(path)
	for _, group := range [...]struct {
		why   string
		globs []string
	}{
		{"it decides what a build service runs", []string{
			".github/**", ".gitlab-ci.yml", ".gitlab/**", ".circleci/**", ".travis.yml", "azure-pipelines.yml", "jenkinsfile", ".buildkite/**", ".woodpecker/**", ".woodpecker.yml", ".drone.yml", "bitbucket-pipelines.yml",
		}},
		{"it runs when something is committed", []string{
			".husky/**", ".githooks/**", "lefthook*", ".lefthook*", ".pre-commit-config.yaml",
		}},
		{"it decides what an editor runs", []string{
			".vscode/**", ".idea/**", ".devcontainer/**", ".devcontainer.json", "*.code-workspace", ".zed/**", ".nvim.lua", ".exrc",
		}},
		{"it tells AI assistants what to do", []string{
			".claude/**", ".cursor/**", ".cursorrules", ".mcp.json", "agents.md", "claude.md", "gemini.md", ".windsurf/**", ".continue/**", ".codex/**",
		}},
		{"it holds settings of the environment or secrets", []string{
			".envrc", ".env", ".env.*", ".env*", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".netrc", "_netrc", ".ssh/**", ".aws/**", ".docker/config.json",
		}},
		{"it decides how Git treats other files", []string{
			".gitattributes", ".gitmodules", ".gitignore", ".gitconfig", ".mailmap",
		}},
		{"a shell runs it when it starts", []string{
			".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
			".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", "config.fish",
		}},
		{"it pins what is installed", []string{
			"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock", "cargo.lock", "go.sum",
			"poetry.lock", "uv.lock", "pipfile.lock", "pdm.lock", "gemfile.lock", "composer.lock", "mix.lock", "flake.lock", "packages.lock.json", "pubspec.lock",
		}},
	} {
		for _, glob := range group.globs {
			if matches("**/"+glob, path) {
				return group.why
			}
		}
	}
	return ""
}

// matches reports whether a path matches a pattern: * and ? within a name, **
// over directories, {a,b}, [a-z]. A pattern without a slash matches in every
// directory.
func matches(pattern, path string) bool {
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	return matchPath(pattern, path)
}

// matchPath matches a pattern from the first directory on.
func matchPath(pattern, path string) bool {
	ok, err := doublestar.Match(pattern, path)
	return err == nil && ok
}
