package page

import "strings"

// grammar is what the colours of a language need: its comments, strings and words. A lexer
// for each language would know more, but the packages with many languages parse all of them
// at each start of the program.
type grammar struct {
	comments []string    // openers of comments that end with the line
	blocks   [][2]string // openers and ends of other comments
	texts    []string    // quotes of strings that may have several lines
	quotes   string      // quotes of strings that end with the line
	keywords words
	builtins words
	anyCase  bool // keywords may be written in capitals
	tags     bool // strings and keywords are in tags: HTML and XML
	prose    bool // a quote within a word is an apostrophe
}

type words map[string]bool

func list(text string) words {
	set := words{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

// defining are the keywords after which a name has the colour of a definition.
var defining = list("class def enum fn from func function import interface namespace package struct trait type use")

var (
	slashes = []string{"//"}
	hash    = []string{"#"}
	starred = [][2]string{{"/*", "*/"}}
	cWords  = `auto bool break case char const continue default do double else enum extern false float for goto if
		inline int long NULL register return short signed sizeof static struct switch true typedef union unsigned void
		volatile while `
	jsWords = `async await break case catch class const continue debugger default delete do else export extends false
		finally for from function if import in instanceof let new null of return static super switch this throw true try
		typeof undefined var void while with yield `
)

var (
	pythonCode = &grammar{comments: hash, texts: []string{`"""`, "'''"}, quotes: `"'`,
		keywords: list(`and as assert async await break case class continue def del elif else except False finally for
			from global if import in is lambda match None nonlocal not or pass raise return True try while with yield`),
		builtins: list(`abs all any bool bytes dict enumerate filter float format getattr hasattr input int isinstance
			iter len list map max min next object open print property range repr reversed round self set setattr sorted
			str sum super tuple type zip Exception KeyError ValueError TypeError`)}
	shellCode = &grammar{comments: hash, texts: []string{`"`, "'"},
		keywords: list("case do done elif else esac fi for function if in select then until while"),
		builtins: list("cd echo eval exec exit export local printf read return set shift source test trap unset")}
	jsCode = &grammar{comments: slashes, blocks: starred, texts: []string{"`"}, quotes: `"'`, keywords: list(jsWords)}
	tsCode = &grammar{comments: slashes, blocks: starred, texts: []string{"`"}, quotes: `"'`,
		keywords: list(jsWords + `abstract any as boolean declare enum implements interface keyof namespace never number
			private protected public readonly string type unknown`)}
	jsonCode = &grammar{quotes: `"`, keywords: list("false null true")}
	sqlCode  = &grammar{comments: []string{"--"}, blocks: starred, texts: []string{"'"}, quotes: `"`, anyCase: true,
		keywords: list(`all alter and as asc between by case cast create cross delete desc distinct drop else end exists
			from full group having in index inner insert into is join left like limit not null offset on or order outer
			over partition primary key references right select set table then union unique update using values view when
			where with`)}
	rCode = &grammar{comments: hash, quotes: `"'`,
		keywords: list("break else FALSE for function if in Inf NA NaN next NULL repeat return TRUE while library")}
	goCode = &grammar{comments: slashes, blocks: starred, texts: []string{"`"}, quotes: `"'`,
		keywords: list(`break case chan const continue default defer else fallthrough false for func go goto if import
			interface iota map nil package range return select struct switch true type var`),
		builtins: list(`any append bool byte cap clear close copy delete error float64 int int64 len make max min new
			panic print println recover rune string uint64`)}
	rustCode = &grammar{comments: slashes, blocks: starred, quotes: `"`,
		keywords: list(`as async await break const continue crate dyn else enum extern false fn for if impl in let loop
			match mod move mut pub ref return self Self static struct super trait true type unsafe use where while`)}
	javaCode = &grammar{comments: slashes, blocks: starred, texts: []string{`"""`}, quotes: `"'`,
		keywords: list(`abstract assert boolean break byte case catch char class continue default do double else enum
			extends false final finally float for if implements import instanceof int interface long native new null
			package private protected public record return short static super switch synchronized this throw throws
			true try var void while`)}
	cCode   = &grammar{comments: slashes, blocks: starred, quotes: `"'`, keywords: list(cWords)}
	cppCode = &grammar{comments: slashes, blocks: starred, quotes: `"'`,
		keywords: list(cWords + `catch class constexpr delete explicit friend namespace new noexcept nullptr operator
			override private protected public template this throw try typename using virtual`)}
	cssCode    = &grammar{blocks: starred, quotes: `"'`}
	markupCode = &grammar{blocks: [][2]string{{"<!--", "-->"}}, quotes: `"'`, tags: true}
	yamlCode   = &grammar{comments: hash, quotes: `"'`, keywords: list("false no null true yes"), prose: true}
	tomlCode   = &grammar{comments: hash, texts: []string{`"""`, "'''"}, quotes: `"'`, keywords: list("false true")}
	iniCode    = &grammar{comments: []string{"#", ";"}, quotes: `"`, prose: true}
)

// Grammars are found by the names that models give languages.
var Grammars = map[string]*grammar{
	"python": pythonCode, "python3": pythonCode, "py": pythonCode,
	"bash": shellCode, "sh": shellCode, "shell": shellCode, "console": shellCode,
	"javascript": jsCode, "js": jsCode, "jsx": jsCode, "mjs": jsCode,
	"typescript": tsCode, "ts": tsCode, "tsx": tsCode, "json": jsonCode, "sql": sqlCode, "r": rCode, "go": goCode,
	"rust": rustCode, "rs": rustCode, "java": javaCode, "c": cCode, "h": cCode, "c++": cppCode, "cpp": cppCode,
	"css": cssCode, "html": markupCode, "xml": markupCode,
	"yaml": yamlCode, "yml": yamlCode, "toml": tomlCode, "ini": iniCode,
}

// The CSS classes of tokens.
const (
	classKeyword    = "tok-keyword"
	classString     = "tok-string"
	classNumber     = "tok-number"
	classComment    = "tok-comment"
	classDefinition = "tok-definition"
)

// lexer reads code from its beginning. Each token is read once, so the time is linear.
type lexer struct {
	*grammar
	code string
	at   int

	defines bool // the last token but blanks was a keyword of defining
	inTag   bool
	name    bool // a tag's name is next
}

// next returns the end of the next token, and its class.
func (l *lexer) next() (end int, class string) {
	end, class = l.token(l.code[l.at:])
	token := l.code[l.at : l.at+end]
	if class == classKeyword && defining[token] && !l.anyCase {
		l.defines = true
	} else if strings.TrimLeft(token, " \t") != "" {
		l.defines = false
	}
	l.at += end
	return l.at, class
}

func (l *lexer) token(rest string) (size int, class string) {
	c, before := rest[0], byte(' ')
	if l.at > 0 {
		before = l.code[l.at-1]
	}
	for _, block := range l.blocks {
		if inner, ok := strings.CutPrefix(rest, block[0]); ok {
			if i := strings.Index(inner, block[1]); i >= 0 {
				return len(block[0]) + i + len(block[1]), classComment
			}
			return len(rest), classComment
		}
	}
	if l.tags && !l.inTag {
		if c == '<' {
			l.inTag, l.name = true, true
			return 1, ""
		}
		if i := strings.IndexByte(rest, '<'); i > 0 {
			return i, ""
		}
		return len(rest), ""
	}
	for _, opener := range l.comments {
		// $# and &#35; are no comments
		if strings.HasPrefix(rest, opener) && (c != '#' || !isWord(before) && before != '$' && before != '&') {
			return lineEnd(rest), classComment
		}
	}
	for _, quote := range l.texts {
		if strings.HasPrefix(rest, quote) {
			return closing(rest, quote, false), classString
		}
	}
	switch {
	case strings.IndexByte(l.quotes, c) >= 0 && (!l.prose || !isWord(before)):
		return closing(rest, rest[:1], true), classString
	case isDigit(c):
		return numberEnd(rest), classNumber
	case c == '@' && len(rest) > 1 && isWord(rest[1]):
		return 1 + wordEnd(rest[1:]), classDefinition
	case isWord(c):
		if size = wordEnd(rest); before == '.' {
			return size, "" // an attribute, whatever its name
		}
		return size, l.class(rest[:size])
	case c == '>':
		l.inTag = false
	}
	return 1, ""
}

func (l *lexer) class(word string) string {
	name := l.name
	l.name = false
	if l.anyCase {
		word = strings.ToLower(word)
	}
	switch {
	case name, l.keywords[word]:
		return classKeyword
	case l.defines, l.builtins[word]:
		return classDefinition
	}
	return ""
}

// closing returns where a string ends that begins with a quote: behind the same quote
// without a backslash, at the end of the line or at that of the code.
func closing(text, quote string, oneLine bool) int {
	for i := len(quote); i < len(text); i++ {
		switch {
		case oneLine && text[i] == '\n':
			return i
		case text[i] == '\\' && i+1 < len(text) && text[i+1] != '\n':
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		}
	}
	return len(text)
}

func lineEnd(text string) int {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i
	}
	return len(text)
}

func numberEnd(text string) int {
	for i := 1; i < len(text); i++ {
		exponent := (text[i] == '-' || text[i] == '+') && (text[i-1] == 'e' || text[i-1] == 'E')
		if !isWord(text[i]) && text[i] != '.' && !exponent {
			return i
		}
	}
	return len(text)
}

func wordEnd(text string) int {
	for i := range len(text) {
		if !isWord(text[i]) {
			return i
		}
	}
	return len(text)
}

// isWord takes each byte of a character beyond ASCII for a letter.
func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c >= 0x80
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
