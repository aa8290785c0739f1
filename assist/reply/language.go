package reply

import (
	"slices"
	"strings"
)

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

// dialect is a language word as models write it after a fence. The zero dialect
// is that of an unknown word.
type dialect struct {
	class class
	// family joins words and file extensions that fit each other.
	family string
}

// is reports whether the dialect is of one of the classes.
func (d dialect) is(of class) bool { return d.class&of != 0 }

// known reports whether the word is a language's.
func (d dialect) known() bool { return d.class != 0 }

// families has the words that are a language and never a path, and the
// extensions by which a single word is known to be the name of a file. The
// words tell a language from a path, so a missing one costs little.
var families = [...]struct {
	class                     class
	family, words, extensions string
}{
	{classCode, "js", "javascript js jsx mjs cjs node.js node next.js react react.js vue.js three.js express.js " +
		"typescript ts tsx mts cts javascriptreact typescriptreact", "js jsx mjs cjs ts tsx mts cts"},
	{classCode, "py", "python py python3 py3 python2 pyi ipython cython pyx", "py pyi pyx pyw ipynb"},
	{classCode, "c", "c h cpp c++ cc cxx hpp h++ hxx objective-c objc objectivec objective-c++ objc++ cuda cu " +
		"arduino", "c h cc cpp cxx hpp hh hxx m mm cu ino"},
	{classCode, "cs", "c# csharp cs f# fsharp fs vb vb.net vbnet .net asp.net razor cshtml",
		"cs fs fsx vb csproj fsproj vbproj sln cshtml razor props targets"},
	{classCode, "jvm", "java kotlin kt kts scala groovy gradle clojure clj",
		"java kt kts scala groovy gradle clj cljs"},
	{classCode, "go", "go golang gomod go-mod templ", "go mod sum work templ"},
	{classCode, "rust", "rust rs", "rs"},
	{classCode, "ruby", "ruby rb erb", "rb erb gemspec rake ru"},
	{classCode, "php", "php blade", "php phtml"},
	{classCode, "swift", "swift", "swift"},
	{classCode, "dart", "dart", "dart"},
	{classCode, "lua", "lua luau", "lua"},
	{classCode, "perl", "perl pl raku", "pl pm t"},
	{classCode, "r", "r rlang", "r"},
	{classCode, "julia", "julia jl", "jl"},
	{classCode, "hs", "haskell hs elm purescript idris agda", "hs elm purs cabal"},
	{classCode, "ml", "ocaml ml reason rescript sml fsi", "ml mli re res"},
	{classCode, "beam", "elixir ex exs erlang erl gleam heex eex", "ex exs erl hrl gleam heex leex"},
	{classCode, "zig", "zig nim crystal cr odin v d solidity sol move cairo vyper",
		"zig zon nim cr odin v d sol cairo vy"},
	{classCode, "asm", "asm assembly nasm armasm llvm wasm wat verilog systemverilog vhdl",
		"asm s ll wat sv vhd vhdl"},
	{classCode, "css", "css scss sass less stylus postcss", "css scss sass less styl pcss"},
	{classCode, "sql", "sql postgresql postgres mysql sqlite plsql tsql pgsql", "sql"},
	{classCode, "graphql", "graphql gql", "graphql gql graphqls"},
	{classCode, "proto", "protobuf proto proto3 thrift capnp", "proto thrift capnp"},
	{classCode, "json", "json json5 jsonc jsonl ndjson geojson webmanifest",
		"json json5 jsonc jsonl ndjson geojson webmanifest map lock"},
	{classCode, "yaml", "yaml yml toml ini cfg conf config properties env dotenv editorconfig hcl terraform tf " +
		"nix nginx apache apacheconf systemd",
		"yaml yml toml ini cfg conf config properties env hcl tf tfvars nix service timer socket desktop " +
			"editorconfig"},
	{classCode, "make", "make makefile cmake docker dockerfile containerfile just justfile bazel starlark meson " +
		"ninja procfile", "mk cmake dockerfile bzl bazel ninja just"},
	{classCode, "xml", "xml xsl xslt xsd plist svg xaml", "xml xsl xslt xsd plist svg xaml storyboard xib pom"},
	{classCode, "web", "vue svelte astro handlebars hbs mustache jinja jinja2 twig liquid ejs pug haml django " +
		"njk", "vue svelte astro hbs mustache j2 jinja jinja2 twig liquid ejs pug haml njk tpl tmpl"},
	{classCode, "misc", "prisma csv tsv regex vim viml lisp elisp scheme racket fortran cobol ada pascal delphi " +
		"matlab octave prolog tcl awk sed ignore gitignore http rest mermaid plantuml dot graphviz latex-math " +
		"math ebnf bnf abnf bibtex gherkin feature cypher kusto promql glsl hlsl wgsl gdscript bicep rego cue " +
		"dhall jsonnet pkl",
		"prisma csv tsv vim el lisp scm rkt f90 f95 cob adb pas tcl awk http rest mmd puml dot gv bib feature " +
			"cypher glsl vert frag hlsl wgsl gd tscn bicep rego cue jsonnet pkl"},
	{classMarkup, "md", "markdown md mdx rst restructuredtext asciidoc adoc org mkd quarto qmd rmd",
		"md mdx rst adoc asciidoc markdown org qmd rmd"},
	{classMarkup, "html", "html htm xhtml", "html htm xhtml"},
	{classMarkup, "tex", "tex latex", "tex sty cls"},
	{classShell, "sh", "bash sh shell zsh fish ksh powershell ps1 pwsh ps bat batch cmd dos",
		"sh bash zsh fish ksh ps1 psm1 psd1 bat cmd"},
	{classOutput, "", "console terminal shell-session shellsession sh-session bash-session output stdout stderr " +
		"log logs result tree traceback stacktrace", ""},
	{classDiff, "", "diff patch udiff unified-diff git-diff", ""},
	{classPlain | classMarkup, "txt", "text txt plaintext plain none", "txt text log"},
	{0, "patch", "", "diff patch"},
	{0, "binary", "", "png jpg jpeg gif webp ico pdf zip gz tgz woff woff2 ttf otf mp3 mp4 wav xlsx docx pptx bin wasm"},
}

// wellKnownNames are names of files without a telling extension, by family.
var wellKnownNames = [...]struct{ family, names string }{
	{"make", "Dockerfile Containerfile Makefile GNUmakefile Justfile justfile CMakeLists.txt"},
	{"yaml", "Procfile Caddyfile Pipfile .gitmodules .editorconfig .npmrc .env .flaskenv .yarnrc .htaccess " +
		".clang-format .clang-tidy .pylintrc .flake8 .coveragerc .air.toml"},
	{"jvm", "Jenkinsfile"},
	{"ruby", "Vagrantfile Gemfile Rakefile Podfile Brewfile Fastfile"},
	{"py", "Tiltfile BUILD WORKSPACE"},
	{"txt", "LICENSE LICENCE COPYING NOTICE AUTHORS CONTRIBUTORS CODEOWNERS README CHANGELOG VERSION TODO " +
		"INSTALL .gitkeep .keep .nvmrc .node-version .python-version .ruby-version .tool-versions " +
		".browserslistrc .mailmap .rspec"},
	{"go", "go.mod go.sum go.work"},
	{"sh", "pre-commit gradlew mvnw .envrc .bashrc .zshrc .profile .bash_profile"},
	{"misc", ".gitignore .dockerignore .npmignore .eslintignore .prettierignore .gitattributes .vimrc"},
	{"json", ".prettierrc .eslintrc .babelrc .stylelintrc .swcrc"},
	{"md", ".cursorrules"},
}

var languages, extensions, wellKnown = index()

// index returns the dialects by language word, and the families by extension
// and by well-known name.
func index() (words map[string]dialect, extensions, names map[string]string) {
	words, extensions, names = map[string]dialect{}, map[string]string{}, map[string]string{}
	for _, f := range families {
		for word := range strings.FieldsSeq(f.words) {
			words[word] = dialect{f.class, f.family}
		}
		for extension := range strings.FieldsSeq(f.extensions) {
			extensions[extension] = f.family
		}
	}
	for _, f := range wellKnownNames {
		for name := range strings.FieldsSeq(f.names) {
			names[name] = f.family
		}
	}
	return words, extensions, names
}

// language returns the dialect of a word, in any case.
func language(word string) dialect {
	if d, ok := languages[word]; ok || len(word) > 20 {
		return d
	}
	return languages[strings.ToLower(word)]
}

func isLanguage(word string) bool { return language(word).known() }

// family returns the family of a file by its name, "" if it is unknown.
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

// IsMarkup reports whether a file is a document by its name, and may hold fences of its own.
func IsMarkup(path string) bool {
	return slices.Contains([]string{"md", "html", "tex", "txt"}, family(path))
}

// fits reports whether a fence's language can be that of a file. It decides
// where the path was not given with the language, but found near it.
func fits(lang, path string) bool {
	d, f := language(lang), family(path)
	switch {
	case !d.known():
		return true
	case d.is(classOutput):
		return false
	case d.is(classPlain):
		return f == "" || slices.Contains([]string{"txt", "md", "misc", "yaml"}, f)
	case d.is(classDiff), f == "":
		return !d.is(classShell) || !strings.Contains(path, ".")
	}
	return d.family == f || slices.Contains(strings.Fields(alike[d.family]), f)
}

// alike has the other families of files over which models write a family's words.
var alike = map[string]string{
	"js":   "web json", // ```js over .eslintrc, App.vue
	"html": "web xml php cs", "xml": "web html php cs",
	"web": "html", "php": "html web",
	"sh": "yaml make", "make": "yaml sh", // .env, Procfile
	"yaml": "misc make sh", // .env.example, .envrc
	"md":   "txt", "json": "txt yaml", "misc": "txt", "tex": "txt",
	"css":  "web",
	"ruby": "web yaml make", "jvm": "web yaml make", "py": "web yaml make",
	"cs": "xml html",
}
