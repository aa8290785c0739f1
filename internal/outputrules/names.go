package outputrules

import (
	"strings"
	"sync"
)

// nameRule is why files of some names need a person's approval even where approval
// is automatic.
type nameRule struct {
	why   string
	globs []string // of folded names, in any directory
}

// nameRules has the names of files that control which programs run on this computer or on
// another one, or which secrets are used. It applies to all files that leave a sandbox and
// to all changes of a folder. See VersionControl for files that are always refused.
var nameRules = [...]nameRule{
	{"it decides what a build service runs", []string{
		".github/**", ".gitlab-ci.yml", ".gitlab/**", ".circleci/**", ".travis.yml", "azure-pipelines*.{yml,yaml}",
		"jenkinsfile*", ".buildkite/**", ".woodpecker/**", ".woodpecker.{yml,yaml}", ".drone.yml",
		"bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml", "cloudbuild.{yml,yaml,json}",
		"buildspec.{yml,yaml}", "circle.yml", ".gitea/**", ".forgejo/**", ".builds/**", ".cirrus.yml",
		".semaphore/**", "netlify.toml", "procfile",
	}},
	{"it runs when something is committed", []string{
		".husky/**", ".githooks/**", "lefthook*", ".lefthook*", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml",
		".overcommit.yml", ".lintstagedrc*",
	}},
	{"it decides what an editor or a debugger runs", []string{
		".vscode/**", ".idea/**", ".devcontainer/**", ".devcontainer.json", "*.code-workspace", ".zed/**",
		".fleet/**", ".vs/**", "*.suo", "nbproject/**", "*.sublime-project", "*.sublime-workspace", ".gitpod.yml",
		".exrc", "_exrc", ".nvim.lua", ".nvimrc", ".vimrc", "_vimrc", ".gvimrc", "_gvimrc", ".vim/**",
		"vimfiles/**", ".lvimrc", ".local.vimrc", ".ycm_extra_conf.py", ".emacs", ".emacs.el", ".emacs.d/**",
		".dir-locals.el", ".dir-locals-2.el", ".spacemacs", ".nanorc", ".gdbinit", ".lldbinit", ".pdbrc",
		".pdbrc.py", ".project", ".settings/**",
	}},
	{"it tells AI assistants what to do", []string{
		".claude/**", ".claude.json", ".cursor/**", ".cursorrules", ".mcp.json", "mcp.json", "agents.md",
		"agents.override.md", "claude.md", "claude.local.md", "gemini.md", "copilot-instructions.md",
		".windsurf/**", ".windsurfrules", ".continue/**", ".codex/**", ".gemini/**", ".clinerules",
		".clinerules/**", ".roo/**", ".roorules", ".roomodes", ".aider*", ".kiro/**", ".goosehints", ".junie/**",
	}},
	{"a tool runs it when the directory is entered", []string{
		".envrc", ".autoenv*", ".in", ".out", "mise.toml", ".mise.toml", ".mise/**", "mise/config.toml",
		".tool-versions", ".rtx.toml", "flake.nix", "shell.nix", "default.nix", "devenv.nix", "devbox.json",
		".nvmrc", ".node-version", ".python-version", ".ruby-version", ".sdkmanrc",
	}},
	{"it holds settings of the environment or secrets", []string{
		".env*", "*.env", ".flaskenv", ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/**", ".pnpmrc", ".pnpmfile.*",
		".pypirc", ".netrc", "_netrc", ".ssh/**", "authorized_keys", "authorized_keys2",
		"id_{rsa,dsa,ecdsa,ed25519}*", "ssh_config", "sshd_config", ".aws/**", ".azure/**", ".kube/**", ".gnupg/**",
		".docker/**", ".curlrc", "_curlrc", ".wgetrc", ".condarc", ".terraformrc", "terraform.rc", ".my.cnf",
		".pgpass", ".psqlrc", ".sqliterc",
	}},
	{"it decides how Git treats other files", []string{
		".gitattributes", ".gitmodules", ".gitignore", ".gitconfig", ".git-credentials", ".gitmessage", ".mailmap",
		"gi[0-9a-f][0-9a-f]*~[0-9]*",
	}},
	{"a shell or a session runs it when it starts", []string{
		".bash*", ".profile", "_profile", ".zsh*", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc",
		".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".xonshrc", ".elvish/**", "config.fish",
		"fish/conf.d/**", "fish/functions/**", ".xinitrc", ".xprofile", ".xsession*", ".xsessionrc",
		".pam_environment", ".login_conf", "environment.d/**", "profile.d/**", ".screenrc", ".tmux.conf",
		".wezterm.lua", "profile.ps1", "*_profile.ps1", "autoexec.bat", "autoexec.nt", "clink*.lua",
	}},
	{"the desktop or the system starts it by itself", []string{
		"*.desktop", "autostart/**", "systemd/**", "*.{service,timer,socket,automount}", "launchagents/**",
		"launchdaemons/**", "*.plist",
		"crontab", "cron.{d,hourly,daily,weekly,monthly}/**", "start menu/**", "programs/startup/**", "desktop.ini",
		"autorun.inf", "*.{lnk,url,scf,pif,library-ms,searchconnector-ms}",
		"*.{settingcontent-ms,appref-ms,diagcab,theme,themepack}", "ld.so.preload", "ld.so.conf.d/**", "udev/**", "sudoers*",
	}},
	{"it is a program, or opening it runs one", []string{
		"*.{exe,com,scr,bat,cmd,btm,ps1,psm1,psd1,ps1xml,psc1,vbs,vbe,jse,ws,wsf,wsh,wsc,hta}",
		"*.{msi,msp,mst,cpl,reg,inf,ins,dll,ocx,sys,drv,chm,hlp,gadget,application,msc,xll,xbap}",
		"*.{app,workflow,action,prefpane,saver,kext}/**", "*.{command,tool,terminal,scpt,scptd,applescript,pkg,mpkg}",
		"*.{appimage,flatpakref,run,jar,jnlp,deb,rpm,apk,snap}",
		"*.{so,dylib,node}", "*.so.[0-9]*",
	}},
	{"Python runs it by itself", []string{
		"sitecustomize.py", "usercustomize.py", "*.pth", "*.egg-link", "conftest.py", "pyvenv.cfg", "__pycache__/**",
		"*.{pyc,pyo,pyd}", "site-packages/**", "dist-packages/**",
		"._pth", "*._pth", ".pythonrc*", ".pythonstartup*", ".ipython/**", "ipython*_config.py", "jupyter*_config.{py,json}",
		".jupyter/**", ".pylintrc", "pylintrc",
	}},
	{"a build or test tool runs what it says", []string{
		"makefile*", "gnumakefile*", "bsdmakefile*", "*.{mk,mak,make}", "justfile", ".justfile", "rakefile*",
		"*.rake", "taskfile.{yml,yaml}", "taskfile.dist.{yml,yaml}", "cmakelists.txt", "*.cmake",
		"cmakepresets.json", "cmakeuserpresets.json", "meson.build", "sconstruct", "sconscript", "wscript",
		"configure", "configure.ac", "build.ninja", "setup.py", "setup.cfg", "pyproject.toml", "noxfile.py",
		"tox.ini", "pytest.ini", ".pytest.ini", "fabfile.py", "dodo.py", "pipfile", "package.json", "binding.gyp",
		"gulpfile*", "gruntfile*", "jakefile*", "*.config.{js,cjs,mjs,ts,cts,mts}", ".*rc.{js,cjs,mjs,ts}",
		"node_modules/**", ".pnp.*", "bunfig.toml", "deno.{json,jsonc}", "composer.json", "gemfile", "*.gemspec",
		".bundle/**", ".rspec", ".irbrc", ".pryrc", "guardfile", "capfile", "vagrantfile", "berksfile", "build.rs",
		".cargo/**", "rust-toolchain*", "build.zig", "build.xml", "*.gradle", "*.gradle.kts", "gradle.properties",
		"gradlew*", "gradle/wrapper/**", "mvnw*", ".mvn/**", "pom.xml", "build.sbt", "build.sc", "build.bazel",
		"build", "workspace", "workspace.bazel", "module.bazel", "*.bzl", ".bazelrc", ".buckconfig", "mix.exs",
		"rebar.config", "dune", "*.{csproj,fsproj,vbproj,vcxproj,proj,targets,props,sln,slnx}", "nuget.config",
		"global.json", "docker-compose*.{yml,yaml}", "compose*.{yml,yaml}", "tiltfile", "earthfile",
		"skaffold.yaml", ".rprofile", "rprofile.site", ".renviron", "renviron.site", ".rdata", "startup.jl",
		".htaccess", ".user.ini", "web.config", "xmake.lua", "premake5.lua", "package.swift", "podfile",
	}},
	{"it pins what is installed", []string{
		"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb",
		"deno.lock", "cargo.lock", "go.sum", "poetry.lock", "uv.lock", "pipfile.lock", "pdm.lock", "gemfile.lock",
		"composer.lock", "mix.lock", "flake.lock", "packages.lock.json", "pubspec.lock", "package.resolved",
	}},
	{"it may be Windows' short name of another file", []string{
		"*~[0-9]", "*~[0-9].*", "*~[0-9][0-9]*",
	}},
}

// inert are names with a leading dot that no tool obeys.
var inert = map[string]bool{
	".gitkeep": true, ".keep": true, ".nojekyll": true, ".editorconfig": true, ".dockerignore": true, ".npmignore": true,
	".eslintignore": true, ".prettierignore": true,
	".well-known": true,
}

// ruleIndex indexes nameRules, most of which are plain names.
type ruleIndex struct {
	files       map[string]string // by the name of the file
	directories map[string]string // by that of a directory on the way
	globs       []globRule        // the rest
}

type globRule struct{ glob, why string }

var quickRules = sync.OnceValue(func() *ruleIndex {
	r := &ruleIndex{files: map[string]string{}, directories: map[string]string{}}
	for _, rule := range nameRules {
		for _, glob := range rule.globs {
			dir, below := strings.CutSuffix(glob, "/**")
			switch {
			case strings.ContainsAny(dir, "*?[{/"):
				r.globs = append(r.globs, globRule{glob, rule.why})
			case below:
				r.directories[dir] = rule.why
			default:
				r.files[glob] = rule.why
			}
		}
	}
	return r
})

// Sensitive returns why a file of this name needs a person's approval even
// where approval is automatic, "" for all other files.
func Sensitive(path string) string {
	names := strings.Split(strings.ReplaceAll(path, `\`, "/"), "/") // as Windows has it
	for i, name := range names {
		names[i] = bareName(name)
	}
	bare := strings.Join(names, "/")
	rules := quickRules()
	for i, name := range names {
		if why := rules.directories[name]; why != "" && i < len(names)-1 {
			return why
		}
	}
	if why := rules.files[names[len(names)-1]]; why != "" {
		return why
	}
	for _, g := range rules.globs {
		if MatchFrom("**/"+g.glob, bare) {
			return g.why
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") && !inert[name] {
			return "it is hidden, and tools take orders from such files: " + name
		}
	}
	return ""
}
