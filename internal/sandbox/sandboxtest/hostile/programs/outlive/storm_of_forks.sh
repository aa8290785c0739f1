# Forks without pause while its output is taken and its files are collected.
# ends: anyhow
# timeout: 3s
tried storm
f() { while :; do (echo x > "f$RANDOM" & ) ; done; }
for i in 1 2 3 4; do f & done 2>/dev/null
sleep 0.5
done_
exit 0
