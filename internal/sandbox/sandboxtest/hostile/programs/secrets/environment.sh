# The same in a shell, with what a shell keeps.
# control: host
out=$(env; set; export -p; cat /proc/self/environ /proc/$$/environ /proc/$PPID/environ /proc/1/environ 2>/dev/null | tr '\0' '\n'; history 2>/dev/null; cat ~/.bash_history /root/.bash_history 2>/dev/null)
tried "environment of $$ and $PPID"
case $out in *airlock-"canary"-*) breach "the environment holds the secret" ;; esac
for file in /root/.ssh/id_rsa ~/.ssh/id_ed25519 ~/.aws/credentials ~/.netrc ~/.docker/config.json /var/run/secrets/kubernetes.io/serviceaccount/token /etc/airlock/config.toml /var/lib/airlock/index.db ~/.pgpass ~/.config/gcloud/credentials.db; do
	refused cat "$file"
done
done_
