package reply

import "strings"

// class says what a language word means for a fence.
type class uint8

const (
	classCode   class = 1 << iota
	classMarkup       // may hold fences of its own
	classShell        // commands more often than a file
	classOutput       // what a program printed: never a file unless named
	classDiff
	classPlain // text, or no word at all
)

// dialect is a language word as models write it after a fence.
type dialect struct {
	class class
	// family joins words and file extensions that fit each other.
	family string
}

// languages are the words that are a language and never a path. The list is for
// telling a language from a path, so what is missing from it costs little.
var languages = buildLanguages()

// extensions are endings by which a single word is known to be a file's name.
var extensions = buildExtensions()

func buildLanguages() map[string]dialect {
	m := make(map[string]dialect, 256)
	add := func(c class, family, words string) {
		for word := range strings.FieldsSeq(words) {
			m[word] = dialect{c, family}
		}
	}
	add(classCode, "js", "javascript js jsx mjs cjs node.js node next.js react react.js vue.js three.js express.js "+
		"typescript ts tsx mts cts javascriptreact typescriptreact")
	add(classCode, "py", "python py python3 py3 python2 pyi ipython cython pyx")
	add(classCode, "c", "c h cpp c++ cc cxx hpp h++ hxx objective-c objc objectivec objective-c++ objc++ cuda cu arduino")
	add(classCode, "cs", "c# csharp cs f# fsharp fs vb vb.net vbnet .net asp.net razor cshtml")
	add(classCode, "jvm", "java kotlin kt kts scala groovy gradle clojure clj")
	add(classCode, "go", "go golang gomod go-mod templ")
	add(classCode, "rust", "rust rs")
	add(classCode, "ruby", "ruby rb erb")
	add(classCode, "php", "php blade")
	add(classCode, "swift", "swift")
	add(classCode, "dart", "dart")
	add(classCode, "lua", "lua luau")
	add(classCode, "perl", "perl pl raku")
	add(classCode, "r", "r rlang")
	add(classCode, "julia", "julia jl")
	add(classCode, "hs", "haskell hs elm purescript idris agda")
	add(classCode, "ml", "ocaml ml reason rescript sml fsi")
	add(classCode, "beam", "elixir ex exs erlang erl gleam heex eex")
	add(classCode, "zig", "zig nim crystal cr odin v d solidity sol move cairo vyper")
	add(classCode, "asm", "asm assembly nasm armasm llvm wasm wat verilog systemverilog vhdl")
	add(classCode, "css", "css scss sass less stylus postcss")
	add(classCode, "sql", "sql postgresql postgres mysql sqlite plsql tsql pgsql")
	add(classCode, "graphql", "graphql gql")
	add(classCode, "proto", "protobuf proto proto3 thrift capnp")
	add(classCode, "json", "json json5 jsonc jsonl ndjson geojson webmanifest")
	add(classCode, "yaml", "yaml yml toml ini cfg conf config properties env dotenv editorconfig hcl terraform tf nix "+
		"nginx apache apacheconf systemd")
	add(classCode, "make",
		"make makefile cmake docker dockerfile containerfile just justfile bazel starlark meson ninja procfile")
	add(classCode, "xml", "xml xsl xslt xsd plist svg xaml")
	add(classCode, "web", "vue svelte astro handlebars hbs mustache jinja jinja2 twig liquid ejs pug haml django njk")
	add(classCode, "misc", "prisma csv tsv regex vim viml lisp elisp scheme racket fortran cobol ada pascal delphi "+
		"matlab octave prolog tcl awk sed ignore gitignore http rest mermaid plantuml dot graphviz latex-math math ebnf "+
		"bnf abnf bibtex gherkin feature cypher kusto promql glsl hlsl wgsl gdscript bicep rego cue dhall jsonnet pkl")
	add(classMarkup, "md", "markdown md mdx rst restructuredtext asciidoc adoc org mkd quarto qmd rmd")
	add(classMarkup, "html", "html htm xhtml")
	add(classMarkup, "tex", "tex latex")
	add(classShell, "sh", "bash sh shell zsh fish ksh powershell ps1 pwsh ps bat batch cmd dos")
	add(classOutput, "", "console terminal shell-session shellsession sh-session bash-session output stdout stderr log "+
		"logs result tree traceback stacktrace")
	add(classDiff, "", "diff patch udiff unified-diff git-diff")
	add(classPlain|classMarkup, "txt", "text txt plaintext plain none")
	return m
}

func buildExtensions() map[string]string {
	m := make(map[string]string, 256)
	add := func(family, words string) {
		for word := range strings.FieldsSeq(words) {
			m[word] = family
		}
	}
	add("js", "js jsx mjs cjs ts tsx mts cts")
	add("py", "py pyi pyx pyw ipynb")
	add("c", "c h cc cpp cxx hpp hh hxx m mm cu ino")
	add("cs", "cs fs fsx vb csproj fsproj vbproj sln cshtml razor props targets")
	add("jvm", "java kt kts scala groovy gradle clj cljs")
	add("go", "go mod sum work templ")
	add("rust", "rs")
	add("ruby", "rb erb gemspec rake ru")
	add("php", "php phtml")
	add("swift", "swift")
	add("dart", "dart")
	add("lua", "lua")
	add("perl", "pl pm t")
	add("r", "r")
	add("julia", "jl")
	add("hs", "hs elm purs cabal")
	add("ml", "ml mli re res")
	add("beam", "ex exs erl hrl gleam heex leex")
	add("zig", "zig zon nim cr odin v d sol cairo vy")
	add("asm", "asm s ll wat sv vhd vhdl")
	add("css", "css scss sass less styl pcss")
	add("sql", "sql")
	add("graphql", "graphql gql graphqls")
	add("proto", "proto thrift capnp")
	add("json", "json json5 jsonc jsonl ndjson geojson webmanifest map lock")
	add("yaml", "yaml yml toml ini cfg conf config properties env hcl tf tfvars nix service timer socket desktop "+
		"editorconfig")
	add("make", "mk cmake dockerfile bzl bazel ninja just")
	add("xml", "xml xsl xslt xsd plist svg xaml storyboard xib pom")
	add("web", "vue svelte astro hbs mustache j2 jinja jinja2 twig liquid ejs pug haml njk tpl tmpl")
	add("misc", "prisma csv tsv vim el lisp scm rkt f90 f95 cob adb pas tcl awk http rest mmd puml dot gv bib feature "+
		"cypher glsl vert frag hlsl wgsl gd tscn bicep rego cue jsonnet pkl")
	add("md", "md mdx rst adoc asciidoc markdown org qmd rmd")
	add("html", "html htm xhtml")
	add("tex", "tex sty cls")
	add("sh", "sh bash zsh fish ksh ps1 psm1 psd1 bat cmd")
	add("txt", "txt text log")
	add("patch", "diff patch")
	add("binary", "png jpg jpeg gif webp ico pdf zip gz tgz woff woff2 ttf otf mp3 mp4 wav xlsx docx pptx bin wasm")
	return m
}

// wellKnown are names of files without a telling extension.
var wellKnown = map[string]string{
	"Dockerfile": "make", "Containerfile": "make", "Makefile": "make", "GNUmakefile": "make", "Justfile": "make",
	"justfile":       "make",
	"CMakeLists.txt": "make", "Procfile": "yaml", "Jenkinsfile": "jvm", "Vagrantfile": "ruby", "Gemfile": "ruby",
	"Rakefile": "ruby",
	"Podfile":  "ruby", "Brewfile": "ruby", "Fastfile": "ruby", "Caddyfile": "yaml", "Tiltfile": "py", "BUILD": "py",
	"WORKSPACE": "py",
	"LICENSE":   "txt", "LICENCE": "txt", "COPYING": "txt", "NOTICE": "txt", "AUTHORS": "txt", "CONTRIBUTORS": "txt",
	"CODEOWNERS": "txt",
	"README":     "txt", "CHANGELOG": "txt", "VERSION": "txt", "TODO": "txt", "INSTALL": "txt",
	"go.mod": "go", "go.sum": "go", "go.work": "go", "Pipfile": "yaml", "pre-commit": "sh", "gradlew": "sh", "mvnw": "sh",
	".gitignore": "misc", ".dockerignore": "misc", ".npmignore": "misc", ".eslintignore": "misc",
	".prettierignore": "misc",
	".gitattributes":  "misc", ".gitmodules": "yaml", ".gitkeep": "txt", ".keep": "txt", ".editorconfig": "yaml",
	".npmrc": "yaml",
	".nvmrc": "txt", ".node-version": "txt", ".python-version": "txt", ".ruby-version": "txt", ".tool-versions": "txt",
	".env": "yaml", ".envrc": "sh", ".flaskenv": "yaml", ".prettierrc": "json", ".eslintrc": "json", ".babelrc": "json",
	".stylelintrc":    "json",
	".browserslistrc": "txt", ".swcrc": "json", ".yarnrc": "yaml", ".bashrc": "sh", ".zshrc": "sh", ".profile": "sh",
	".bash_profile": "sh",
	".vimrc":        "misc", ".htaccess": "yaml", ".clang-format": "yaml", ".clang-tidy": "yaml", ".pylintrc": "yaml",
	".flake8":     "yaml",
	".coveragerc": "yaml", ".mailmap": "txt", ".rspec": "txt", ".cursorrules": "md", ".air.toml": "yaml",
}

// language looks a word up, in any case.
func language(word string) (dialect, bool) {
	if d, ok := languages[word]; ok {
		return d, true
	}
	if len(word) > 20 {
		return dialect{}, false
	}
	d, ok := languages[strings.ToLower(word)]
	return d, ok
}

// family is the family of a file by its name, "" if it is not known.
func family(path string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	if f, ok := wellKnown[base]; ok {
		return f
	}
	if strings.HasPrefix(base, ".env.") {
		return "yaml"
	}
	if strings.HasPrefix(base, "Dockerfile.") {
		return "make"
	}
	dot := strings.LastIndexByte(base, '.')
	if dot < 0 || len(base)-dot > 16 {
		return ""
	}
	return extensions[strings.ToLower(base[dot+1:])]
}

// isMarkup reports whether a file may hold fences of its own by its name.
func isMarkup(path string) bool {
	switch family(path) {
	case "md", "html", "tex", "txt":
		return true
	}
	return false
}

// fits reports whether a fence's language can be that of a file. It is asked
// where the path was not given with the language, but found near it.
func fits(lang, path string) bool {
	d, known := language(lang)
	if !known {
		return true
	}
	f := family(path)
	switch {
	case d.class&classOutput != 0:
		return false
	case d.class&classPlain != 0:
		return f == "" || f == "txt" || f == "md" || f == "misc" || f == "yaml"
	case d.class&classDiff != 0, f == "":
		return d.class&classShell == 0 || !strings.Contains(path, ".")
	case d.family == f:
		return true
	}
	return alike(d.family, f)
}

// alike reports whether models write one family's word over another's file.
func alike(lang, file string) bool {
	switch lang {
	case "js":
		return file == "web" || file == "json" // ```js over .eslintrc, App.vue
	case "html", "xml":
		return file == "web" || file == "html" || file == "xml" || file == "php" || file == "cs"
	case "web", "php":
		return file == "html" || file == "web"
	case "sh", "make":
		return file == "yaml" || file == "make" || file == "sh" // .env, Procfile
	case "yaml":
		return file == "misc" || file == "make" || file == "sh" // .env.example, .envrc
	case "md", "json", "misc", "tex":
		return file == "txt" || lang == "json" && file == "yaml"
	case "css":
		return file == "web"
	case "ruby", "jvm", "py":
		return file == "web" || file == "yaml" || file == "make"
	case "cs":
		return file == "xml" || file == "html"
	}
	return false
}
