package executor

import (
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A variable set to its default value does not make a program start cold.
func TestStartsAlike(t *testing.T) {
	for entry, want := range map[string]bool{
		"MPLBACKEND=Agg": true, "PYTHONUNBUFFERED=1": true, "LANG=C.UTF-8": true,
		"LANG=en_US.UTF-8": true, "LANG=de_DE.UTF-8": false,
		"MINE=x": true, "HOME=/": true,
		"MPLBACKEND=svg": false, "PYTHONPATH=/x": false, "LD_PRELOAD=x": false, "LC_ALL=C": false, "OMP_NUM_THREADS=4": false,
	} {
		name, value, _ := strings.Cut(entry, "=")
		spec := sandboxtest.Python("")
		spec.Env = map[string]string{name: value}
		if got := startsAlike(spec); got != want {
			t.Errorf("%s: %v", entry, got)
		}
	}
}

func TestTierOf(t *testing.T) {
	for code, want := range map[string]string{
		"print(1)": "bare", "import numpy as np": "numpy", "from pandas import DataFrame": "pandas",
		"import os, sys, matplotlib.pyplot":   "full",
		"def f():\n    import seaborn as sns": "full", "import numpy\nimport pandas": "pandas", "x = 'matplotlib'": "bare",
		"importpandas":    "bare",
		"import numpyish": "standard", "import os, json\nimport asyncio": "standard", "import os, json": "light",
		"import os, sys": "bare", "import json\nimport asyncio": "standard", "import asyncio, numpy": "numpy",
		"from scipy.stats import norm": "numpy",
	} {
		if got := tierOf(language.Imports(code)); got != want {
			t.Errorf("%q: %s, want %s", code, got, want)
		}
	}
}

// Package tools of a program without a network give up at once.
func TestVariablesWithoutNetwork(t *testing.T) {
	const entry = "npm_config_fetch_retries=0"
	spec := sandboxtest.Spec("bash", "npm install x")
	if got := Variables(spec); !slices.Contains(got, entry) {
		t.Errorf("without a network: %q", got)
	}
	spec.Network = &engine.ProxySettings{}
	if got := Variables(spec); slices.Contains(got, entry) {
		t.Errorf("with a network: %q", got)
	}
}
