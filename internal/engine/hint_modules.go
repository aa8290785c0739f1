package engine

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// distributions are the packages that have a module of another name.
var distributions = map[string]string{
	"Crypto": "pycryptodome", "Levenshtein": "python-Levenshtein", "MySQLdb": "mysqlclient", "OpenSSL": "pyOpenSSL",
	"PIL": "Pillow", "attr": "attrs", "azure.storage.blob": "azure-storage-blob", "barcode": "python-barcode",
	"bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil", "discord": "discord.py",
	"docx": "python-docx", "dotenv": "python-dotenv", "faiss": "faiss-cpu", "fitz": "PyMuPDF",
	"flask_cors": "Flask-Cors", "fpdf": "fpdf2", "gi": "PyGObject", "git": "GitPython",
	"googleapiclient": "google-api-python-client", "jose": "python-jose", "jwt": "PyJWT", "kafka": "kafka-python",
	"ldap": "python-ldap", "magic": "python-magic", "multipart": "python-multipart", "nacl": "PyNaCl",
	"pdfminer": "pdfminer-six", "pkg_resources": "setuptools", "distutils": "setuptools", "pptx": "python-pptx",
	"psycopg2": "psycopg2-binary", "serial": "pyserial", "skimage": "scikit-image", "sklearn": "scikit-learn",
	"slugify": "python-slugify", "snowflake.connector": "snowflake-connector-python", "socks": "PySocks",
	"telegram": "python-telegram-bot", "umap": "umap-learn", "usb": "pyusb", "vl_convert": "vl-convert-python",
	"wx": "wxPython", "xgboost": "xgboost-cpu", "yaml": "PyYAML", "zmq": "pyzmq",
}

// namespaces are folders of modules that many packages share: each has its own module in it.
var namespaces = []string{"azure", "google", "google.cloud", "ruamel", "snowflake"}

// notPackages are modules that no registry has under their name: of older versions of Python, of
// other systems, and names that programs give to their own files.
var notPackages = strings.Fields(`
	ConfigParser Queue SocketServer StringIO Tkinter __builtin__ aifc asynchat asyncore audioop cPickle cStringIO cgi
	cgitb chunk commands crypt cookielib httplib imghdr imp lib2to3 mailcap msilib msvcrt nis nntplib ossaudiodev pipes
	sets smtpd sndhdr spwd sunau telnetlib tkinter turtle urllib2 urlparse uu winreg winsound win32api win32com
	win32con xdrlib xmlrpclib
	airlock analysis api app backend base classes cli client common conf config configs constants core data database
	db example examples func functions game helper helpers input lib libs local logger main misc model models module
	modules output plot plots program project script scripts server service services settings shared solution src
	submission task tasks temp test tests tool tools types user users util utilities utils views worker`)

// packagesOfMy matches packages whose names begin like those that programs give to their own files.
var packagesOfMy = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^my(?:sql|py|st|gene)`) })

// isInstallable reports whether a missing module may be that of a package. Python names the first
// part that it does not find: if that is within another module, that one is there.
func isInstallable(module string) bool {
	if strings.HasPrefix(module, "_") || strings.HasPrefix(module, "my") && !packagesOfMy().MatchString(module) {
		return false
	}
	for _, name := range notPackages {
		if name == module {
			return false
		}
	}
	at := strings.LastIndexByte(module, '.')
	if at < 0 {
		return true
	}
	for _, space := range namespaces {
		if space == module[:at] {
			return true
		}
	}
	return false
}

// isOwnModule reports whether a missing module looks like one of the program's own files: one is
// called so, or nearly so.
func isOwnModule(module string, files []string) bool {
	module, _, _ = strings.Cut(module, ".")
	for _, file := range files {
		top, _, below := strings.Cut(file, "/")
		if name := strings.TrimSuffix(top, path.Ext(top)); isAlike(strings.ToLower(name), strings.ToLower(module)) &&
			(below || path.Ext(top) == ".py") {
			return true
		}
		base := path.Base(file)
		if path.Ext(base) == ".py" && isAlike(strings.TrimSuffix(base, ".py"), module) {
			return true
		}
	}
	return false
}

// wheelOf returns the wheel among files that has a module, by its name, or "".
func wheelOf(module string, files []string) string {
	alike := strings.NewReplacer("-", "_", ".", "_")
	wanted, _, _ := strings.Cut(module, ".")
	for _, file := range files {
		name, _, _ := strings.Cut(path.Base(file), "-")
		of := strings.ToLower(alike.Replace(name))
		if strings.HasSuffix(file, ".whl") && isPlain(file) && !strings.Contains(file, "'") &&
			(of == strings.ToLower(wanted) || of == strings.ToLower(alike.Replace(distributionOf(module)))) {
			return file
		}
	}
	return ""
}

// isAlike reports whether two names are equal but for one character, or for two in another order.
func isAlike(a, b string) bool {
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	a, b = a[start:], b[start:]
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

// distributionOf returns the name by which pip installs a module.
func distributionOf(module string) string {
	if name := distributions[module]; name != "" {
		return name
	}
	return strings.ReplaceAll(module, ".", "-")
}

// moduleOf returns the one module of a package that was imported under the package's own name, or "".
func moduleOf(distribution string) string {
	var modules []string
	for module, name := range distributions {
		if strings.EqualFold(name, strings.ReplaceAll(distribution, "_", "-")) && module != distribution {
			modules = append(modules, module)
		}
	}
	if len(modules) != 1 {
		return ""
	}
	return modules[0]
}
