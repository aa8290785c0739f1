# Pipes shells into shells, with substitutions and here-documents without end.
# ends: anyhow
# timeout: 1s
tried pipes
ulimit -u unlimited 2>/dev/null; ulimit -n unlimited 2>/dev/null; ulimit -v unlimited 2>/dev/null
x=$(yes | head -c 60000000) 2>/dev/null
f() { cat <(f) <(f) | f; }
f
