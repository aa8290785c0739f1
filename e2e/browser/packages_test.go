package browser

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/e2e/indextest"
)

// TestNotebookPackages installs a package in a notebook, with permission, and changes what its programs may contact.
func TestNotebookPackages(t *testing.T) {
	x := indextest.New(t, skip)
	s := &service{t: t, data: ownFolder(t), env: x.Env(),
		args: []string{"--network-allow", "packages", "--network-private", x.Subnet}}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	b := open(t, light)
	b.notebook(s, "kept = 41", "import greeting\nprint(greeting.greet(), kept)")
	b.runAll()
	b.wait(`document.querySelectorAll('.cell')[1].dataset.state === 'error'`)
	b.click("#install")
	b.wait(`document.querySelector('#look input[name=names]')`)
	if got := b.text("#look-body"); !strings.Contains(got, "may contact the package registries") ||
		!strings.Contains(got, "allowed by the operator") || !strings.Contains(got, "The cells cannot") {
		t.Errorf("it asks for permission so: %s", got)
	}
	b.examine("install-package")
	b.axeInEachLook("install a package")
	b.do(typed("#look input[name=names]", "greeting"))
	b.run(`document.querySelector('#look form').requestSubmit()`)
	b.wait(`document.querySelector('#look [role=status]')?.innerText.startsWith('Installed: greeting')`)
	b.wait(`document.querySelector('#look .console').innerText.includes('Successfully installed greeting')`)
	b.axeInEachLook("an installed package")
	b.run(`document.querySelector('#look').close(); document.querySelectorAll('.cell-run')[1].click()`)
	b.idle()
	b.wait(`document.querySelectorAll('.cell-out')[1].innerText.trim() === 'hello from a package 41'`)
	b.wait(`document.querySelector('#network-summary').innerText.includes('contact nothing')`)
	b.saved()
	if file := b.exported("#export-ipynb"); !strings.Contains(file, `"packages": [`) {
		t.Error("the notebook does not say what it needs")
	}

	// A package that is not there: what the installer says is shown.
	b.click("#install")
	b.wait(`document.querySelector('#look input[name=names]')`)
	b.do(typed("#look input[name=names]", "nowhere-to-be-found"))
	b.run(`document.querySelector('#look form').requestSubmit()`)
	b.wait(`document.querySelector('#look .problem')?.innerText.includes('It was not installed')`)
	b.run(`document.querySelector('#look').close()`)

	// Network: what is granted, by whom; refused is what the operator does not allow.
	b.click("#network-change")
	b.wait(`document.querySelector('#look .rule-form input')`)
	b.axeInEachLook("network")
	b.do(typed("#look .rule-form input", "elsewhere.example"))
	b.run(`document.querySelector('#look .rule-form').requestSubmit()`)
	b.wait(`document.querySelector('#look .problem')?.innerText.includes('"elsewhere.example" is not allowed')`)
	b.do(typed("#look .rule-form input", "packages"))
	b.run(`document.querySelector('#look .rule-form').requestSubmit()`)
	b.wait(`document.querySelector('#look .rules button')`)
	b.wait(`document.querySelector('#network-summary').innerText.includes('you allowed it for this notebook')`)
	b.wait(`document.querySelector('#state').textContent === 'restarted'`)
	b.examine("network-granted")
	b.axeInEachLook("network that is granted")
	b.run(`document.querySelector('#look .rules button').click()`)
	b.wait(`document.querySelector('#network-summary').innerText.includes('contact nothing')`)
}

// TestNotebookPackagesRefused wants a package where nobody may have a network: it says who can change that.
func TestNotebookPackagesRefused(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.notebook(s, "1")
	b.run(`document.querySelector('#install').click()`)
	b.wait(`document.querySelector('#look-body').innerText.includes('airlock serve --network-allow packages')`)
	if eval[bool](b, `!!document.querySelector('#look-body form button')`) {
		t.Error("it can be installed")
	}
	b.examine("install-refused")
	b.axeInEachLook("packages refused")
}
